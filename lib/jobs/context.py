"""What a handler gets beside its payload: the job, its deadline, clients that never wait past it, and `once`."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lib.config.settings import Settings
from lib.errors import Declined, LeaseLost, UnknownOutcome
from lib.job import Job
from lib.jobs.clients import Http, Mail
from lib.store.store import Store

Result = dict[str, Any]

# Clients give up this long before the lease could be taken over, so that the failure can still be settled.
_MARGIN_SECONDS = 1.0


@dataclass(slots=True)
class Deadlines:
    """When a run's time is over, and when it is over for good, however often it asks for more (`time.monotonic()`)."""

    now: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run's surroundings. `cancelled` is set once the ttr is over. Its clients never wait past the deadline."""

    job: Job
    store: Store
    settings: Settings
    cancelled: threading.Event
    deadlines: Deadlines

    @classmethod
    def for_job(cls, job: Job, *, store: Store, settings: Settings, longest: float = 0) -> "Context":
        """A context whose clock starts now. `longest`: seconds that heartbeats may draw it out to."""
        now = time.monotonic()
        deadlines = Deadlines(now + job.ttr, now + max(longest, job.ttr))
        return cls(job=job, store=store, settings=settings, cancelled=threading.Event(), deadlines=deadlines)

    @property
    def deadline(self) -> float:
        """When the ttr is over, as `time.monotonic()` counts. A heartbeat moves it."""
        return self.deadlines.now

    @property
    def http(self) -> Http:
        """HTTP to vendors."""
        return Http(until=self.until)

    @property
    def mail(self) -> Mail:
        """The mail server."""
        return Mail(self.settings, until=self.until)

    def remaining(self) -> float:
        """Seconds until the ttr is over; negative after it."""
        return self.deadline - time.monotonic()

    def heartbeat(self) -> float:
        """Asks for another ttr from now on, for work that takes longer; answers the seconds that there are then.

        A stage has a limit (`longest`, `GIFTCARD_STAGE_<NAME>_LONGEST_SECONDS`) that no heartbeat goes beyond: without
        one there is no more than its ttr.

        Raises:
            LeaseLost: the run was given up, or the job belongs to another one: stop, nothing you do counts.
        """
        if self.cancelled.is_set():
            raise LeaseLost(f"the run of job {self.job.id} was given up when its ttr was over")
        wanted = min(time.monotonic() + self.job.ttr, self.deadlines.last)
        if wanted > self.deadline:
            self.store.heartbeat(self.job, seconds=max(1.0, wanted - time.monotonic()))
            self.deadlines.now = wanted
        return self.remaining()

    @property
    def until(self) -> float:
        """When clients give up, so that the failure can still be settled (`time.monotonic()`)."""
        return self.deadline - min(_MARGIN_SECONDS, self.job.ttr / 10)

    def once(
        self,
        name: str,
        fn: Callable[[str], Result],
        *,
        lookup: Callable[[str], Result | None] | None = None,
        repeatable: bool = False,
    ) -> Result:
        """Has an effect outside happen once, however often the job runs: an intent row first, the result after.

        `fn` gets the vendor's idempotency key, the same at every attempt, revival and requeue, and answers JSON.
        A result that is there is returned without calling it. An effect found unfinished (the run was killed, or nobody
        knows) is tried again under the same key while the key is surely alive at the vendor
        (`GIFTCARD_VENDOR_KEY_HOURS`); later `lookup(key)` decides: its result counts, None means it never happened.
        `repeatable`: doing it again is acceptable at any age (mail). A `Declined` from `fn` moves on to the key's next
        generation, for the vendor would repeat its no under the old one.

        Raises:
            UnknownOutcome: begun too long ago and nobody to ask.
            LeaseLost: the job belongs to another run now.
        """
        effect = self.store.begin_effect(self.job, name=name)
        if effect.state == "finished" and effect.result is not None:
            return effect.result
        age = effect.age_seconds or 0
        if effect.state == "unfinished" and not repeatable and age > self.settings.giftcard_vendor_key_hours * 3600:
            return self._find_out(name, effect.vendor_key, lookup) or self.once(name, fn, lookup=lookup)
        try:
            result = fn(effect.vendor_key)
        except Declined as no:
            self.store.abandon_effect(effect.vendor_key, note=type(no).__name__)
            raise
        return self.store.finish_effect(effect.vendor_key, result=result)

    def _find_out(self, name: str, key: str, lookup: Callable[[str], Result | None] | None) -> Result | None:
        """Asks the vendor what became of an old effect; None: nothing, and the next generation of the key is free."""
        if lookup is None:
            raise UnknownOutcome(
                f"{name} was begun too long ago to repeat it and there is nobody to ask: find out, then run "
                f"sql/decide_effect.sql for job {self.job.id}"
            )
        found = lookup(key)
        if found is not None:
            return self.store.finish_effect(key, result=found)
        self.store.abandon_effect(key, note="never happened, says the vendor")
        return None
