"""Errors: dead letters and retried jobs by kind and stage, acted on as a group."""

from flask import Blueprint, current_app, request
from flask.typing import ResponseReturnValue

from lib.jobs.schemas import ErrorsQuery
from lib.web import auth
from lib.web.page import filters, render, session
from lib.web.services import operations, services

blueprint = Blueprint("error_kinds", __name__)


@blueprint.get("/errors")
@session.view("jobs:read", all_tenants=False)
def list_errors() -> ResponseReturnValue:
    """Return the errors by stage and kind, the most frequent first."""
    if shorter := filters.without_empty_fields():
        return shorter
    wanted, wrong = filters.read(ErrorsQuery, request.args)
    found = None if wrong else operations(current_app, caller=auth.caller()).errors(wanted)
    given = {name: request.args[name] for name in ErrorsQuery.model_fields if name in request.args}
    return render.page(
        "error_kinds.html",
        status=422 if wrong else 200,
        given=given | ({"since": filters.for_field(given["since"])} if "since" in given else {}),
        tenant_id=wanted.tenant_id,
        wrong=wrong,
        found=found,
        stages=sorted(services(current_app).registry().stages),
    )
