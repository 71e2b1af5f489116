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
    """A page of jobs, the newest first."""
    wanted, page, shown = query(Filter, Page, Reveal)
    return _operations().list_jobs(wanted, page, reveal=shown.reveal)


@blueprint.post("/jobs")
@auth.admin
def enqueue() -> tuple[dict[str, Any], int]:
    """One job, or {"jobs": [up to 1,000]}: all or none."""
    found = value()
    if isinstance(found, dict) and "jobs" in found:
        wanted = checked(EnqueueRequest, found)
    else:
        wanted = EnqueueRequest(jobs=[checked(JobRequest, found)])
    return _operations().enqueue(wanted, trigger_type="api"), 202


@blueprint.get("/jobs/<int:job_id>")
@auth.admin
def show(job_id: int) -> dict[str, Any]:
    """One job, with why it waits."""
    (shown,) = query(Reveal)
    return _operations().job(_in_range(job_id), reveal=shown.reveal)


@blueprint.get("/jobs/<int:job_id>/history")
@auth.admin
def history(job_id: int) -> dict[str, Any]:
    """Its runs, the newest first."""
    (wanted,) = query(Latest)
    return _operations().history(_in_range(job_id), limit=wanted.limit)


@blueprint.post("/jobs/<int:job_id>/requeue")
@auth.admin
def requeue(job_id: int) -> dict[str, Any]:
    """Back to the queue, perhaps with a corrected payload."""
    wish = read(RequeueRequest, optional=True)
    return _operations().requeue(_in_range(job_id), payload=wish.payload, force=wish.force)


@blueprint.post("/jobs/requeue")
@auth.admin
def requeue_jobs() -> dict[str, Any]:
    """By filter, in bounded steps."""
    return _operations().requeue_jobs(read(BulkRequeueRequest), budget=_BULK_SECONDS)


@blueprint.post("/jobs/<int:job_id>/cancel")
@auth.admin
def cancel(job_id: int) -> dict[str, Any]:
    """Now, or by a wish if it runs."""
    return _operations().cancel(_in_range(job_id))


@blueprint.post("/flows/<path:correlation_id>/cancel")
@auth.admin
def cancel_flow(correlation_id: str) -> dict[str, Any]:
    """What is left of a flow."""
    (of,) = query(OfTenant)
    if "\x00" in of.tenant_id + correlation_id:
        raise Problem(400, "an id cannot hold a NUL character")
    return _operations().cancel_flow(of.tenant_id, correlation_id)


@blueprint.get("/circuits")
@auth.admin
def circuits() -> dict[str, Any]:
    """Those that are not well."""
    return _operations().circuits()


@blueprint.post("/circuits/<path:name>/reset")
@auth.admin
def reset_circuit(name: str) -> dict[str, Any]:
    """Closed by a person."""
    if "\x00" in name:
        raise Problem(400, "a circuit's name cannot hold a NUL character")
    return _operations().reset_circuit(name)


@blueprint.get("/stages")
@auth.admin
def stages() -> dict[str, Any]:
    """Each stage with its rules in force."""
    return _operations().stages()


@blueprint.post("/stages/<stage>/pause")
@auth.admin
def pause(stage: str) -> dict[str, Any]:
    """Its jobs wait and lose no attempt; `*` pauses everything."""
    wish = read(PauseRequest)
    return _operations().pause(stage, by=wish.by, reason=wish.reason)


@blueprint.post("/stages/<stage>/resume")
@auth.admin
def resume(stage: str) -> dict[str, Any]:
    """The end of a pause."""
    wish = read(PauseRequest)
    return _operations().resume(stage, by=wish.by)


def _in_range(job_id: int) -> int:
    if not 1 <= job_id < 2**63:
        raise Problem(404, f"job {str(job_id)[:30]} does not exist", field="job_id")
    return job_id
