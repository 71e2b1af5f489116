"""Batches: a list, and a page of one with its progress and what may be done with it."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, current_app, request
from flask.typing import ResponseReturnValue

from lib.jobs.batch_schemas import BatchPage
from lib.jobs.batches import Batches
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.request_data import path_id
from lib.web.services import batches

blueprint = Blueprint("batches", __name__)

_PATH = "/batches"


@blueprint.get(_PATH)
@session.view("jobs:read", all_tenants=False)
def list_batches() -> ResponseReturnValue:
    """Return a page of batches, newest first."""
    if shorter := filters.without_empty_fields():
        return shorter
    page, wrong = filters.read(BatchPage, request.args)
    found = None if wrong else _batches().list(page)
    return render.page(
        "batches.html",
        status=422 if wrong else 200,
        given={name: request.args[name] for name in ("state", "older") if name in request.args},
        wrong=wrong,
        found=found,
        older=found and found["older"] and filters.address(_PATH, {"state": page.state, "older": found["older"]}),
    )


@blueprint.get(f"{_PATH}/<int:batch_id>")
@session.view("jobs:read", all_tenants=False)
def show(batch_id: int) -> ResponseReturnValue:
    """Return a batch with its progress."""
    return render.page("batch.html", batch=_batches().find(_checked(batch_id)))


@blueprint.post(f"{_PATH}/<int:batch_id>/seal")
@session.view("jobs:write", all_tenants=False)
def seal(batch_id: int) -> ResponseReturnValue:
    """Seal a batch."""
    return actions.act(
        lambda: _batches().seal(_checked(batch_id)),
        done="Sealed: it ends with its jobs.",
        to=actions.back(f"{_PATH}/{batch_id}"),
    )


@blueprint.post(f"{_PATH}/<int:batch_id>/cancel")
@session.view("jobs:write", all_tenants=False)
def cancel(batch_id: int) -> ResponseReturnValue:
    """Cancel the jobs of a batch that have not completed."""
    return _begun(lambda: _batches().cancel(_checked(batch_id), reason=actions.why()), batch_id)


@blueprint.post(f"{_PATH}/<int:batch_id>/requeue")
@session.view("jobs:write", all_tenants=False)
def requeue(batch_id: int) -> ResponseReturnValue:
    """Requeue the dead letters of a batch."""
    return _begun(lambda: _batches().requeue(_checked(batch_id), reason=actions.why()), batch_id)


def _begun(verb: Callable[[], dict[str, Any]], batch_id: int) -> ResponseReturnValue:
    def lead(operation: dict[str, Any]) -> ResponseReturnValue:
        return actions.lead(f"/operations/{operation['id']}", "Created: the next tick begins with it.")

    return actions.attempt(verb, lead, otherwise=actions.back(f"{_PATH}/{batch_id}"))


def _batches() -> Batches:
    return batches(current_app, caller=auth.caller())


def _checked(batch_id: int) -> int:
    return path_id(batch_id, name="batch_id", missing="batch {} does not exist")
