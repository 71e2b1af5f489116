"""The list of jobs: filters in the address, pages by cursor, and actions on the selected or on all that match."""

from flask import Blueprint, current_app, request
from flask.typing import ResponseReturnValue

from lib.jobs.schemas import Filter, Page
from lib.web import auth
from lib.web.page import filters, render, session
from lib.web.services import operations, services

blueprint = Blueprint("jobs", __name__)

_PATH = "/jobs"
_FIELDS = tuple(Filter.model_fields)
STATUSES = ("queued", "running", "completed", "error", "cancelled")
# What an operation on all that match can do, by the status that is filtered for.
_ACTIONS = {
    None: ("requeue", "requeue_slowly", "cancel"),
    "error": ("requeue", "requeue_slowly", "cancel"),
    "cancelled": ("requeue", "requeue_slowly"),
    "queued": ("cancel",),
    "running": ("cancel",),
    "completed": (),
}


@blueprint.get(_PATH)
@session.view("jobs:read", all_tenants=False)
def list_jobs() -> ResponseReturnValue:
    """Return a page of jobs, newest first; the form again with what is wrong with its fields."""
    if shorter := filters.without_empty_fields():
        return shorter
    wanted, wrong = filters.read(Filter, request.args)
    page, wrong_page = filters.read(Page, request.args)
    given = {name: request.args[name] for name in _FIELDS if name in request.args}
    found = None
    if not wrong and not wrong_page:
        found = operations(current_app, caller=auth.caller()).list_jobs(wanted, page)

    def beside(cursor: str) -> str | None:
        return filters.address(_PATH, given | {cursor: found[cursor]}) if found and found[cursor] else None

    return render.page(
        "jobs.html",
        status=200 if found else 422,
        given=given | {name: filters.for_field(given[name]) for name in given if name.startswith("created_")},
        filter=wanted.as_json(),
        wrong=wrong | wrong_page,
        found=found,
        older=beside("older"),
        newer=beside("newer"),
        first=filters.address(_PATH, given),
        actions=_ACTIONS[wanted.status],
        stages=sorted(services(current_app).registry().stages),
        statuses=STATUSES,
    )
