"""`flask jobs …`: what operators do from a terminal, directly on the database.

Exit codes: 0 done, 1 the database could not be reached, 2 bad input or refused, with one sentence that says why.
"""

import json
from collections.abc import Callable
from typing import Any

import click
from flask import current_app
from flask.cli import AppGroup

from lib.errors import Refused, StoreError
from lib.web.app import Giftcards, giftcards, operations


class _BadInput(click.ClickException):
    exit_code = 2


class _Jobs(AppGroup):
    """Turns what the store raises into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StoreError as error:
            raise (_BadInput if isinstance(error, Refused) else click.ClickException)(str(error)) from error


jobs = _Jobs("jobs", help="Find, run and mend jobs.")
_as_json = click.option("--json", "as_json", is_flag=True, help="For programs: one JSON value.")


def _parts() -> Giftcards:
    return giftcards(current_app)


def _show(value: dict[str, Any], *, as_json: bool, table: Callable[[dict[str, Any]], None]) -> None:
    if as_json:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        table(value)


@jobs.command()
@click.option("--limit", type=click.IntRange(1, 100_000), help="Jobs to start at most (GIFTCARD_JOBS_PER_CRON_RUN).")
@click.option("--stage", "only_stage", help="This stage's jobs only.")
@click.option("--job-id", "only_job_id", type=click.IntRange(1), help="This job only, due or not.")
@click.option("--budget", type=click.FloatRange(0, 780, min_open=True), help="Seconds after which no job starts.")
@click.option("--linger/--no-linger", default=False, help="Wait for what becomes due within the budget.")
@_as_json
def tick(*, as_json: bool, **wanted: Any) -> None:
    """One pass over due work."""
    from lib.tick import run_tick

    parts = _parts()
    with parts.shutdown.tick() as stop:
        report = run_tick(parts.store, parts.registry(), parts.settings, source="cli", stop=stop, **wanted)
    _show(report.as_json(), as_json=as_json, table=_report)


@jobs.command()
@_as_json
def status(*, as_json: bool) -> None:
    """Counts, circuits, dead letters, paid without card, the last ticks."""
    from lib.tables import status_tables

    _show(operations(current_app, by="operator").status(), as_json=as_json, table=status_tables)


@jobs.command()
@click.argument("job_id", type=click.IntRange(1))
@_as_json
def show(job_id: int, *, as_json: bool) -> None:
    """One job with its runs."""
    from lib.tables import job_tables

    do = operations(current_app, by="operator")
    _show(do.job(job_id) | {"history": do.history(job_id)["runs"]}, as_json=as_json, table=job_tables)


@jobs.command()
@click.argument("job_id", type=click.IntRange(1))
@click.option("--force", is_flag=True, help="Also a completed job: it runs again.")
@_as_json
def requeue(job_id: int, *, force: bool, as_json: bool) -> None:
    """Send a job back to the queue, with a whole new set of attempts."""
    answer = _parts().store.requeue(job_id, force=force)
    _show(
        answer,
        as_json=as_json,
        table=lambda a: click.echo(f"job {a['id']} was {a['was']}, is queued: the next tick runs it"),
    )


@jobs.command("import-orders")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
@_as_json
def import_orders(file: Any, *, as_json: bool) -> None:
    """Take orders from a CSV file. A wrong row is named and stops no other; importing twice orders nothing twice."""
    from lib.giftcards.importing import import_csv

    try:
        outcome = import_csv(_parts().store, file)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _show(outcome.as_json(), as_json=as_json, table=_imported)


def _report(report: dict[str, Any]) -> None:
    counts = ", ".join(
        f"{report[name]} {name}"
        for name in ("completed", "retried", "errored", "snoozed", "released", "interrupted", "lease_lost", "revived")
        if report[name]
    )
    click.echo(f"tick {report['tick_id']}: {report['started']} started{', ' + counts if counts else ''}")
    click.echo(f"stopped because: {report['stopped_because']}, after {report['duration_ms']} ms")
    if report["stopped_because"] == "limit":
        click.echo("there may be more: raise --limit, or GIFTCARD_JOBS_PER_CRON_RUN for the clock's ticks")
    for stage, setting in report["parked"].items():
        click.echo(f"stage {stage} is parked: set {setting}")


def _imported(outcome: dict[str, Any]) -> None:
    click.echo(
        f"{outcome['created']} orders taken in, {outcome['repeated']} were there already, {len(outcome['wrong'])} wrong"
    )
    for row in outcome["wrong"]:
        click.echo(f"  line {row['line']}: {row['problem']}")
