"""Requests about jobs: strict models, so that what is stored is what was sent."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lib.jobs.audit import Reason
from lib.validation import NO_CURSOR, Id, Identifier, Line, Matching, Moment, StageName, StrictModel

# Which of the due jobs of a circuit start first: 10 before 0 before -10.
Priority = Annotated[int, Field(ge=-10, le=10)]


class JobRequest(StrictModel):
    """A job to enqueue. Durations are in seconds.

    `tenant_id`: by default that of the token, or `default`. `payload`: validated by the model of its stage.
    `ttr_seconds`: the time limit of a run; null: that of the stage. `priority`: of the due jobs of a circuit, those
    with the highest start first. `concurrency_key`: of the tenant's jobs with the same one, one runs at a time; null:
    the one that the stage gives its jobs, if any. `delay_seconds`: added to `scheduled_at`, or to the current time.
    """

    stage: StageName
    correlation_id: Identifier
    tenant_id: Identifier | None = None
    dedup_key: Annotated[str, Field(max_length=200)] = ""
    payload: dict[str, Any] = Field(default_factory=dict)
    max_attempts: Annotated[int, Field(ge=1, le=25)] | None = None
    semantics: Literal["at_least_once", "at_most_once"] = "at_least_once"
    ttr_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    retry_delays: (
        Annotated[list[Annotated[float, Field(ge=0, le=86_400)]], Field(min_length=1, max_length=25)] | None
    ) = None
    priority: Priority = 0
    concurrency_key: Identifier | None = None
    scheduled_at: Moment | None = None
    delay_seconds: Annotated[float, Field(ge=0, le=366 * 86_400)] = 0

    def as_row(self, *, tenant_id: str, trigger_type: str) -> dict[str, Any]:
        """Return the job of a tenant, as `lib.jobs.enqueue` prepares it."""
        given = self.model_dump(exclude_none=True)
        row = given | {"tenant_id": tenant_id, "trigger_type": trigger_type, "source": "app"}
        return row if self.scheduled_at is None else row | {"scheduled_at": self.scheduled_at.isoformat()}


class EnqueueRequest(StrictModel):
    """Up to 1,000 jobs to enqueue. `replace`: jobs in `error` or `cancelled` are queued again with this payload."""

    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=1000)]
    replace: bool = False


class Filter(StrictModel):
    """A filter of jobs: all given fields must match.

    `error`: part of the last error, in any case. `error_kind`: the whole kind, as `GET /api/v1/jobs/errors` returns it.
    """

    status: Literal["queued", "running", "completed", "error", "cancelled"] | None = None
    stage: StageName | None = None
    circuit: Identifier | None = None
    tenant_id: Identifier | None = None
    correlation_id: Identifier | None = None
    error: Identifier | None = None
    error_kind: Identifier | None = None
    batch_id: Id | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    def as_json(self) -> dict[str, str]:
        """Return the given fields, for the database."""
        given = self.model_dump(exclude_none=True)
        return {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in given.items()}


class Page(StrictModel):
    """A page of a list: after or before a cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None
    newer: Id | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Page":
        if self.older is not None and self.newer is not None:
            raise ValueError("older and newer exclude each other")
        return self


class HistoryPage(StrictModel):
    """A page of runs, newest first. `older`: the cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    older: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class FlowPage(StrictModel):
    """A page of the jobs of a flow. `older`: the cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=200)] = 100
    older: Id | None = None


class CircuitPage(StrictModel):
    """A page of circuits, by name. `older`: the cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Annotated[str, Field(max_length=3000), Matching(r"^[^\u0000]+$", NO_CURSOR)] | None = None


class ErrorsQuery(StrictModel):
    """Errors by stage and kind. `since`: only what has failed at this time or later, and the runs that have."""

    stage: StageName | None = None
    since: Moment | None = None
    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class StuckQuery(StrictModel):
    """How long a job may be due, or an order be without a job, and how long a job may snooze, in seconds."""

    due_seconds: Annotated[float, Field(ge=0, le=366 * 86_400)] = 300
    snoozed_seconds: Annotated[float, Field(ge=0, le=366 * 86_400)] = 3600


class RequeueRequest(StrictModel):
    """A requeue of a job. `payload`: a corrected payload. `force`: requeue a completed job too."""

    payload: dict[str, Any] | None = None
    force: bool = False
    reason: Reason | None = None


class ActRequest(StrictModel):
    """An act of an operator on one thing. `reason`: recorded in the audit."""

    reason: Reason | None = None


class BulkRequeueRequest(StrictModel):
    """A requeue of the dead or cancelled jobs that match a filter. An empty filter requires `all`.

    `slowly`: run the first job alone; unless it completes, requeue no other; the others become due at `per_minute`.
    `after`: the cursor of the previous response. `already`: with `slowly`, the sum of `requeued` of all previous
    responses, so that the rate continues and no other job runs alone.
    """

    filter: Filter = Field(default_factory=Filter)
    all: bool = False
    dry_run: bool = False
    slowly: bool = False
    per_minute: Annotated[float, Field(gt=0, le=60_000)] = 10
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    already: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    reason: Reason | None = None


class OperationRequest(StrictModel):
    """An operation on many jobs: those that match `filter`, or those of `job_ids`. An empty filter requires `all`.

    `action`: requeue dead or cancelled jobs, slowly (the first job alone; once it has completed, the others at
    `per_minute`), or cancel jobs that have not ended. `dry_run`: count the jobs and create nothing. `reason`: recorded
    in the audit; required unless `dry_run`.
    """

    action: Literal["requeue", "requeue_slowly", "cancel"]
    filter: Filter = Field(default_factory=Filter)
    job_ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    all: bool = False
    per_minute: Annotated[float, Field(ge=0.001, le=60_000)] = 10
    reason: Reason | None = None
    dry_run: bool = False


class OperationPage(StrictModel):
    """A page of operations, newest first. `older`: the cursor of an earlier page."""

    state: Literal["running", "stopped", "completed", "failed"] | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None


class PauseRequest(StrictModel):
    """The operator who pauses or resumes a stage, and the reason."""

    by: Identifier
    reason: Reason | None = None


# A circuit holds the name of a host, which is longer than an identifier.
LimitName = Annotated[Line, Field(min_length=1, max_length=300)]
LimitKind = Literal["stage", "circuit", "tenant", "key"]


class LimitRemoval(StrictModel):
    """Which limit to remove. `kind`: what `name` names, a stage, a circuit, the stage of a tenant or a concurrency key.

    `tenant_id`: of the kinds `tenant` (`*`: each tenant) and `key`. `reason`: recorded in the audit.
    """

    kind: LimitKind
    name: LimitName
    tenant_id: Identifier | None = None
    reason: Reason | None = None


class LimitRequest(LimitRemoval):
    """A limit to set, in place of the one with the same kind, name and tenant.

    `runs`: the most at once in the whole fleet; 0: none starts. `per_second`, `burst`: the most starts a second, and
    the most at once after a pause (by default those of a second). Null: the default. `until`, or `for_seconds` from
    now: when it ends by itself; by default never.
    """

    runs: Annotated[int, Field(ge=0, le=10_000)] | None = None
    per_second: Annotated[float, Field(ge=0.0001, le=10_000)] | None = None
    burst: Annotated[int, Field(ge=1, le=100_000)] | None = None
    until: Moment | None = None
    for_seconds: Annotated[float, Field(ge=1, le=366 * 86_400)] | None = None


class LimitPage(StrictModel):
    """A page of limits, by kind, name and tenant. `older`: the cursor of an earlier page."""

    kind: LimitKind | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Annotated[str, Field(max_length=12_000), Matching(r"^[^\u0000]+$", NO_CURSOR)] | None = None
