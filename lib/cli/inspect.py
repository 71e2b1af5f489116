"""Looking: at jobs, at their runs, at the whole."""

import shlex
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import messages, views
from lib.cli.group import answer, as_json, job_service, jobs, url
from lib.cli.options import ID, NAME, given, made, options_of
from lib.jobs.schemas import Filter, Page

_reveal = click.option(
    "--reveal", is_flag=True, help="Show mail addresses and card numbers. That you did is written down."
)


@jobs.command("list")
@options_of(Filter, Page)
@_reveal
@as_json
def list_jobs(*, reveal: bool, as_json: bool, **typed: Any) -> None:
    """Jobs, the newest first. A page at a time; what is not asked for fits all."""
    wanted, page = made(Filter, given(Filter, typed)), made(Page, given(Page, typed))
    found = job_service().list_jobs(wanted, page, reveal=reveal)
    more = {way: _command(typed, reveal=reveal, **{way: found[way]}) for way in ("newer", "older") if found[way]}
    answer(found, as_json=as_json, view=lambda page: views.jobs(page, more=more))


def _command(typed: dict[str, Any], *, reveal: bool, **cursor: int) -> str:
    """What to type for another page of the same list."""
    options = {name: value for name, value in typed.items() if value is not None and name not in ("older", "newer")}
    where = url()
    words = ["flask", "jobs", *(["--url", where] if where else []), "list"]
    for name, value in (options | cursor).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words + ["--reveal"] * reveal)


@jobs.command()
@click.argument("job_id", type=ID)
@_reveal
@as_json
def show(job_id: int, *, reveal: bool, as_json: bool) -> None:
    """One job with its runs, and why it waits."""
    with_ = job_service()
    job = with_.job(job_id, reveal=reveal)
    found = job | {"history": with_.history(job_id)["runs"]}
    answer(found, as_json=as_json, view=lambda job: views.job(job, reveal=reveal))


@jobs.command()
@click.argument("job_id", type=ID)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Runs at most.")
@as_json
def history(job_id: int, *, limit: int, as_json: bool) -> None:
    """The runs of a job, one a line, the newest first."""
    answer(
        job_service().history(job_id, limit=limit),
        as_json=as_json,
        view=lambda found: views.runs(job_id, found["runs"]),
    )


@jobs.command()
@as_json
def status(*, as_json: bool) -> None:
    """The whole picture. Counts, circuits, dead letters, paid without card, the last ticks."""
    answer(job_service().status(), as_json=as_json, view=views.status)


@jobs.command()
@as_json
def doctor(*, as_json: bool) -> None:
    """What is wrong with this deployment, and how to mend it. Exit code 1 if any check is red."""
    found = job_service().doctor()
    answer(found, as_json=as_json, view=views.doctor)
    if any(check["level"] == "red" for check in found["checks"]):
        click.get_current_context().exit(1)


@jobs.command()
@as_json
def stages(*, as_json: bool) -> None:
    """Each stage: its rules, and whether it runs."""
    answer(job_service().stages(), as_json=as_json, view=views.stages)


@jobs.group(invoke_without_command=True)
@as_json
@with_appcontext
def circuits(*, as_json: bool) -> None:
    """Circuits that are not closed, or have failed lately."""
    if click.get_current_context().invoked_subcommand is None:
        answer(job_service().circuits(), as_json=as_json, view=views.circuits)


@circuits.command()
@click.argument("name", type=NAME)
@as_json
def reset(name: str, *, as_json: bool) -> None:
    """Close a circuit by hand, whatever the other side does."""
    answer(job_service().reset_circuit(name), as_json=as_json, view=messages.was_reset)
