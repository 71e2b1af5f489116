"""Jobs and flows: list, show, enqueue, requeue and cancel."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.schemas import (
    ActRequest,
    BulkRequeueRequest,
    EnqueueRequest,
    ErrorsQuery,
    Filter,
    HistoryPage,
    JobRequest,
    Page,
    RequeueRequest,
    StuckQuery,
)
from lib.operations import Operations
from lib.web import auth
from lib.web.request_data import (
    RevealQuery,
    TenantQuery,
    json_body,
    path_id,
    read_body,
    read_query,
    refuse_nul,
    validated,
)
from lib.web.services import operations

blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1")

# The time limit of one request of a bulk requeue; its response has the cursor of the next one.
_BULK_SECONDS = 40.0


def _operations() -> Operations:
    return operations(current_app, caller=auth.caller())


@blueprint.get("/jobs")
@auth.scope("jobs:read")
def list_jobs() -> dict[str, Any]:
    """Return a page of jobs, newest first."""
    filter_, page, query = read_query(Filter, Page, RevealQuery)
    return _operations().list_jobs(filter_, page, reveal=query.reveal)


@blueprint.post("/jobs")
@auth.scope("jobs:write")
def enqueue() -> tuple[dict[str, Any], int]:
    """Enqueue one job, or up to 1,000 jobs.

    Either all jobs of a request are enqueued or none. A job with the same tenant, correlation id, stage and dedup key
    as an existing one is not enqueued again.
    """
    body = json_body()
    if isinstance(body, dict) and "jobs" in body:
        wanted = validated(EnqueueRequest, body)
    else:
        wanted = EnqueueRequest(jobs=[validated(JobRequest, body)])
    return _operations().enqueue(wanted, trigger_type="api"), 202


@blueprint.get("/jobs/stuck")
@auth.scope("jobs:read", all_tenants=True)
def stuck() -> dict[str, Any]:
    """Return what does not move and why, the worst first.

    Killed runs, jobs that have been due for long, orders without a job, faulty rows, dead letters that do not revive,
    long snoozes and paused schedules; of each kind the oldest 20.
    """
    (query,) = read_query(StuckQuery)
    return _operations().stuck(query)


@blueprint.get("/jobs/errors")
@auth.scope("jobs:read")
def errors() -> dict[str, Any]:
    """Return the errors of dead letters and retried jobs by stage and kind, the most frequent first.

    The kind of an error is its text without what differs from job to job. With `since`, failed runs are counted, too.
    """
    (query,) = read_query(ErrorsQuery)
    return _operations().errors(query)


@blueprint.get("/jobs/<int:job_id>")
@auth.scope("jobs:read")
def show(job_id: int) -> dict[str, Any]:
    """Return a job, and why it is not running."""
    (query,) = read_query(RevealQuery)
    return _operations().job(_checked(job_id), reveal=query.reveal)


@blueprint.get("/jobs/<int:job_id>/history")
@auth.scope("jobs:read")
def history(job_id: int) -> dict[str, Any]:
    """Return a page of the runs of a job, newest first."""
    (page,) = read_query(HistoryPage)
    return _operations().history(_checked(job_id), limit=page.limit, older=page.older)


@blueprint.post("/jobs/<int:job_id>/requeue")
@auth.scope("jobs:write")
def requeue(job_id: int) -> dict[str, Any]:
    """Requeue a job, optionally with a corrected payload.

    The job is due immediately and gets a full set of attempts. A queued or running job is rejected with 409.
    """
    body = read_body(RequeueRequest, optional=True)
    return _operations().requeue(_checked(job_id), payload=body.payload, force=body.force, reason=body.reason)


@blueprint.post("/jobs/requeue")
@auth.scope("jobs:write")
def requeue_jobs() -> dict[str, Any]:
    """Requeue the jobs that match a filter.

    A request works for at most 40 seconds. While `done` is false, repeat it with the returned `after`.
    """
    return _operations().requeue_jobs(read_body(BulkRequeueRequest), budget=_BULK_SECONDS)


@blueprint.post("/jobs/<int:job_id>/cancel")
@auth.scope("jobs:write")
def cancel(job_id: int) -> dict[str, Any]:
    """Cancel a job.

    A running job is cancelled when its run ends. A completed job is rejected with 409.
    """
    body = read_body(ActRequest, optional=True)
    return _operations().cancel(_checked(job_id), reason=body.reason)


@blueprint.post("/flows/<path:correlation_id>/cancel")
@auth.scope("jobs:write")
def cancel_flow(correlation_id: str) -> dict[str, Any]:
    """Cancel a flow: its order and its unfinished jobs.

    Nothing is charged or issued for a cancelled order. To requeue one of its cancelled jobs reopens it.
    """
    (query,) = read_query(TenantQuery)
    refuse_nul(query.tenant_id or "", correlation_id)
    body = read_body(ActRequest, optional=True)
    return _operations().cancel_flow(query.tenant_id, correlation_id, reason=body.reason)


def _checked(job_id: int) -> int:
    return path_id(job_id, name="job_id", missing="job {} does not exist")
