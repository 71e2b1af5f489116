"""What a tick returns, and the ticks of the overview."""

from typing import Literal

from lib.web.openapi.responses.base import Json, Response, Time


class TickReport(Response):
    """The result of a tick."""

    tick_id: int | None
    """The tick's row in `giftcard_ticks`. Null while `GIFTCARD_PAUSED` is set."""
    duplicate: bool
    """A second delivery of the same execution id: no work was done."""
    paused: bool
    """Everything is paused, by the setting or in the database."""
    started: int
    """Handlers started."""
    completed: int
    """Runs that completed their job."""
    retried: int
    """Runs that failed and will be retried."""
    errored: int
    """Runs that failed for good: their jobs are dead letters."""
    snoozed: int
    """Runs that postponed their job."""
    released: int
    """Runs that ended before their handler started: their jobs are queued again."""
    interrupted: int
    """Runs of killed functions that this tick took over. Each is also counted by its outcome."""
    lease_lost: int
    """Runs whose outcome was discarded because another tick had taken over the job."""
    revived: int
    """Dead letters returned to the queue."""
    cancelled: int
    """Runs whose job was cancelled meanwhile."""
    scheduled: int
    """Jobs enqueued by schedules."""
    pgmq: Json
    """What became of the messages of each queue of `GIFTCARD_PGMQ_QUEUES`: how many were `moved`, `repeated`,
    `conflicts` and `refused`, and the `problem` of what stays in the queue."""
    maintenance: Json
    """Results of the maintenance tasks that were due, by name."""
    circuits_opened: list[str]
    circuits_closed: list[str]
    parked: dict[str, str]
    """Stages that lack a setting, with the name of the setting."""
    next_due_at: Time | None
    """When the next job may start. Null if none is known, or if more are due now."""
    stopped_because: Literal["limit", "drained", "budget", "shutdown", "paused", "duplicate"] | None
    """Why the tick ended. `limit`: the maximum number of jobs was started. `drained`: no job is due. `budget`: its time
    was used up. `shutdown`: the platform stopped it."""
    calls: int
    """Database calls."""
    duration_ms: int
    advice: str | None
    """The setting to raise, if the tick stopped at its limit or budget and left due jobs."""


class OverviewTick(Response):
    """A tick."""

    id: int
    source: str | None
    started_at: Time
    ended_at: Time | None
    duration_ms: int | None
    started: int | None
    completed: int | None
    retried: int | None
    errored: int | None
    snoozed: int | None
    interrupted: int | None
    stopped_because: str | None
    error: str | None = None
    """Of the newest tick: why it failed."""


class TickMinute(Response):
    """The ticks that began within one minute."""

    at: Time
    ticks: int
    started: int
    """The jobs that they started."""
    failed: int
    doubled: int
    """Deliveries of the same execution."""
    overlapping: int
    late_s: int | None
    """How many seconds after the full minute the clock called."""
    limit: int
    """Ticks that stopped at their limit."""
    missing: bool


class OverviewTicks(Response):
    """Whether ticks run."""

    last_good: OverviewTick | None
    """The last that ended well."""
    newest: OverviewTick | None
    silent: bool
    """None has ended well for three minutes."""
    silence_began: Time | None
    minutes: list[TickMinute]
    """The last 60, the oldest first."""
