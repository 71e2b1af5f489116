"""list, show, history, stuck, errors, status, doctor, stages, circuits, precision."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from lib.cli import messages, state, trouble, views
from lib.cli import stages as stage_tables
from lib.cli.group import command_line, deployment_url, jobs, json_option, output
from lib.cli.known import require_names, suggesting
from lib.cli.models import build_each
from lib.cli.options import (
    ID,
    NAME,
    build,
    option_name,
    options_of,
    reason_option,
    reveal_option,
    seconds,
    typed_fields,
)
from lib.cli.services import job_service, schedule_service
from lib.errors import SettingsError
from lib.jobs.schemas import ActRequest, CircuitPage, ErrorsQuery, Filter, HistoryPage, Page, StuckQuery

_STUCK_HELP = {
    "due_seconds": "Seconds that a job may be due, or an order without a job (300).",
    "snoozed_seconds": "Seconds that a job may snooze (3600).",
}
_ERRORS_HELP = {
    "stage": "Only this stage.",
    "since": "Only since this time, like 2026-01-31T12:00:00Z; counts the failed runs, too.",
    "tenant_id": "Tenant id.",
    "limit": "Maximum number of kinds (50).",
}

if TYPE_CHECKING:
    from lib.cli.tables import Part


@jobs.command("list")
@options_of(Filter, Page)
@reveal_option
@json_option
def list_jobs(*, reveal: bool, as_json: bool, **options: Any) -> None:
    """List jobs, the newest first, a page at a time."""
    wanted, page = build_each((Filter, Page), options)
    found = job_service().list_jobs(wanted, page, reveal=reveal)
    if not found["jobs"] and page.older is None and page.newer is None:
        require_names(wanted)
    links = {
        name: _page_command(options, reveal=reveal, **{name: found[name]}) for name in ("newer", "older") if found[name]
    }
    output(found, as_json=as_json, view=lambda page: views.jobs(page, links=links))


def _page_command(options: dict[str, Any], *, reveal: bool, **cursor: int) -> str:
    """Return the command for another page of the same list."""
    filters = {name: value for name, value in options.items() if value is not None and name not in ("older", "newer")}
    words = command_line("list")
    for name, value in (filters | cursor).items():
        words += [option_name(name), str(value)]
    return shlex.join(words + ["--reveal"] * reveal)


@jobs.command()
@click.argument("job_id", type=ID)
@reveal_option
@json_option
def show(job_id: int, *, reveal: bool, as_json: bool) -> None:
    """Show a job with its runs and what it waits for."""
    service = job_service()
    job, page = service.job(job_id, reveal=reveal), service.history(job_id)
    found = job | {"history": page["runs"]}
    output(found, as_json=as_json, view=lambda job: views.job(job, reveal=reveal, link=_older_runs(job_id, page)))


@jobs.command()
@click.argument("job_id", type=ID)
@options_of(HistoryPage, help_texts={"limit": "Maximum number of runs (10).", "older": "Page of runs older than this."})
@json_option
def history(job_id: int, *, as_json: bool, **options: Any) -> None:
    """List the runs of a job, the newest first, a page at a time."""
    page = build(HistoryPage, typed_fields(HistoryPage, options))
    found = job_service().history(job_id, limit=page.limit, older=page.older)
    link = _older_runs(job_id, found, "--limit", str(page.limit))
    output(found, as_json=as_json, view=lambda found: views.runs(job_id, found["runs"], link=link))


def _older_runs(job_id: int, found: dict[str, Any], *words: str) -> str | None:
    """Return the command for the next page of a job's runs."""
    if found.get("older") is None:  # older deployments have none
        return None
    return shlex.join(command_line("history", str(job_id), *words, "--older", str(found["older"])))


@jobs.command()
@options_of(StuckQuery, help_texts=_STUCK_HELP)
@json_option
def stuck(*, as_json: bool, **options: Any) -> None:
    """List what does not move and why, the worst first. Exit code 1 if there is anything."""
    found = job_service().stuck(build(StuckQuery, typed_fields(StuckQuery, options)))
    output(found, as_json=as_json, view=trouble.stuck)
    if found["stuck"]:
        click.get_current_context().exit(1)


@jobs.command()
@options_of(ErrorsQuery, help_texts=_ERRORS_HELP)
@json_option
def errors(*, as_json: bool, **options: Any) -> None:
    """Group the errors of dead letters and retried jobs by stage and kind, the most frequent first."""
    wanted = build(ErrorsQuery, typed_fields(ErrorsQuery, options))
    found = job_service().errors(wanted)
    if not found["errors"]:
        require_names(Filter(stage=wanted.stage))
    output(found, as_json=as_json, view=trouble.errors)


@jobs.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show counts, circuits, dead letters, what does not match in the books, and the last ticks."""
    output(job_service().status(), as_json=as_json, view=_status)


def _status(found: dict[str, Any]) -> "Iterator[Part]":
    if found.get("database"):  # older deployments have none
        yield f"Working on {found['database']}"
    yield from state.status(found)


@jobs.command()
@json_option
def doctor(*, as_json: bool) -> None:
    """Check the deployment and list what to fix. Exit code 1 if a check is red."""
    try:
        found = job_service().doctor()
    except SettingsError as error:
        if deployment_url() is not None:
            raise
        from lib.monitoring.doctor.invalid import examine_invalid

        found = {"checks": examine_invalid(error)}
    output(found, as_json=as_json, view=state.doctor)
    if any(check["level"] == "red" for check in found["checks"]):
        click.get_current_context().exit(1)


@jobs.command()
@json_option
def stages(*, as_json: bool) -> None:
    """List the stages with their effective settings."""
    output(job_service().stages(), as_json=as_json, view=stage_tables.stages)


@jobs.group(invoke_without_command=True)
@options_of(CircuitPage, help_texts={"limit": "Maximum number of rows (50).", "older": "Page after this name."})
@json_option
@with_appcontext
def circuits(*, as_json: bool, **options: Any) -> None:
    """List circuits that are not closed, or have failed lately, by name, a page at a time."""
    if click.get_current_context().invoked_subcommand is None:
        page = build(CircuitPage, typed_fields(CircuitPage, options))
        output(job_service().circuits(page), as_json=as_json, view=lambda found: state.circuit_page(found, page))


@circuits.command()
@click.argument("name", type=NAME)
@reason_option
@json_option
def reset(name: str, *, reason: str | None, as_json: bool) -> None:
    """Close a circuit by hand."""
    why = build(ActRequest, {"reason": reason}).reason
    with suggesting("circuit", name):
        done = job_service().reset_circuit(name, reason=why)
    output(done, as_json=as_json, view=messages.circuit_reset)


@jobs.command()
@click.option("--window", "window_seconds", type=seconds(31 * 86_400), default=3600, help="Last seconds (3600).")
@json_option
def precision(*, window_seconds: float, as_json: bool) -> None:
    """Show by stage how long after its time each run began."""
    found = schedule_service().precision(window_seconds=window_seconds)
    output(found, as_json=as_json, view=stage_tables.precision)
