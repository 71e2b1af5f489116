"""Work: enqueue it, run it, take orders from a file."""

import io
import re
from functools import partial
from typing import Any

import click

from lib.api_client.jobs import JobsClient
from lib.cli import messages
from lib.cli.group import BadInput, answer, as_json, here, job_service, jobs, parts, select
from lib.cli.options import FILE, ID, TEXT, identifier, made, made_of_json, options_of, parsed, payload, read, seconds
from lib.errors import Invalid
from lib.jobs.schemas import EnqueueRequest, JobRequest
from lib.web.services import Giftcards


@jobs.command()
@click.option("--limit", type=click.IntRange(1, 100_000), help="Jobs to start at most (GIFTCARD_JOBS_PER_CRON_RUN).")
@click.option("--stage", "only_stage", type=TEXT, help="This stage's jobs only.")
@click.option("--job-id", "only_job_id", type=ID, help="This job only, due or not.")
@click.option("--budget", type=seconds(780), help="Seconds after which no job starts.")
@click.option("--linger/--no-linger", default=False, help="Wait for what becomes due within the budget.")
@as_json
def tick(*, as_json: bool, **wanted: Any) -> None:
    """One pass over due work."""
    if wanted["only_job_id"]:
        wanted["limit"] = 1
    run_tick = select(lambda own: partial(_run_tick, own), lambda transport: JobsClient(transport).tick)
    report = run_tick(**wanted)
    answer(report, as_json=as_json, view=lambda report: messages.tick(report, only_job_id=wanted["only_job_id"]))


def _run_tick(own: Giftcards, **wanted: Any) -> dict[str, Any]:
    """Run a tick in this process; SIGTERM ends it early."""
    from lib.tick.tick import run_tick

    with own.shutdown.tick() as stop:
        report = run_tick(own.store, own.registry(), own.settings, source="cli", stop=stop, **wanted)
    return report.told(limited=wanted["limit"] is not None)


@jobs.command()
@click.argument("stage", type=TEXT, required=False)
@click.argument("correlation_id", type=TEXT, required=False)
@options_of(JobRequest, skip=("stage", "correlation_id"))
@click.option("--file", "file", type=FILE, help="Up to 1,000 jobs: a JSON array, or what the API takes; - for stdin.")
@click.option("--replace", is_flag=True, help="Those there already in error or cancelled are queued again.")
@as_json
def enqueue(
    stage: str | None, correlation_id: str | None, *, file: Any, replace: bool, as_json: bool, **typed: Any
) -> None:
    """Put jobs into the queue. One, or those of a file: all of them or none."""
    values = {name: value for name, value in typed.items() if value is not None}
    if file is not None:
        if stage is not None or values:
            raise BadInput("give a job or --file, not both")
        wanted = _of_file(file, replace=replace)
    elif stage is None or correlation_id is None:
        raise BadInput("say what: STAGE and CORRELATION_ID, or --file")
    else:
        job = made(JobRequest, _values(stage, correlation_id, values))
        wanted = EnqueueRequest(jobs=[job], replace=replace)
    try:
        done = job_service().enqueue(wanted, trigger_type="cli")
    except Invalid as error:
        place = re.match(r"jobs\.(\d+)", error.field)
        if file is None or place is None:
            raise
        raise BadInput(f"job {int(place[1]) + 1} of {len(wanted.jobs)}: {error}") from error
    answer(done, as_json=as_json, view=messages.enqueued)


def _values(stage: str, correlation_id: str, typed: dict[str, Any]) -> dict[str, Any]:
    values = {"stage": stage, "correlation_id": correlation_id, **typed}
    if "payload" in values:
        values["payload"] = payload(values["payload"])
    if "retry_delays" in values:
        values["retry_delays"] = values["retry_delays"].split(",")
    return values


def _of_file(file: Any, *, replace: bool) -> EnqueueRequest:
    found = parsed(read(file), what="the file")
    wanted = made_of_json(EnqueueRequest, found if isinstance(found, dict) else {"jobs": found})
    return wanted.model_copy(update={"replace": True}) if replace else wanted


@jobs.command("import-orders")
@click.argument("file", type=FILE)
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, default="default", help="Of rows that name none.")
@as_json
def import_orders(file: Any, *, tenant_id: str, as_json: bool) -> None:
    """Take orders from a CSV file. A wrong row is named and stops no other; importing twice orders nothing twice."""
    here("import-orders")
    from lib.giftcards.csv_import import import_csv

    tenant = identifier(tenant_id, name="--tenant")
    own = parts()
    try:
        outcome = import_csv(own.store, own.registry(), own.settings, io.StringIO(read(file)), tenant_id=tenant)
    except ValueError as error:
        raise BadInput(str(error)) from error
    answer(outcome.as_json(), as_json=as_json, view=messages.imported)
