"""Jobs, their runs, and what operators do to them."""

from typing import Literal

from lib.web.openapi.responses.base import JobStatus, Json, Response, Time


class WaitReason(Response):
    """Why a job is not running."""

    reason: str
    """A stable name, such as `due_at`, `circuit_open` or `killed`."""
    text: str
    """The reason as a sentence."""
    until: Time | None = None
    since: Time | None = None
    by: str | None = None
    """Who paused it, or has set the limit that holds it back."""
    ahead: int | None = None
    """Jobs of the same circuit that are older or of higher priority, counted up to 1000."""


class CurrentRun(Response):
    """The run that is under way."""

    run_no: int
    """Counts all runs of the job, from 1."""
    attempt: int
    """Counts the runs of the present round, from 1."""
    started_at: Time | None
    duration_ms: float | None
    """How long it has been running, in milliseconds."""
    deadline_at: Time | None
    """When its time to run ends."""
    lease_expires_at: Time | None
    """From then on a tick takes it over."""
    heartbeat_at: Time | None
    """When a heartbeat last extended the lease. Null: none did."""
    lock_owner: str | None
    """The process of its tick."""
    tick_id: int | None
    """Its tick. Null: it is not among the newest 200."""
    cancel_requested_at: Time | None
    """When an operator asked to cancel the job, else null."""


class Job(Response):
    """A job. Durations are in seconds."""

    id: int
    tenant_id: str
    correlation_id: str
    stage: str
    dedup_key: str
    circuit: str
    status: JobStatus
    source: Literal["app", "pgmq", "sql"]
    """Where the payload comes from: this API and the command line, a message of a queue, or plain SQL."""
    payload: Json
    """Personal data is masked unless the request has `reveal=true`."""
    context: Json
    """Personal data is masked unless the request has `reveal=true`."""
    attempts: int
    max_attempts: int | None
    semantics: Literal["at_least_once", "at_most_once"]
    ttr_seconds: int | None
    """The time limit of a run. Null: the stage's default."""
    retry_delays: list[float] | None
    priority: int
    """Of the due jobs of a circuit, those with the highest start first: 10 to -10."""
    concurrency_key: str | None
    """Of the tenant's jobs with the same key, one runs at a time. Null: it has none."""
    batch_id: int | None = None
    """The batch that it belongs to."""
    scheduled_at: Time
    next_run_at: Time | None
    """When the job is due, or when a dead letter revives."""
    last_error: str | None
    error_kind: str | None
    """The last error without what differs from job to job: ids, numbers, hosts, times, addresses, quoted values."""
    created_at: Time
    updated_at: Time
    finished_at: Time | None
    waiting_for: WaitReason | None
    """Null for a job that is completed or cancelled, or running under a lease that holds."""
    current_run: CurrentRun | None = None
    """Null unless the job is running. Lists omit this field."""
    archived_at: Time | None = None
    """When the job was archived. Lists omit this field and archived jobs."""


class JobPage(Response):
    """A page of jobs, newest first."""

    jobs: list[Job]
    older: int | None
    """The cursor of the next page. Null on the last one."""
    newer: int | None
    """The cursor of the previous page. Null on the first one."""


class Frame(Response):
    """A frame of a traceback: a place in the code, without values."""

    file: str
    """Relative to the project, or to the folder of its package."""
    line: int
    function: str
    own: bool
    """Code of a stage or of what it is made of, not of the engine or of a package."""
    raised: str | None
    """The type of the exception that was raised here."""
    omitted: int
    """How many frames before this one are left out."""


class JobRun(Response):
    """A run of a job. Durations are in milliseconds."""

    job_id: int
    run_no: int
    """Counts all runs of the job, from 1."""
    attempt: int
    """Counts the runs of the present round, from 1."""
    retry_count: int
    """Counts the retries of the present round, from 0: `attempt` minus 1."""
    status: Literal["SUCCESS", "FAILED", "INTERRUPTED", "SNOOZED", "RELEASED"]
    started_at: Time
    finished_at: Time
    start_delay_ms: float | None
    """How long after its due time the run began."""
    duration_ms: float | None
    error: str | None
    next_run_at: Time | None
    lock_owner: str | None
    """The tick that ran it."""
    detail: Json | None
    """What the handler recorded about the run."""
    frames: list[Frame]
    """Where it failed, the causes first, what raised last. Empty for a run that did not fail, or failed as expected."""


class JobHistory(Response):
    """A page of the runs of a job, newest first."""

    runs: list[JobRun]
    older: int | None
    """The cursor of the next page. Null on the last one."""


class EnqueuedJob(Response):
    """A job of an enqueue request."""

    id: int
    status: JobStatus
    created: bool
    """False if the job existed already."""


class EnqueueResult(Response):
    """The jobs of an enqueue request, in the same order."""

    jobs: list[EnqueuedJob]


class RequeueResult(Response):
    """A job returned to the queue."""

    id: int
    was: JobStatus
    """The status before the request."""
    status: JobStatus


class BulkRequeueResult(Response):
    """One step of a bulk requeue. Unless it is `done`, repeat the request with `after`."""

    matched: int
    requeued: int
    done: bool
    after: int
    """The cursor of the next step."""
    dry_run: bool
    stopped_at: int | None = None
    """With `slowly`: the first job, if it did not complete."""
    stopped_because: str | None = None


class CancelResult(Response):
    """The cancellation of a job."""

    id: int
    was: JobStatus
    """The status before the request."""
    status: JobStatus
    cancel_requested: bool
    """The job is running and will be cancelled when its run ends."""


class RestoreResult(Response):
    """A job returned from the archive."""

    id: int
    status: JobStatus
    restored: bool
