"""Schedules and their occurrences. Their code is imported with the first request: ticks never need it."""

from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, current_app

from lib.errors import Invalid
from lib.web import auth, problems
from lib.web.request_data import RevealQuery, path_id, read_body, read_query
from lib.web.services import services

if TYPE_CHECKING:
    from lib.schedules.service import Scheduling

blueprint = Blueprint("schedules", __name__, url_prefix="/api/v1")


def _scheduling() -> "Scheduling":
    from lib.schedules.service import Scheduling

    own = services(current_app)
    return Scheduling(own.store, own.registry, own.settings, caller=auth.caller())


@blueprint.errorhandler(Invalid)
def _invalid(error: Invalid) -> Response:
    """Return 400 for an expression or a time zone that cannot be parsed, 422 for any other field."""
    status = 400 if error.field in ("schedule", "timezone") else 422
    return problems.problem(
        status, "the schedule is not valid", detail=str(error), field=error.field, errors=error.errors
    )


@blueprint.get("/schedules")
@auth.scope("jobs:read")
def list_schedules() -> dict[str, Any]:
    """Return a page of schedules, newest first."""
    from lib.schedules.schemas import ScheduleFilter

    (query,) = read_query(ScheduleFilter)
    return _scheduling().find(query)


@blueprint.post("/schedules")
@auth.scope("jobs:write")
def create() -> tuple[dict[str, Any], int]:
    """Create a schedule."""
    from lib.schedules.schemas import ScheduleRequest

    return _scheduling().create(read_body(ScheduleRequest)), 201


@blueprint.get("/schedules/<int:schedule_id>")
@auth.scope("jobs:read")
def show(schedule_id: int) -> dict[str, Any]:
    """Return a schedule, with its next times."""
    (query,) = read_query(RevealQuery)
    return _scheduling().show(_checked(schedule_id), reveal=query.reveal)


@blueprint.patch("/schedules/<int:schedule_id>")
@auth.scope("jobs:write")
def update(schedule_id: int) -> dict[str, Any]:
    """Update the given fields of a schedule."""
    from lib.schedules.schemas import SchedulePatch

    return _scheduling().update(_checked(schedule_id), read_body(SchedulePatch))


@blueprint.delete("/schedules/<int:schedule_id>")
@auth.scope("jobs:write")
def delete(schedule_id: int) -> dict[str, Any]:
    """Delete a schedule. Jobs that it has enqueued still run."""
    return _scheduling().delete(_checked(schedule_id))


@blueprint.post("/schedules/<int:schedule_id>/pause")
@auth.scope("jobs:write")
def pause(schedule_id: int) -> dict[str, Any]:
    """Pause a schedule. It enqueues no jobs until it is resumed."""
    from lib.schedules.schemas import PauseSchedule

    body = read_body(PauseSchedule)
    return _scheduling().pause(_checked(schedule_id), by=body.by, reason=body.reason)


@blueprint.post("/schedules/<int:schedule_id>/resume")
@auth.scope("jobs:write")
def resume(schedule_id: int) -> dict[str, Any]:
    """Resume a paused schedule, from its next time on."""
    return _scheduling().resume(_checked(schedule_id))


@blueprint.post("/schedules/<int:schedule_id>/run")
@auth.scope("jobs:write")
def run(schedule_id: int) -> tuple[dict[str, Any], int]:
    """Enqueue one occurrence of a schedule now."""
    return _scheduling().run(_checked(schedule_id)), 202


@blueprint.get("/schedules/<int:schedule_id>/occurrences")
@auth.scope("jobs:read")
def occurrences(schedule_id: int) -> dict[str, Any]:
    """Return a page of the occurrences of a schedule, newest first."""
    from lib.schedules.schemas import RunPage

    (page,) = read_query(RunPage)
    return _scheduling().occurrences(_checked(schedule_id), limit=page.limit, older=page.older)


@blueprint.get("/schedules/<int:schedule_id>/history")
@auth.scope("jobs:read")
def history(schedule_id: int) -> dict[str, Any]:
    """Return a page of the runs of all jobs of a schedule, newest first.

    The latest occurrence comes first, with its latest run. Runs of archived jobs are included.
    """
    from lib.schedules.schemas import RunPage

    (page,) = read_query(RunPage)
    return _scheduling().history(_checked(schedule_id), limit=page.limit, older=page.older)


@blueprint.get("/precision")
@auth.scope("jobs:read", all_tenants=True)
def precision() -> dict[str, Any]:
    """Return how long after their due time runs began, by stage."""
    from lib.schedules.schemas import Window

    (query,) = read_query(Window)
    return _scheduling().precision(window_seconds=query.window_seconds)


def _checked(schedule_id: int) -> int:
    return path_id(schedule_id, name="schedule_id", missing="schedule {} does not exist")
