"""Operations on many jobs: a preview of what one changes, its creation with a reason, its progress, its stop."""

import secrets
from typing import Any

from flask import Blueprint, Response, current_app, request
from flask.typing import ResponseReturnValue

from lib.errors import Invalid, Refused
from lib.jobs.bulk import BulkOperations
from lib.jobs.schemas import Filter, OperationPage, OperationRequest
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.problems import Problem
from lib.web.request_data import IDEMPOTENCY_KEY, path_id, validated
from lib.web.services import services

blueprint = Blueprint("bulk", __name__)

_PATH = "/operations"


@blueprint.get(_PATH)
@session.view("jobs:read", all_tenants=False)
def list_operations() -> ResponseReturnValue:
    """Return a page of operations, newest first."""
    if shorter := filters.without_empty_fields():
        return shorter
    page, wrong = filters.read(OperationPage, request.args)
    found = None if wrong else _bulk().list(page)
    older = found and found["older"] and filters.address(_PATH, {"state": page.state, "older": found["older"]})
    return render.page(
        "operations.html",
        status=422 if wrong else 200,
        given={name: request.args[name] for name in ("state", "older") if name in request.args},
        wrong=wrong,
        found=found,
        older=older,
    )


@blueprint.post(f"{_PATH}/preview")
@session.view("jobs:write", all_tenants=False)
def preview() -> ResponseReturnValue:
    """Return what an operation would change. Nothing is changed."""
    if request.form.get("of") == "selected" and not request.form.getlist("job"):
        raise Problem(
            422, "no job is selected", detail="select jobs in the list, or choose all that match", field="job"
        )
    return _preview(_wanted(), key=secrets.token_urlsafe(24))


@blueprint.post(_PATH)
@session.view("jobs:write", all_tenants=False)
def create() -> ResponseReturnValue:
    """Create an operation and lead to it. A form that is sent twice creates one."""
    key = request.form.get("key", "")
    if not IDEMPOTENCY_KEY.fullmatch(key):
        raise Problem(422, "this form is out of date", detail="nothing was changed: begin at the list again")
    wanted = _wanted()
    wrong: dict[str, str] = {}
    try:
        rate = {"per_minute": _number(request.form["per_minute"])} if request.form.get("per_minute") else {}
        reason = {"reason": request.form["reason"]} if request.form.get("reason", "").strip() else {}
        full = validated(OperationRequest, _sent(wanted) | rate | reason)
        operation = _bulk().create(full, idempotency_key=key)
    except Problem as problem:
        wrong = dict(problem.errors) or {"": actions.sentence_of(problem)}
    except (Invalid, Refused) as error:
        wrong = {error.field or "": str(error)}
    if wrong:
        return _preview(wanted, key=key, wrong=wrong, status=422)
    return actions.act(lambda: None, done=_created(operation), to=f"{_PATH}/{operation['id']}")


@blueprint.get(f"{_PATH}/<int:operation_id>")
@session.view("jobs:read", all_tenants=False)
def show(operation_id: int) -> ResponseReturnValue:
    """Return an operation with its progress."""
    operation = _bulk().find(_checked(operation_id))
    return render.page("operation.html", operation=operation, **progress_of(operation))


@blueprint.post(f"{_PATH}/<int:operation_id>/stop")
@session.view("jobs:write", all_tenants=False)
def stop(operation_id: int) -> ResponseReturnValue:
    """Stop an operation."""
    return actions.act(
        lambda: _bulk().stop(_checked(operation_id)),
        done="Stopped. What it has changed stays.",
        to=actions.back(f"{_PATH}/{operation_id}"),
    )


def progress_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Return how far an operation is: it has met `done` of `most` jobs; None: more matched than were counted."""
    most = None if operation["capped"] else max(operation["total"], operation["matched"], 1)
    if operation["state"] == "completed":
        most = max(operation["matched"], 1)
        return {"done": most, "most": most}
    return {"done": operation["matched"], "most": most}


def _preview(wanted: OperationRequest, *, key: str, wrong: dict[str, str] | None = None, status: int = 200) -> Response:
    back = filters.address("/jobs", wanted.filter.as_json())
    return render.page(
        "preview.html",
        status=status,
        wanted=wanted,
        filter=wanted.filter.as_json(),
        found=_bulk().preview(wanted),
        key=key,
        wrong=wrong or {},
        given={name: request.form.get(name, "") for name in ("reason", "per_minute")},
        back=actions.back(back),
    )


def _wanted() -> OperationRequest:
    """Return the operation that a form asks for, without reason and rate: on selected jobs, or on all that match.

    Raises:
        Problem: 422 for what no form of ours sends.
    """
    jobs = [_number(job) for job in request.form.getlist("job")]
    is_selection = request.form.get("of") == "selected"
    filter_ = {name: request.form[name] for name in Filter.model_fields if request.form.get(name)}
    sent: dict[str, Any] = {"action": request.form.get("action", "")}
    sent |= {"job_ids": jobs} if is_selection else {"filter": filter_, "all": not filter_}
    return validated(OperationRequest, sent)


def _sent(wanted: OperationRequest) -> dict[str, Any]:
    return {"action": wanted.action, "job_ids": wanted.job_ids, "filter": wanted.filter.as_json(), "all": wanted.all}


def _number(text: str) -> int | float | str:
    """Return the number of a field; what is none as it is, so that its sentence names it."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


def _created(operation: dict[str, Any]) -> str:
    return "Created: the next tick begins with it." if operation["created"] else "This form was sent already."


def _checked(operation_id: int) -> int:
    return path_id(operation_id, name="operation_id", missing="operation {} does not exist")


def _bulk() -> BulkOperations:
    return BulkOperations(services(current_app).store, caller=auth.caller())
