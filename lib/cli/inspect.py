"""list, show, history, status, doctor, stages, circuits, precision."""

import shlex
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import messages, views
from lib.cli.group import command_line, job_service, jobs, json_option, output, schedule_service
from lib.cli.options import ID, NAME, build, option_name, options_of, reveal_option, seconds, typed_fields
from lib.jobs.schemas import Filter, Page


@jobs.command("list")
@options_of(Filter, Page)
@reveal_option
@json_option
def list_jobs(*, reveal: bool, as_json: bool, **options: Any) -> None:
    """List jobs, the newest first, a page at a time."""
    wanted, page = build(Filter, typed_fields(Filter, options)), build(Page, typed_fields(Page, options))
    found = job_service().list_jobs(wanted, page, reveal=reveal)
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
    job = service.job(job_id, reveal=reveal)
    found = job | {"history": service.history(job_id)["runs"]}
    output(found, as_json=as_json, view=lambda job: views.job(job, reveal=reveal))


@jobs.command()
@click.argument("job_id", type=ID)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Maximum number of runs.")
@json_option
def history(job_id: int, *, limit: int, as_json: bool) -> None:
    """List the runs of a job, the newest first."""
    found = job_service().history(job_id, limit=limit)
    output(found, as_json=as_json, view=lambda found: views.runs(job_id, found["runs"]))


@jobs.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show counts, circuits, dead letters, orders paid without a card, and the last ticks."""
    output(job_service().status(), as_json=as_json, view=views.status)


@jobs.command()
@json_option
def doctor(*, as_json: bool) -> None:
    """Check the deployment and list what to fix. Exit code 1 if a check is red."""
    found = job_service().doctor()
    output(found, as_json=as_json, view=views.doctor)
    if any(check["level"] == "red" for check in found["checks"]):
        click.get_current_context().exit(1)


@jobs.command()
@json_option
def stages(*, as_json: bool) -> None:
    """List the stages with their effective settings."""
    output(job_service().stages(), as_json=as_json, view=views.stages)


@jobs.group(invoke_without_command=True)
@json_option
@with_appcontext
def circuits(*, as_json: bool) -> None:
    """List circuits that are not closed, or have failed lately."""
    if click.get_current_context().invoked_subcommand is None:
        output(job_service().circuits(), as_json=as_json, view=views.circuits)


@circuits.command()
@click.argument("name", type=NAME)
@json_option
def reset(name: str, *, as_json: bool) -> None:
    """Close a circuit by hand."""
    output(job_service().reset_circuit(name), as_json=as_json, view=messages.circuit_reset)


@jobs.command()
@click.option("--window", "window_seconds", type=seconds(31 * 86_400), default=3600, help="Last seconds (3600).")
@json_option
def precision(*, window_seconds: float, as_json: bool) -> None:
    """Show by stage how long after its time each run began."""
    found = schedule_service().precision(window_seconds=window_seconds)
    output(found, as_json=as_json, view=views.precision)
