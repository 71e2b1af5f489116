"""The schedules' API. What it works with is imported when it is asked: the clock's calls never need it."""

from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, current_app

from lib.errors import Invalid
from lib.web import auth, problems
from lib.web.problems import Problem
from lib.web.queries import Latest, Reveal, query
from lib.web.request_data import read
from lib.web.services import giftcards

if TYPE_CHECKING:
    from lib.schedules.service import Scheduling

blueprint = Blueprint("schedules", __name__, url_prefix="/api/v1")


def _scheduling() -> "Scheduling":
    from lib.schedules.service import Scheduling

    parts = giftcards(current_app)
    return Scheduling(parts.store, parts.registry, parts.settings, by="admin token")


@blueprint.errorhandler(Invalid)
def _invalid(error: Invalid) -> Response:
    """An expression that is none is no field of a wrong type, but text that cannot be read."""
    status = 400 if error.field in ("schedule", "timezone") else 422
    return problems.answer(status, "the schedule is not valid", detail=str(error), field=error.field)


@blueprint.get("/schedules")
@auth.admin
def list_schedules() -> dict[str, Any]:
    """Return a page of schedules, newest first."""
    from lib.schedules.schemas import ScheduleFilter

    (wanted,) = query(ScheduleFilter)
    return _scheduling().find(wanted)


@blueprint.post("/schedules")
@auth.admin
def create() -> tuple[dict[str, Any], int]:
    """Create a schedule."""
    from lib.schedules.schemas import ScheduleRequest

    return _scheduling().create(read(ScheduleRequest)), 201


@blueprint.get("/schedules/<int:schedule_id>")
@auth.admin
def show(schedule_id: int) -> dict[str, Any]:
    """Return a schedule, with its next times."""
    (wanted,) = query(Reveal)
    return _scheduling().show(_in_range(schedule_id), reveal=wanted.reveal)


@blueprint.patch("/schedules/<int:schedule_id>")
@auth.admin
def change(schedule_id: int) -> dict[str, Any]:
    """Update the given fields of a schedule."""
    from lib.schedules.schemas import SchedulePatch

    return _scheduling().change(_in_range(schedule_id), read(SchedulePatch))


@blueprint.delete("/schedules/<int:schedule_id>")
@auth.admin
def delete(schedule_id: int) -> dict[str, Any]:
    """Delete a schedule. Jobs that it has enqueued still run."""
    return _scheduling().delete(_in_range(schedule_id))


@blueprint.post("/schedules/<int:schedule_id>/pause")
@auth.admin
def pause(schedule_id: int) -> dict[str, Any]:
    """Pause a schedule. It enqueues no jobs until it is resumed."""
    from lib.schedules.schemas import PauseSchedule

    wish = read(PauseSchedule)
    return _scheduling().pause_schedule(_in_range(schedule_id), by=wish.by, reason=wish.reason)


@blueprint.post("/schedules/<int:schedule_id>/resume")
@auth.admin
def resume(schedule_id: int) -> dict[str, Any]:
    """Resume a paused schedule, from its next time on."""
    return _scheduling().resume_schedule(_in_range(schedule_id))


@blueprint.post("/schedules/<int:schedule_id>/run")
@auth.admin
def run(schedule_id: int) -> tuple[dict[str, Any], int]:
    """Enqueue one occurrence of a schedule now."""
    return _scheduling().run(_in_range(schedule_id)), 202


@blueprint.get("/schedules/<int:schedule_id>/occurrences")
@auth.admin
def occurrences(schedule_id: int) -> dict[str, Any]:
    """Return the occurrences of a schedule, newest first."""
    (wanted,) = query(Latest)
    return _scheduling().occurrences(_in_range(schedule_id), limit=wanted.limit)


@blueprint.get("/precision")
@auth.admin
def precision() -> dict[str, Any]:
    """Return how long after their due time runs began, by stage."""
    from lib.schedules.schemas import Window

    (window,) = query(Window)
    return _scheduling().precision(window_seconds=window.window_seconds)


def _in_range(schedule_id: int) -> int:
    if not 1 <= schedule_id < 2**63:
        raise Problem(404, f"schedule {str(schedule_id)[:30]} does not exist", field="schedule_id")
    return schedule_id
