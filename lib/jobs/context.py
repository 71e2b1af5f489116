"""The context of a run: the job, its deadline, clients that never wait past it, and `once`."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lib.config.settings import Settings
from lib.config.stage_settings import StageSettings
from lib.errors import Declined, LeaseLost, PermanentError, UnknownOutcome
from lib.job import Job
from lib.jobs.clients import Http, Mail
from lib.store.codec import Effect
from lib.store.store import Store

Result = dict[str, Any]
Lookup = Callable[[str], Result | None]

# Clients time out this long before the lease can be taken over, so that the failure can still be settled.
_MARGIN_SECONDS = 1.0
_making = threading.Lock()


@dataclass(slots=True)
class Deadlines:
    """The end of a run's ttr, and the latest end that heartbeats can reach (`time.monotonic()` values)."""

    now: float
    last: float


class Context:
    """The context of one run. Its clients never wait past the deadline.

    Made for each run, so plain, and what few handlers use is made when it is first asked for.
    """

    __slots__ = ("_cancelled", "_claimed", "_job", "deadlines", "settings", "stage_settings", "store")

    def __init__(self, job: Job, store: Store, settings: Settings, deadlines: Deadlines, stage_settings: Any) -> None:
        self._claimed = job
        self._job: Job | None = None
        self._cancelled: threading.Event | None = None
        self.store = store
        self.settings = settings
        self.deadlines = deadlines
        self.stage_settings = stage_settings
        """The stage's own settings, an instance of the model in `@stage(..., settings=...)`; None: it has none."""

    @classmethod
    def for_job(
        cls,
        job: Job,
        *,
        store: Store,
        settings: Settings,
        stage_settings: StageSettings | None = None,
        longest: float = 0,
        since: float | None = None,
    ) -> "Context":
        """Return a context whose ttr starts at `since` (`time.monotonic()`), by default now.

        `longest`: the seconds that heartbeats may extend it to.
        """
        start = time.monotonic() if since is None else since
        deadlines = Deadlines(start + job.ttr, start + max(longest, job.ttr))
        return cls(job, store, settings, deadlines, stage_settings)

    @property
    def job(self) -> Job:
        """A copy of the job. Changing it changes nothing."""
        if self._job is None:
            self._job = replace(self._claimed)
        return self._job

    @property
    def cancelled(self) -> threading.Event:
        """Set once the ttr is over."""
        with _making:  # the tick and the handler may ask for it at once
            if self._cancelled is None:
                self._cancelled = threading.Event()
            return self._cancelled

    @property
    def deadline(self) -> float:
        """The end of the ttr (`time.monotonic()`). A heartbeat moves it."""
        return self.deadlines.now

    @property
    def http(self) -> Http:
        """A client for HTTP calls to vendors."""
        return Http(until=self.until)

    @property
    def mail(self) -> Mail:
        """A client for the mail server."""
        return Mail(self.settings, until=self.until)

    def remaining(self) -> float:
        """Return the seconds until the ttr is over; negative after it."""
        return self.deadline - time.monotonic()

    def heartbeat(self) -> float:
        """Extend the deadline to another ttr from now, for long work. Return the seconds that remain.

        The stage's limit (`longest`, `GIFTCARD_STAGE_<NAME>_LONGEST_SECONDS`) bounds it; without one, it is the ttr.

        Raises:
            LeaseLost: the run has expired, or the job belongs to another run: stop, its result will be dropped.
        """
        if self.cancelled.is_set():
            raise LeaseLost(f"the run of job {self._claimed.id} has expired: its ttr is over")
        extended = min(time.monotonic() + self._claimed.ttr, self.deadlines.last)
        if extended > self.deadline:
            self.store.heartbeat(self._claimed, seconds=max(1.0, extended - time.monotonic()))
            self.deadlines.now = extended
        return self.remaining()

    @property
    def until(self) -> float:
        """The time at which clients time out, so that the failure can still be settled (`time.monotonic()`)."""
        return self.deadline - min(_MARGIN_SECONDS, self._claimed.ttr / 10)

    def once(
        self,
        name: str,
        fn: Callable[[str], Result],
        *,
        lookup: Lookup | None = None,
        repeatable: bool = False,
        of_flow: bool = False,
    ) -> Result:
        """Perform an external effect once, however often the job runs: record the intent, call `fn`, store the result.

        `fn` gets the vendor's idempotency key, the same in every attempt, revival and requeue, and returns JSON. If a
        result is stored, it is returned and `fn` is not called. An unfinished effect (the run was killed or had no
        response) is repeated with the same key while the vendor still knows the key (`GIFTCARD_VENDOR_KEY_HOURS`);
        after that, `lookup(key)` decides: its result counts, None means that the effect never happened. `repeatable`:
        the effect may be repeated at any age (mail). `of_flow`: all jobs of this stage in the flow share the effect,
        whatever their dedup keys (an order is charged once). After `Declined`, the next attempt gets a new key, because
        the vendor would decline the old one again. So it does after a PermanentError of `fn` that is `without_effect`,
        unless an earlier try under this key may have happened: then, too, `lookup` decides.

        Raises:
            UnknownOutcome: the effect may have happened, cannot be repeated, and there is no `lookup`.
            LeaseLost: the job belongs to another run.
        """
        effect = self.store.begin_effect(self._claimed, name=name, of_flow=of_flow)
        if effect.state == "finished" and effect.result is not None:
            return effect.result
        age = effect.age_seconds or 0
        if effect.state == "unfinished" and not repeatable and age > self.settings.giftcard_vendor_key_hours * 3600:
            why = f"{name} was begun too long ago to repeat it"
            found = self._look_up(effect, lookup, why)
            return found or self.once(name, fn, lookup=lookup, of_flow=of_flow)
        try:
            result = fn(effect.vendor_key)
        except PermanentError as refused:
            found = self._resolve(refused, name, effect, lookup)
            if found is None:
                raise
            return found
        return self.store.finish_effect(effect.vendor_key, result=result)

    def _resolve(self, refused: PermanentError, name: str, effect: Effect, lookup: Lookup | None) -> Result | None:
        """Return the result of an effect that is refused now and happened at an earlier try; None: it did not."""
        if isinstance(refused, Declined) or (refused.without_effect and effect.state == "new"):
            self.store.abandon_effect(effect, note=type(refused).__name__)
        elif refused.without_effect:
            return self._look_up(effect, lookup, f"{name} was begun before and is refused now ({refused})")
        return None

    def _look_up(self, effect: Effect, lookup: Lookup | None, why: str) -> Result | None:
        """Return the vendor's result of an effect; None: it never happened, and the next attempt gets a new key."""
        if lookup is None:
            raise UnknownOutcome(
                f"{why}, and the vendor has no lookup: find out what happened, "
                f"then run sql/decide_effect.sql for job {self._claimed.id}"
            )
        try:
            found = lookup(effect.vendor_key)
        except Declined as declined:
            self.store.abandon_effect(effect, note=type(declined).__name__)
            raise
        if found is not None:
            return self.store.finish_effect(effect.vendor_key, result=found)
        self.store.abandon_effect(effect, note="the vendor has no record of it")
        return None
