"""Schedules: what runs by the clock. And how punctual runs were."""

from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import schedule_views as views
from lib.cli.group import BadInput, answer, as_json, jobs, person, schedule_service
from lib.cli.options import ID, TEXT, given, made, options_of, payload, seconds
from lib.cli.prompts import sure
from lib.schedules.schemas import PauseSchedule, ScheduleFilter, SchedulePatch, ScheduleRequest

Json = dict[str, Any]

_WORDS = {
    "tenant_id": "Of this tenant.",
    "name": "Its name: one of its own within a tenant.",
    "status": "active or paused.",
    "limit": "At most so many.",
    "older": "The page behind this id, which the page before it gave.",
    "timezone": "Whose clock it goes by, like Europe/Berlin (UTC).",
    "stage": "The stage that runs.",
    "type": "AT_LEAST_ONCE, or AT_MOST_ONCE: one attempt.",
    "max_retry_count": "Retries of an occurrence (as its stage says).",
    "retry_delays": "Seconds after each attempt, like 30,60,120 (as its stage says).",
    "ttr_seconds": "Time one attempt may take (as its stage says).",
    "missed_policy": "Of what was missed runs: the latest if it is not too old (skip), the latest (one), all.",
    "catch_up_seconds": "What is too old for the policy skip (300).",
    "missed_cap": "Of what was missed run the latest so many under the policy all (100).",
    "overlap_policy": "An occurrence whose predecessor has not ended is dropped (skip), waits (queue) or runs (allow).",
    "pause_after_failures": "Pause it when so many occurrences in a row have failed.",
}
_OWN = ("schedule", "payload", "api", "is_recurring")


def _work(command: Any) -> Any:
    """What it does."""
    for name, what in (("api", "An HTTP call instead of a stage"), ("payload", "The payload of the stage")):
        option = click.option(f"--{name}", help=f"{what}: JSON, or @FILE, or @- for standard input.")
        command = option(command)
    return command


@jobs.group()
@with_appcontext
def schedules() -> None:
    """What runs by the clock."""


@schedules.command("list")
@options_of(ScheduleFilter, words=_WORDS)
@as_json
def list_schedules(*, as_json: bool, **typed: Any) -> None:
    """Schedules, the newest first. A page at a time."""
    wanted = made(ScheduleFilter, given(ScheduleFilter, typed))
    answer(schedule_service().find(wanted), as_json=as_json, view=views.schedules)


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@click.option("--reveal", is_flag=True, help="Show mail addresses and card numbers. That you did is written down.")
@as_json
def show(schedule_id: int, *, reveal: bool, as_json: bool) -> None:
    """One schedule: its next times, its latest occurrences, and what was missed."""
    with_ = schedule_service()
    found = with_.show(schedule_id, reveal=reveal)
    found |= with_.occurrences(schedule_id)
    answer(found, as_json=as_json, view=views.schedule)


@schedules.command()
@click.argument("expression", type=TEXT)
@options_of(ScheduleRequest, skip=_OWN, words=_WORDS)
@click.option("--once", is_flag=True, help="Only its next time; it goes when its job has ended.")
@_work
@as_json
def create(expression: str, *, once: bool, as_json: bool, **typed: Any) -> None:
    """Run a stage, or an HTTP call, by the clock. EXPRESSION: five fields as in crontab, or six with seconds first."""
    values = _values(typed) | {"schedule": expression, "is_recurring": not once}
    answer(schedule_service().create(made(ScheduleRequest, values)), as_json=as_json, view=views.scheduled)


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@click.option("--schedule", type=TEXT, help="Another expression.")
@options_of(SchedulePatch, skip=_OWN, words=_WORDS)
@_work
@as_json
def update(schedule_id: int, *, as_json: bool, **typed: Any) -> None:
    """Change what is given, and leave the rest as it is."""
    values = _values(typed)
    if not values:
        raise BadInput("say what shall change")
    answer(schedule_service().change(schedule_id, made(SchedulePatch, values)), as_json=as_json, view=views.scheduled)


def _values(typed: Json) -> Json:
    values = {name: value for name, value in typed.items() if value is not None}
    for name in ("payload", "api"):
        if name in values:
            values[name] = payload(values[name], name=f"--{name}")
    if "retry_delays" in values:
        values["retry_delays"] = values["retry_delays"].split(",")
    return values


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def delete(schedule_id: int, *, yes: bool, as_json: bool) -> None:
    """Remove a schedule for good. Jobs that are there already go on."""
    sure(f"Delete schedule {schedule_id} for good?", yes=yes)
    answer(schedule_service().delete(schedule_id), as_json=as_json, view=views.schedule_deleted)


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@click.option("--reason", type=TEXT, help="Why, for those who find it paused.")
@click.option("--by", type=TEXT, help="Who (you).")
@as_json
def pause(schedule_id: int, *, reason: str | None, by: str | None, as_json: bool) -> None:
    """No occurrences until it is resumed."""
    wish = made(PauseSchedule, {"by": by if by is not None else person(), "reason": reason})
    done = schedule_service().pause_schedule(schedule_id, by=wish.by, reason=wish.reason)
    answer(done, as_json=as_json, view=views.schedule_paused)


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@as_json
def resume(schedule_id: int, *, as_json: bool) -> None:
    """On again, from its next time on. What fell into the pause is not made up for."""
    answer(schedule_service().resume_schedule(schedule_id), as_json=as_json, view=views.scheduled)


@schedules.command()
@click.argument("schedule_id", metavar="ID", type=ID)
@as_json
def run(schedule_id: int, *, as_json: bool) -> None:
    """One occurrence now, beside those of the clock, also of a paused schedule."""
    answer(schedule_service().run(schedule_id), as_json=as_json, view=views.schedule_run)


@jobs.command()
@click.option(
    "--window", "window_seconds", type=seconds(31 * 86_400), default=3600, help="Seconds to look back (3600)."
)
@as_json
def precision(*, window_seconds: float, as_json: bool) -> None:
    """How long after its time each run began, by stage."""
    answer(schedule_service().precision(window_seconds=window_seconds), as_json=as_json, view=views.precision)
