"""The group of schedules, and its tables."""

import json
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import messages
from lib.cli.group import BadInput, command_line, jobs, json_option, output
from lib.cli.known import require, suggesting
from lib.cli.options import (
    ID,
    TEXT,
    build,
    by_option,
    json_argument,
    option_name,
    options_of,
    reason_option,
    reveal_option,
    typed_fields,
    yes_option,
)
from lib.cli.prompts import confirm
from lib.cli.services import current_user, schedule_service
from lib.cli.tables import Part, Table, duration, moment, run_result
from lib.schedules.schemas import PauseSchedule, RunPage, ScheduleFilter, SchedulePatch, ScheduleRequest

Json = dict[str, Any]

_HELP = {
    "tenant_id": "Tenant id.",
    "name": "Name, unique within a tenant.",
    "status": "active or paused.",
    "limit": "Maximum number of rows.",
    "older": "Page after this id, from the page before.",
    "timezone": "Time zone of the expression, like Europe/Berlin (UTC).",
    "stage": "Stage to run.",
    "type": "AT_LEAST_ONCE, or AT_MOST_ONCE: one attempt.",
    "max_retry_count": "Retries of an occurrence (default: the stage's).",
    "retry_delays": "Seconds after each attempt, like 30,60,120 (default: the stage's).",
    "ttr_seconds": "Time limit of one attempt (default: the stage's).",
    "priority": "Of its jobs: 10 starts first, -10 last (0).",
    "missed_policy": "Missed occurrences to run: the latest if it is recent (skip), the latest (one), or all.",
    "catch_up_seconds": "Age up to which the policy skip runs an occurrence (300).",
    "missed_cap": "Maximum number of missed occurrences that the policy all runs (100).",
    "overlap_policy": "If the previous occurrence is unfinished: drop the next (skip), let it wait (queue), or allow.",
    "pause_after_failures": "Pause after so many failed occurrences in a row.",
}
_SEPARATE_OPTIONS = ("schedule", "payload", "api", "is_recurring")
_COLUMNS = (
    "name tenant_id status schedule timezone is_recurring stage type max_retry_count retry_delays ttr_seconds "
    "priority missed_policy catch_up_seconds missed_cap overlap_policy pause_after_failures next_at last_at unfinished "
    "failures missed last_missed_at skipped last_skipped_at paused_at paused_by pause_reason created_at updated_at"
).split()

_schedule_id = click.argument("schedule_id", metavar="ID", type=ID)


def _work_options(command: Any) -> Any:
    """Add --payload and --api."""
    for name, what in (("api", "An HTTP call instead of a stage: its URL, or"), ("payload", "Payload of the stage:")):
        option = click.option(f"--{name}", help=f"{what} JSON, or @FILE, or @- for standard input.")
        command = option(command)
    return command


@jobs.group()
@with_appcontext
def schedules() -> None:
    """Run stages and HTTP calls by the clock."""


@schedules.command("list")
@options_of(ScheduleFilter, help_texts=_HELP)
@json_option
def list_schedules(*, as_json: bool, **options: Any) -> None:
    """List schedules, the newest first, a page at a time."""
    wanted = build(ScheduleFilter, typed_fields(ScheduleFilter, options))
    words = command_line("schedules", "list")
    for name, value in wanted.model_dump(exclude_none=True, exclude={"older"}).items():
        words += [option_name(name), str(value)]
    found = schedule_service().find(wanted)
    if not found["schedules"] and wanted.older is None:
        require("schedule", wanted.name, option="--name")
    output(found, as_json=as_json, view=lambda page: _page_view(page, shlex.join(words)))


@schedules.command()
@_schedule_id
@reveal_option
@json_option
def show(schedule_id: int, *, reveal: bool, as_json: bool) -> None:
    """Show a schedule with its next times, its latest occurrences, and counts of missed ones."""
    service = schedule_service()
    found = service.show(schedule_id, reveal=reveal)
    found |= {"occurrences": service.occurrences(schedule_id)["occurrences"]}
    output(found, as_json=as_json, view=_schedule_view)


@schedules.command()
@_schedule_id
@options_of(RunPage, help_texts={"limit": "Maximum number of runs (10).", "older": "Page after this cursor."})
@json_option
def history(schedule_id: int, *, as_json: bool, **options: Any) -> None:
    """List the runs of all jobs of a schedule, the newest first, a page at a time."""
    page = build(RunPage, typed_fields(RunPage, options))
    found = schedule_service().history(schedule_id, limit=page.limit, older=page.older)
    output(found, as_json=as_json, view=lambda found: _history_view(schedule_id, found, page))


@schedules.command()
@click.argument("expression", type=TEXT)
@options_of(ScheduleRequest, skip=_SEPARATE_OPTIONS, help_texts=_HELP)
@click.option("--once", is_flag=True, help="Run at the next time only; the schedule is deleted when its job ends.")
@_work_options
@json_option
def create(expression: str, *, once: bool, as_json: bool, **options: Any) -> None:
    """Create a schedule. EXPRESSION: five fields as in crontab, or six with seconds first."""
    values = _values(options) | {"schedule": expression, "is_recurring": not once}
    wanted = build(ScheduleRequest, values)
    with suggesting("stage", wanted.stage) if wanted.stage else nullcontext():
        done = schedule_service().create(wanted)
    output(done, as_json=as_json, view=messages.scheduled)


@schedules.command()
@_schedule_id
@click.option("--schedule", type=TEXT, help="New expression.")
@options_of(SchedulePatch, skip=_SEPARATE_OPTIONS, help_texts=_HELP)
@_work_options
@json_option
def update(schedule_id: int, *, as_json: bool, **options: Any) -> None:
    """Update the given fields of a schedule."""
    values = _values(options)
    if not values:
        raise BadInput("nothing to update: give at least one option")
    patch = build(SchedulePatch, values)
    with suggesting("stage", patch.stage) if patch.stage else nullcontext():
        done = schedule_service().update(schedule_id, patch)
    output(done, as_json=as_json, view=messages.scheduled)


def _values(options: Json) -> Json:
    values = {name: value for name, value in options.items() if value is not None}
    for name in ("payload", "api"):
        if name in values and not (name == "api" and values[name].startswith(("http://", "https://"))):
            values[name] = json_argument(values[name], name=f"--{name}")
    if "retry_delays" in values:
        values["retry_delays"] = values["retry_delays"].split(",")
    return values


@schedules.command()
@_schedule_id
@yes_option
@json_option
def delete(schedule_id: int, *, yes: bool, as_json: bool) -> None:
    """Delete a schedule for good. Its jobs stay."""
    confirm(f"Delete schedule {schedule_id} for good?", yes=yes)
    output(schedule_service().delete(schedule_id), as_json=as_json, view=messages.schedule_deleted)


@schedules.command()
@_schedule_id
@reason_option
@by_option
@json_option
def pause(schedule_id: int, *, reason: str | None, by: str | None, as_json: bool) -> None:
    """Pause a schedule: no occurrences until it is resumed."""
    request = build(PauseSchedule, {"by": by if by is not None else current_user(), "reason": reason})
    done = schedule_service().pause(schedule_id, by=request.by, reason=request.reason)
    output(done, as_json=as_json, view=messages.schedule_paused)


@schedules.command()
@_schedule_id
@json_option
def resume(schedule_id: int, *, as_json: bool) -> None:
    """Resume a schedule from its next time on. Times during the pause are not made up."""
    output(schedule_service().resume(schedule_id), as_json=as_json, view=messages.scheduled)


@schedules.command()
@_schedule_id
@json_option
def run(schedule_id: int, *, as_json: bool) -> None:
    """Enqueue one extra occurrence now, also of a paused schedule."""
    output(schedule_service().run(schedule_id), as_json=as_json, view=messages.schedule_run)


def _page_view(page: Json, link: str) -> Iterator[Part]:
    if not page["schedules"]:
        yield "No schedule matches."
        return
    columns = ("schedule", "name", "tenant", "runs", "when", "next", "last", "failures", "missed", "skipped", "paused")
    rows = [
        (
            *(s["id"], s["name"], s["tenant_id"], s["stage"], messages.schedule_times(s)),
            *(moment(s["next_at"]), moment(s["last_at"])),
            *(s["failures"], s["missed"], s["skipped"], s["pause_reason"] or s["paused_by"]),
        )
        for s in page["schedules"]
    ]
    yield Table(f"Schedules, the newest first ({len(rows)})", columns, rows)
    if page["older"]:
        yield f"older: {link} --older {page['older']}"


def _history_view(schedule_id: int, found: Json, page: RunPage) -> Iterator[Part]:
    if found["runs"]:
        columns = ("job", "time", "run", "attempt", "retry", "result", "started", "duration", "error")
        rows = [
            (
                *(run["job_id"], moment(run["time"]), run["run_no"], run["attempt"], run["retry_count"]),
                *(run_result(run["status"]), moment(run["started_at"]), duration(run["duration_ms"]), run["error"]),
            )
            for run in found["runs"]
        ]
        yield Table(f"Runs of schedule {schedule_id}, the newest first", columns, rows)
    else:
        yield f"Schedule {schedule_id} has no run{' in this page' if found['older'] else ''}."
    if found["older"]:
        words = ("schedules", "history", str(schedule_id), "--limit", str(page.limit), "--older", found["older"])
        yield "older: " + shlex.join(command_line(*words))


def _schedule_view(found: Json) -> Iterator[Part]:
    rows = [
        (name, moment(found[name]) if name.endswith("_at") else found[name])
        for name in _COLUMNS
        if found[name] not in (None, "")
    ]
    rows.append(("payload", json.dumps(found["payload"], ensure_ascii=False)))
    yield Table(f"Schedule {found['id']}", ("", ""), rows)
    yield from messages.next_times(found)
    if found["occurrences"]:
        columns = ("job", "time", "status", "attempts", "ended", "error")
        jobs = [
            (o["id"], moment(o["time"]), o["status"], o["attempts"], moment(o["finished_at"]), o["last_error"])
            for o in found["occurrences"]
        ]
        yield Table("Latest occurrences", columns, jobs)
        yield f"details of a job: flask jobs show ID; all runs: flask jobs schedules history {found['id']}"
