"""The operators' API: find, understand and mend jobs."""

from typing import Any

from flask import Blueprint, current_app, request
from pydantic import BaseModel, TypeAdapter, ValidationError

from lib.operations import Operations
from lib.requests import BulkRequeueRequest, EnqueueRequest, Filter, JobRequest, Page, PauseRequest, RequeueRequest
from lib.web import doors
from lib.web.app import operations
from lib.web.bodies import checked, read, value
from lib.web.problems import Problem, from_validation

blueprint = Blueprint("jobs", __name__, url_prefix="/api/v1")

# One request's part of bulk work, in seconds; the answer says how to go on.
_BULK_SECONDS = 40.0
_FLAG: TypeAdapter[bool] = TypeAdapter(bool)


def _operations() -> Operations:
    return operations(current_app)


def _query(*models: type[BaseModel]) -> list[Any]:
    """The query string, shared out among models; a parameter that none of them knows is refused."""
    given = {name: values[-1] for name, values in request.args.to_dict(flat=False).items()}
    for name, values in request.args.to_dict(flat=False).items():
        if len(values) > 1:
            raise Problem(422, "the query is not valid", detail=f"{name} is given twice", field=name)
    made = []
    for model in models:
        own = {name: given.pop(name) for name in list(given) if name in model.model_fields}
        try:
            made.append(model.model_validate_strings(own, strict=False))
        except ValidationError as error:
            raise from_validation(error, what="query") from None
    given.pop("reveal", None)
    if given:
        name = min(given)
        raise Problem(422, "the query is not valid", detail=f"there is no parameter {name[:50]}", field=name[:50])
    return made


def _reveal() -> bool:
    try:
        return _FLAG.validate_strings(request.args.get("reveal", "false"))
    except ValidationError:
        raise Problem(422, "the query is not valid", detail="reveal must be true or false", field="reveal") from None


@blueprint.get("/jobs")
@doors.admin
def list_jobs() -> dict[str, Any]:
    """A page of jobs, the newest first."""
    wanted, page = _query(Filter, Page)
    return _operations().list_jobs(wanted, page, reveal=_reveal())


@blueprint.post("/jobs")
@doors.admin
def enqueue() -> tuple[dict[str, Any], int]:
    """One job, or {"jobs": [up to 1,000]}: all or none."""
    found = value()
    if isinstance(found, dict) and "jobs" in found:
        wanted = checked(EnqueueRequest, found)
    else:
        wanted = EnqueueRequest(jobs=[checked(JobRequest, found)])
    return _operations().enqueue(wanted, trigger_type="api"), 202


@blueprint.get("/jobs/<int:job_id>")
@doors.admin
def show(job_id: int) -> dict[str, Any]:
    """One job, with why it waits."""
    _query()
    return _operations().job(_in_range(job_id), reveal=_reveal())


class _Limit(BaseModel):
    limit: int = 10


@blueprint.get("/jobs/<int:job_id>/history")
@doors.admin
def history(job_id: int) -> dict[str, Any]:
    """Its runs, the newest first."""
    (wanted,) = _query(_Limit)
    if not 1 <= wanted.limit <= 1000:
        raise Problem(422, "the query is not valid", detail="limit must lie between 1 and 1000", field="limit")
    return _operations().history(_in_range(job_id), limit=wanted.limit)


@blueprint.post("/jobs/<int:job_id>/requeue")
@doors.admin
def requeue(job_id: int) -> dict[str, Any]:
    """Back to the queue, perhaps with a corrected payload."""
    wish = read(RequeueRequest, optional=True)
    return _operations().requeue(_in_range(job_id), payload=wish.payload, force=wish.force)


@blueprint.post("/jobs/requeue")
@doors.admin
def requeue_jobs() -> dict[str, Any]:
    """By filter, in bounded steps."""
    return _operations().requeue_jobs(read(BulkRequeueRequest), budget=_BULK_SECONDS)


@blueprint.post("/jobs/<int:job_id>/cancel")
@doors.admin
def cancel(job_id: int) -> dict[str, Any]:
    """Now, or by a wish if it runs."""
    return _operations().cancel(_in_range(job_id))


@blueprint.post("/flows/<path:correlation_id>/cancel")
@doors.admin
def cancel_flow(correlation_id: str) -> dict[str, Any]:
    """What is left of a flow."""
    tenant = request.args.get("tenant_id", "default")
    if "\x00" in tenant + correlation_id:
        raise Problem(400, "an id cannot hold a NUL character")
    return _operations().cancel_flow(tenant, correlation_id)


@blueprint.get("/circuits")
@doors.admin
def circuits() -> dict[str, Any]:
    """Those that are not well."""
    return _operations().circuits()


@blueprint.post("/circuits/<path:name>/reset")
@doors.admin
def reset_circuit(name: str) -> dict[str, Any]:
    """Closed by a person."""
    if "\x00" in name:
        raise Problem(400, "a circuit's name cannot hold a NUL character")
    return _operations().reset_circuit(name)


@blueprint.get("/stages")
@doors.admin
def stages() -> dict[str, Any]:
    """Each stage with its rules in force."""
    return _operations().stages()


@blueprint.post("/stages/<stage>/pause")
@doors.admin
def pause(stage: str) -> dict[str, Any]:
    """Its jobs wait and lose no attempt; `*` pauses everything."""
    wish = read(PauseRequest)
    return _operations().pause(stage, by=wish.by, reason=wish.reason)


@blueprint.post("/stages/<stage>/resume")
@doors.admin
def resume(stage: str) -> dict[str, Any]:
    """The end of a pause."""
    wish = read(PauseRequest)
    return _operations().resume(stage, by=wish.by)


def _in_range(job_id: int) -> int:
    if not 1 <= job_id < 2**63:
        raise Problem(404, f"job {str(job_id)[:30]} does not exist", field="job_id")
    return job_id
