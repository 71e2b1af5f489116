"""What a tick did, as its callers get it."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from lib.job import Complete, Error, Outcome, Release, Retry, Snooze
from lib.store.codec import Settled

# What lets a tick do more, by what stopped it.
_RAISE = {"limit": "GIFTCARD_JOBS_PER_CRON_RUN", "budget": "GIFTCARD_CONCURRENCY"}
_COUNTED = {Complete: "completed", Retry: "retried", Error: "errored", Snooze: "snoozed", Release: "released"}


@dataclass(slots=True)
class TickReport:
    """These names are kept. `stopped_because`: limit, drained, budget, shutdown, paused, duplicate; times in ms."""

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
    stopped_because: str | None = None
    calls: int = 0
    duration_ms: int = 0

    def count(self, outcome: Outcome, settled: Settled | None) -> None:
        """Adds one settle. `settled` None: the job's row is gone, which is as good as a lost lease."""
        if settled is None or settled.settled == "lease_lost":
            self.lease_lost += 1
        elif settled.status == "cancelled":
            self.cancelled += 1
        else:
            name = _COUNTED[type(outcome)]
            setattr(self, name, getattr(self, name) + 1)

    def as_json(self) -> dict[str, Any]:
        """A plain object."""
        return asdict(self)

    def told(self, *, limited: bool) -> dict[str, Any]:
        """As its caller gets it, with an `advice` where it left due jobs behind. `limited`: the caller wanted it so."""
        setting = None if limited else _RAISE.get(self.stopped_because or "")
        advice = None
        if setting and self.next_due_at and _is_past(self.next_due_at):
            advice = (
                f"jobs are left that are due: if ticks keep stopping at the {self.stopped_because}, raise {setting}"
            )
        return self.as_json() | {"advice": advice}


def _is_past(moment: str) -> bool:
    try:
        return datetime.fromisoformat(moment) <= datetime.now(UTC)
    except ValueError:  # infinity, and years that Python has not
        return moment.startswith("-") or moment.endswith("BC")
