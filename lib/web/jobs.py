"""The operators' API: find, understand and mend jobs."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.schemas import BulkRequeueRequest, EnqueueRequest, Filter, JobRequest, Page, PauseRequest, RequeueRequest
from lib.operations import Operations
from lib.web import auth
from lib.web.problems import Problem
from lib.web.queries import Latest, OfTenant, Reveal, query
from lib.web.request_data import checked, read, value
from lib.web.services import operations

blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1")

# One request's part of bulk work, in seconds; the answer says how to go on.
_BULK_SECONDS = 40.0


def _operations() -> Operations:
    return operations(current_app)


@blueprint.get("/jobs")
@auth.admin
def list_jobs() -> dict[str, Any]:
    """Return a page of jobs, newest first."""
    wanted, page, shown = query(Filter, Page, Reveal)
    return _operations().list_jobs(wanted, page, reveal=shown.reveal)


@blueprint.post("/jobs")
@auth.admin
def enqueue() -> tuple[dict[str, Any], int]:
    """Enqueue one job, or up to 1,000 jobs.

    Either all jobs of a request are enqueued or none. A job with the same tenant, correlation id, stage and dedup key
    as an existing one is not enqueued again.
    """
    found = value()
    if isinstance(found, dict) and "jobs" in found:
        wanted = checked(EnqueueRequest, found)
    else:
        wanted = EnqueueRequest(jobs=[checked(JobRequest, found)])
    return _operations().enqueue(wanted, trigger_type="api"), 202


@blueprint.get("/jobs/<int:job_id>")
@auth.admin
def show(job_id: int) -> dict[str, Any]:
    """Return a job, and why it is not running."""
    (shown,) = query(Reveal)
    return _operations().job(_in_range(job_id), reveal=shown.reveal)


@blueprint.get("/jobs/<int:job_id>/history")
@auth.admin
def history(job_id: int) -> dict[str, Any]:
    """Return the runs of a job, newest first."""
    (wanted,) = query(Latest)
    return _operations().history(_in_range(job_id), limit=wanted.limit)


@blueprint.post("/jobs/<int:job_id>/requeue")
@auth.admin
def requeue(job_id: int) -> dict[str, Any]:
    """Requeue a job, optionally with a corrected payload.

    The job is due immediately and gets a full set of attempts. A queued or running job is rejected with 409.
    """
    wish = read(RequeueRequest, optional=True)
    return _operations().requeue(_in_range(job_id), payload=wish.payload, force=wish.force)


@blueprint.post("/jobs/requeue")
@auth.admin
def requeue_jobs() -> dict[str, Any]:
    """Requeue the jobs that match a filter.

    A request works for at most 40 seconds. While `done` is false, repeat it with the returned `after`.
    """
    return _operations().requeue_jobs(read(BulkRequeueRequest), budget=_BULK_SECONDS)


@blueprint.post("/jobs/<int:job_id>/cancel")
@auth.admin
def cancel(job_id: int) -> dict[str, Any]:
    """Cancel a job.

    A running job is cancelled when its run ends. A completed job is rejected with 409.
    """
    return _operations().cancel(_in_range(job_id))


@blueprint.post("/flows/<path:correlation_id>/cancel")
@auth.admin
def cancel_flow(correlation_id: str) -> dict[str, Any]:
    """Cancel the unfinished jobs of a flow."""
    (of,) = query(OfTenant)
    if "\x00" in of.tenant_id + correlation_id:
        raise Problem(400, "an id cannot hold a NUL character")
    return _operations().cancel_flow(of.tenant_id, correlation_id)


@blueprint.get("/circuits")
@auth.admin
def circuits() -> dict[str, Any]:
    """Return the circuits that are not closed or have recent failures."""
    return _operations().circuits()


@blueprint.post("/circuits/<path:name>/reset")
@auth.admin
def reset_circuit(name: str) -> dict[str, Any]:
    """Close a circuit."""
    if "\x00" in name:
        raise Problem(400, "a circuit's name cannot hold a NUL character")
    return _operations().reset_circuit(name)


@blueprint.get("/stages")
@auth.admin
def stages() -> dict[str, Any]:
    """Return each stage with its effective settings."""
    return _operations().stages()


@blueprint.post("/stages/<stage>/pause")
@auth.admin
def pause(stage: str) -> dict[str, Any]:
    """Pause a stage.

    Its jobs wait and use up no attempts. The stage `*` is all of them.
    """
    wish = read(PauseRequest)
    return _operations().pause(stage, by=wish.by, reason=wish.reason)


@blueprint.post("/stages/<stage>/resume")
@auth.admin
def resume(stage: str) -> dict[str, Any]:
    """Resume a paused stage."""
    wish = read(PauseRequest)
    return _operations().resume(stage, by=wish.by)


def _in_range(job_id: int) -> int:
    if not 1 <= job_id < 2**63:
        raise Problem(404, f"job {str(job_id)[:30]} does not exist", field="job_id")
    return job_id
