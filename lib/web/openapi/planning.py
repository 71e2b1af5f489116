"""What the API answers about reports, schedules, webhooks, and about itself."""

from typing import Any, Literal

from pydantic import BaseModel

from lib.job import Status
from lib.web.openapi.answers import Json, Time
from lib.webhooks.schemas import Event


class ReportRow(BaseModel):
    """A day's report, in short."""

    tenant_id: str
    day: str
    made_at: Time
    complete: bool
    totals: dict[str, int]


class ReportRows(BaseModel):
    """A page of reports."""

    reports: list[ReportRow]
    older: str | None


class DayReport(ReportRow):
    """A day's report. Minor units."""

    currencies: list[Json]
    failures: list[Json]
    last_days: list[Json]
    paid_without_card: list[Json]


class LastJob(BaseModel):
    """The latest occurrence's job."""

    id: int
    status: Status
    attempts: int
    scheduled_at: Time
    finished_at: Time | None
    last_error: str | None


class Occurrence(LastJob):
    """`time`: the one it was promised for."""

    time: Time
    created_at: Time


class Occurrences(BaseModel):
    """A schedule's jobs, the newest first."""

    occurrences: list[Occurrence]


class ListedSchedule(BaseModel):
    """A schedule."""

    id: int
    version: int
    tenant_id: str
    name: str | None
    status: Literal["active", "paused"]
    schedule: str
    timezone: str
    stage: str
    payload: Json
    type: Literal["AT_LEAST_ONCE", "AT_MOST_ONCE"]
    is_recurring: bool
    max_retry_count: int | None
    retry_delays: list[float] | None
    ttr_seconds: int | None
    missed_policy: Literal["skip", "one", "all"]
    catch_up_seconds: int
    missed_cap: int
    overlap_policy: Literal["skip", "queue", "allow"]
    pause_after_failures: int | None
    next_at: Time | None
    last_at: Time | None
    last_job_id: int | None
    last_job: LastJob | None
    unfinished: int
    failures: int
    missed: int
    skipped: int
    paused_at: Time | None
    paused_by: str | None
    pause_reason: str | None
    created_at: Time
    updated_at: Time


class FoundSchedule(ListedSchedule):
    """A schedule with its next times."""

    next_times: list[Time]


class Schedules(BaseModel):
    """A page of schedules."""

    schedules: list[ListedSchedule]
    older: int | None


class Deleted(BaseModel):
    """For good."""

    id: int
    deleted: bool


class Started(BaseModel):
    """An occurrence now."""

    id: int
    job_id: int


class Endpoint(BaseModel):
    """An address that is told of events."""

    id: int
    tenant_id: str
    url: str
    events: list[Event]
    enabled: bool
    disabled_reason: str | None
    previous_secret_until: Time | None
    created_at: Time
    updated_at: Time


class EndpointWithSecret(Endpoint):
    """The only answer that has the secret."""

    secret: str


class Endpoints(BaseModel):
    """A page of webhook endpoints."""

    endpoints: list[Endpoint]
    older: int | None


class TestSent(BaseModel):
    """A test event is on its way."""

    job_id: int
    event_id: str


class Taken(BaseModel):
    """What a vendor's event became."""

    event_id: str
    kind: str
    repeated: bool


class Document(BaseModel):
    """This description."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
