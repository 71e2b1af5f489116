"""Health, status, alerts and start delays."""

from typing import Annotated, Literal

from pydantic import Field

from lib.web.openapi.responses.base import Json, Response, Time
from lib.web.openapi.responses.circuits import Circuit
from lib.web.openapi.responses.decisions import Difference
from lib.web.openapi.responses.jobs import WaitReason
from lib.web.openapi.responses.limits import Limit


class Health(Response):
    """Whether the database is reachable and accepts writes."""

    status: Literal["up", "down", "read_only", "in_recovery", "disk_full"]
    """`in_recovery`: it is a replica, or is starting after a crash."""
    broken_stages: list[str] = Field(default_factory=list)
    """Stages whose files cannot be loaded: their jobs wait. Absent if there are none."""


class Alert(Response):
    """An alert condition that holds."""

    condition: str
    """The name of the condition."""
    since: Time
    notified_at: Time | None
    """When a channel last accepted a notification that it holds. Null until one does."""
    detail: Json


class DeepHealth(Response):
    """The alert conditions that hold, and the notifications sent by this request."""

    status: Literal["healthy", "unhealthy"]
    """`unhealthy` while at least one condition holds, or a stage is broken."""
    broken_stages: list[str]
    """Stages whose files cannot be loaded: their jobs wait."""
    alerts: list[Alert]
    """The first 200. If there are more, the last is `more:alerts`, with their number as `more` in its detail."""
    notified: dict[str, int]
    """How many notifications this request `sent`, each alert on each channel, and how many `failed`.

    Empty if none were due.
    """


class DoctorCheck(Response):
    """The result of one of the doctor's checks."""

    check: str
    """The name of the check."""
    level: Literal["green", "yellow", "red"]
    message: str
    """What the check found."""
    fix: str
    """How to fix it. Empty if there is nothing to fix."""


class StagePrecision(Response):
    """How long after their due time the runs of a stage began. Milliseconds."""

    stage: str
    runs: int
    """The number of runs measured."""
    p50_ms: float
    p95_ms: float
    max_ms: float


class Precision(Response):
    """Start delays by stage, of the runs that ended within the window."""

    window_seconds: float
    precision: list[StagePrecision]


class KilledRun(Response):
    """A running job whose lease has ended."""

    id: int
    stage: str
    attempts: int
    waiting_for: WaitReason


class Status(Response):
    """The state of the whole system."""

    now: Time
    """The database's clock."""
    schema_: Annotated[dict[str, int], Field(alias="schema")]
    """`version` of the database schema, and `oldest_code`: the oldest code version that it supports."""
    counts: dict[str, dict[str, int]]
    """Number of jobs by stage and status, each counted up to 1000."""
    queues: list[Json]
    """The head of each circuit's queue, up to 200."""
    circuits: list[Circuit]
    """Circuits that are not closed or have recent failures."""
    limits: list[Limit]
    """Limits of runs and of starts, up to 200."""
    paused: list[Json]
    """Paused stages. The stage `*` is all of them."""
    paused_by_setting: bool
    """Whether `GIFTCARD_PAUSED` is set."""
    database: str
    stages_not_configured: dict[str, str]
    """Stages that lack a setting, with the name of the setting."""
    dead_letters: list[Json]
    """The newest 20 jobs in `error`."""
    killed: list[KilledRun]
    """The first 20 running jobs whose lease has ended."""
    differences: list[Difference]
    """The first 20 places where money and cards do not match."""
    precision: list[StagePrecision]
    """Start delays of the last hour."""
    ticks: list[Json]
    """The last 10 ticks."""
    truncated: list[str]
    """The names of the lists above that are cut at their limit."""
    doctor: list[DoctorCheck]
