"""The report of a tick."""

from dataclasses import asdict, dataclass, field
from typing import Any

from lib.job import Complete, Error, Outcome, Release, Retry, Snooze
from lib.store.codec import Settled

# The setting to raise, by the reason why ticks stop.
_RAISE = {"limit": "GIFTCARD_JOBS_PER_CRON_RUN", "budget": "GIFTCARD_CONCURRENCY"}
_COUNTED = {Complete: "completed", Retry: "retried", Error: "errored", Snooze: "snoozed", Release: "released"}


@dataclass(slots=True)
class TickReport:
    """Field names are a stable interface. `stopped_because`: limit, drained, budget, shutdown, paused or duplicate."""

    tick_id: int | None = None
    duplicate: bool = False
    paused: bool = False
    started: int = 0
    completed: int = 0
    retried: int = 0
    errored: int = 0
    snoozed: int = 0
    released: int = 0
    interrupted: int = 0
    lease_lost: int = 0
    revived: int = 0
    cancelled: int = 0
    scheduled: int = 0
    pgmq: dict[str, Any] = field(default_factory=dict)
    maintenance: dict[str, Any] = field(default_factory=dict)
    circuits_opened: list[str] = field(default_factory=list)
    circuits_closed: list[str] = field(default_factory=list)
    parked: dict[str, str] = field(default_factory=dict)
    next_due_at: str | None = None
    # Seconds from the database's clock to next_due_at; None: never, or an infinite time. Not part of the JSON object.
    next_due_in: float | None = None
    stopped_because: str | None = None
    calls: int = 0
    duration_ms: int = 0

    def count(self, outcome: Outcome, settled: Settled | None) -> None:
        """Count one settle. `settled` None: the job's row is gone, which counts as a lost lease."""
        if settled is None or settled.settled in ("lease_lost", "skipped"):
            self.lease_lost += 1
        elif settled.status == "cancelled":
            self.cancelled += 1
        else:
            name = _COUNTED[type(outcome)]
            setattr(self, name, getattr(self, name) + 1)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {name: value for name, value in asdict(self).items() if name != "next_due_in"}

    def with_advice(self, *, limited: bool) -> dict[str, Any]:
        """Return the fields and `advice`, a sentence if due jobs are left. `limited`: the caller set a limit."""
        setting = None if limited else _RAISE.get(self.stopped_because or "")
        advice = None
        if setting and self._is_due():
            advice = f"due jobs are left: if ticks keep stopping at the {self.stopped_because}, raise {setting}"
        return self.as_json() | {"advice": advice}

    def _is_due(self) -> bool:
        if self.next_due_in is None:
            return (self.next_due_at or "").startswith("-")  # -infinity
        return self.next_due_in <= 0
