"""Schedules: when each runs next, how its last occurrences ended, and pause, resume, run now, delete."""

from typing import Any

from flask import Blueprint, current_app, url_for
from flask.typing import ResponseReturnValue

from lib.schedules.schemas import PauseSchedule, RunPage, ScheduleFilter
from lib.schedules.service import Scheduling
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.request_data import path_id
from lib.web.services import services

blueprint = Blueprint("schedules", __name__, url_prefix="/schedules")


def _scheduling() -> Scheduling:
    own = services(current_app)
    return Scheduling(own.store, own.registry, own.settings, caller=auth.caller())


@blueprint.get("")
@session.view("jobs:read", all_tenants=False)
def index() -> ResponseReturnValue:
    """Return a page of the schedules that match the filter, newest first."""
    (wanted,) = filters.strictly(ScheduleFilter)
    return render.page("schedules.html", wanted=wanted, **_scheduling().find(wanted))


@blueprint.get("/<int:schedule_id>")
@session.view("jobs:read", all_tenants=False)
def show(schedule_id: int) -> ResponseReturnValue:
    """Return a schedule with a page of its occurrences, newest first."""
    (page,) = filters.strictly(RunPage)
    scheduling = _scheduling()
    schedule = scheduling.show(_checked(schedule_id))
    return render.page(
        "schedule.html",
        schedule=schedule,
        **scheduling.occurrences(schedule_id, limit=page.limit, older=page.older),
    )


@blueprint.post("/<int:schedule_id>/pause")
@session.view("jobs:write", all_tenants=False)
def pause(schedule_id: int) -> ResponseReturnValue:
    """Pause a schedule, with a reason."""

    def verb() -> Any:
        wanted = actions.form(PauseSchedule, by=auth.caller().name)
        return _scheduling().pause(_checked(schedule_id), by=wanted.by, reason=wanted.reason)

    return actions.act(verb, done="Paused: it enqueues no jobs until you resume it.", to=_back(schedule_id))


@blueprint.post("/<int:schedule_id>/resume")
@session.view("jobs:write", all_tenants=False)
def resume(schedule_id: int) -> ResponseReturnValue:
    """Resume a schedule from its next time on."""
    return actions.act(
        lambda: _scheduling().resume(_checked(schedule_id)),
        done="Resumed, from its next time on.",
        to=_back(schedule_id),
    )


@blueprint.post("/<int:schedule_id>/run")
@session.view("jobs:write", all_tenants=False)
def run(schedule_id: int) -> ResponseReturnValue:
    """Enqueue one occurrence now."""
    return actions.act(
        lambda: _scheduling().run(_checked(schedule_id)),
        done=lambda started: f"Job {started['job_id']} is queued: the next tick runs it.",
        to=_back(schedule_id),
    )


@blueprint.post("/<int:schedule_id>/delete")
@session.view("jobs:write", all_tenants=False)
def delete(schedule_id: int) -> ResponseReturnValue:
    """Delete a schedule. Its jobs stay."""
    return actions.act(
        lambda: _scheduling().delete(_checked(schedule_id)),
        done=f"Schedule {schedule_id} is deleted. Jobs that it has enqueued still run.",
        to=url_for("schedules.index"),
    )


def _back(schedule_id: int) -> str:
    return actions.back(url_for("schedules.show", schedule_id=schedule_id))


def _checked(schedule_id: int) -> int:
    return path_id(schedule_id, name="schedule_id", missing="schedule {} does not exist")
