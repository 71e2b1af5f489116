"""What the API answers, for its description. Rows may come with more than is listed: readers pass over what they do not
know. Times are RFC 3339 in UTC; Postgres' `infinity` is one too."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel

from lib.job import Status
from lib.tick.report import TickReport

Json = dict[str, Any]
Time = Annotated[str, Field(description="RFC 3339")]
Semantics = Literal["at_least_once", "at_most_once"]


class Problem(BaseModel):
    """RFC 9457. `field` names what is at fault."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str | None = None
    field: str | None = None


class Health(BaseModel):
    """Whether the database answers."""

    status: Literal["up", "down"]


class Alert(BaseModel):
    """A trouble that lasts."""

    condition: str
    since: Time
    notified_at: Time | None
    detail: Json


class DeepHealth(BaseModel):
    """What an alert tells of, and how many were sent just now."""

    status: Literal["well", "troubled"]
    alerts: list[Alert]
    told: dict[str, int]


@dataclass(slots=True)
class Told(TickReport):
    """What a tick did. Times in milliseconds."""

    advice: str | None = None


class Report(RootModel[Told]):
    """What a tick did."""


class Picture(BaseModel):
    """The whole picture."""

    now: Time
    schema_: Annotated[dict[str, int], Field(alias="schema")]
    counts: dict[str, dict[str, int]]
    queues: list[Json]
    circuits: "list[Circuit]"
    paused: list[Json]
    paused_by_setting: bool
    stages_not_configured: dict[str, str]
    dead_letters: list[Json]
    paid_without_card: list[Json]
    precision: "list[Precision]"
    ticks: list[Json]
    doctor: "list[Finding]"


class Finding(BaseModel):
    """What the doctor says of one check, and how to mend it."""

    check: str
    level: Literal["green", "yellow", "red"]
    says: str
    mend: str


class Accepted(BaseModel):
    """An order was taken in."""

    correlation_id: str
    tenant_id: str
    status_url: str


class FlowJob(BaseModel):
    """A step of an order."""

    id: int
    stage: str
    dedup_key: str
    status: Status
    attempts: int
    last_error: str | None
    scheduled_at: Time
    revive_at: Time | None
    finished_at: Time | None
    archived_at: Time | None


class Paid(BaseModel):
    """Minor units."""

    amount: int
    currency: str
    provider: str
    paid_at: Time


class Card(BaseModel):
    """Minor units."""

    last4: str
    amount: int
    balance: int
    currency: str
    state: str
    issued_at: Time


class Flow(BaseModel):
    """Where an order stands."""

    tenant_id: str
    correlation_id: str
    jobs: list[FlowJob]
    payment: Paid | None
    card: Card | None


class Waiting(BaseModel):
    """Why a job does not run."""

    reason: str
    text: str
    until: Time | None = None
    since: Time | None = None
    by: str | None = None
    ahead: int | None = None


class ListedJob(BaseModel):
    """A job, all columns of its row."""

    id: int
    tenant_id: str
    correlation_id: str
    stage: str
    dedup_key: str
    circuit: str
    status: Status
    payload: Json
    context: Json
    attempts: int
    max_attempts: int | None
    semantics: Semantics
    ttr_seconds: int | None
    retry_delays: list[float] | None
    scheduled_at: Time
    next_run_at: Time | None
    last_error: str | None
    created_at: Time
    updated_at: Time
    finished_at: Time | None
    waiting_for: Waiting | None


class FoundJob(ListedJob):
    """A job; `archived_at`: when it left for the archive."""

    archived_at: Time | None


class Jobs(BaseModel):
    """A page of jobs."""

    jobs: list[ListedJob]
    older: int | None
    newer: int | None


class Run(BaseModel):
    """One run of a job. Durations in milliseconds."""

    run_no: int
    attempt: int
    status: Literal["SUCCESS", "FAILED", "INTERRUPTED", "SNOOZED", "RELEASED"]
    started_at: Time
    finished_at: Time
    start_delay_ms: float | None
    duration_ms: float
    error: str | None
    next_run_at: Time | None
    lock_owner: str | None
    detail: Json | None


class Runs(BaseModel):
    """A job's runs."""

    runs: list[Run]


class EnqueuedJob(BaseModel):
    """`created`: false for one that was there already."""

    id: int
    status: Status
    created: bool


class Enqueued(BaseModel):
    """In the order of the request."""

    jobs: list[EnqueuedJob]


class Circuit(BaseModel):
    """A circuit that is not well."""

    circuit: str
    state: Literal["closed", "open", "half_open"]
    failures: int
    changed_at: Time | None
    open_until: Time | None


class Precision(BaseModel):
    """How long after its time runs of a stage began."""

    stage: str
    runs: int
    p50_ms: float
    p95_ms: float
    max_ms: float
