"""What a handler gets beside its payload: the job, its deadline, clients that never wait past it, and `once`."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lib.clients import Http, Mail
from lib.errors import Declined, UnknownOutcome
from lib.job import Job
from lib.settings import Settings
from lib.store.store import Store

Result = dict[str, Any]

# Clients give up this long before the lease could be taken over, so that the failure can still be settled.
_MARGIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run's surroundings. `deadline` is a `time.monotonic()` value; `cancelled` is set once the ttr is over."""

    job: Job
    store: Store
    settings: Settings
    deadline: float
    cancelled: threading.Event
    http: Http
    mail: Mail

    @classmethod
    def for_job(cls, job: Job, *, store: Store, settings: Settings) -> "Context":
        """A context whose clock starts now."""
        deadline = time.monotonic() + job.ttr
        until = deadline - min(_MARGIN_SECONDS, job.ttr / 10)
        return cls(
            job=job,
            store=store,
            settings=settings,
            deadline=deadline,
            cancelled=threading.Event(),
            http=Http(until=until),
            mail=Mail(settings, until=until),
        )

    def remaining(self) -> float:
        """Seconds until the ttr is over; negative after it."""
        return self.deadline - time.monotonic()

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
