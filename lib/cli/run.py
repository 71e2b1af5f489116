"""tick, enqueue."""

import re
from contextlib import nullcontext
from functools import partial
from typing import Any

import click

from lib.api_client.jobs import JobsClient
from lib.cli import messages
from lib.cli.group import BadInput, jobs, json_option, output
from lib.cli.known import require, suggesting
from lib.cli.options import (
    FILE,
    ID,
    TEXT,
    build,
    build_from_json,
    json_argument,
    options_of,
    parse_json,
    read_text,
    seconds,
)
from lib.cli.services import job_service, select
from lib.errors import Invalid
from lib.jobs.schemas import EnqueueRequest, JobRequest
from lib.validation import error_sentence
from lib.web.services import Services

Json = dict[str, Any]

# The path of a field in the body of the API.
_OF_JOB = re.compile(r"jobs\.(\d+)\.(?:payload\.)?(.*)")


@jobs.command()
@click.option("--limit", type=click.IntRange(1, 100_000), help="Maximum number of jobs (GIFTCARD_JOBS_PER_CRON_RUN).")
@click.option("--stage", "only_stage", type=TEXT, help="Only jobs of this stage.")
@click.option("--job-id", "only_job_id", type=ID, help="Only this job, due or not.")
@click.option("--budget", type=seconds(780), help="Seconds after which no job starts.")
@click.option("--linger/--no-linger", default=False, help="Wait for jobs that become due within the budget.")
@json_option
def tick(*, as_json: bool, **options: Any) -> None:
    """Run one tick: a pass over due jobs."""
    require("stage", options["only_stage"], option="--stage")
    job_id = options["only_job_id"]
    if job_id:
        options["limit"] = 1
    run_tick = select(lambda own: partial(_run_tick, own), lambda transport: JobsClient(transport).tick)
    output(run_tick(**options), as_json=as_json, view=lambda report: messages.tick(report, only_job_id=job_id))


def _run_tick(own: Services, **options: Any) -> Json:
    """Run a tick in this process; SIGTERM ends it early."""
    from lib.tick.tick import run_tick

    with own.shutdown.tick() as stop:
        report = run_tick(own.store, own.registry(), own.settings, source="cli", stop=stop, **options)
    return report.with_advice(limited=options["limit"] is not None)


@jobs.command()
@click.argument("stage", type=TEXT, required=False)
@click.argument("correlation_id", type=TEXT, required=False)
@options_of(JobRequest, skip=("stage", "correlation_id"))
@click.option("--file", "file", type=FILE, help="Up to 1,000 jobs: a JSON array, or a body of the API; - for stdin.")
@click.option("--replace", is_flag=True, help="Requeue existing jobs in error or cancelled, with the new payload.")
@json_option
def enqueue(
    stage: str | None, correlation_id: str | None, *, file: Any, replace: bool, as_json: bool, **options: Any
) -> None:
    """Enqueue a job, or the jobs of a file: all of them or none."""
    values = {name: value for name, value in options.items() if value is not None}
    if file is not None:
        if stage is not None or values:
            raise BadInput("give a job or --file, not both")
        wanted = _jobs_of_file(file, replace=replace)
    elif stage is None or correlation_id is None:
        raise BadInput("give STAGE and CORRELATION_ID, or --file")
    else:
        job = build(JobRequest, _job_values(stage, correlation_id, values))
        wanted = EnqueueRequest(jobs=[job], replace=replace)
    try:
        with suggesting("stage", stage) if stage else nullcontext():
            done = job_service().enqueue(wanted, trigger_type="cli")
    except Invalid as error:
        if file is None or not all(_OF_JOB.match(field) for field, _ in error.errors):
            raise
        raise BadInput(_by_job(error, of=len(wanted.jobs))) from error
    output(done, as_json=as_json, view=messages.enqueued)


def _by_job(error: Invalid, *, of: int) -> str:
    """Return what is wrong with each job of a file, which people count from 1."""
    errors: dict[int, list[tuple[str, str]]] = {}
    for field, message in error.errors:
        if match := _OF_JOB.match(field):
            name = "" if match[2] in ("stage", "payload") else match[2]
            errors.setdefault(int(match[1]), []).append((name, message))
    jobs = [(f"job {index + 1} of {of}", error_sentence(found)) for index, found in errors.items()]
    return error_sentence(jobs, form="{}: {}")


def _job_values(stage: str, correlation_id: str, options: Json) -> Json:
    values = {"stage": stage, "correlation_id": correlation_id, **options}
    if "payload" in values:
        values["payload"] = json_argument(values["payload"])
    if "retry_delays" in values:
        values["retry_delays"] = values["retry_delays"].split(",")
    return values


def _jobs_of_file(file: Any, *, replace: bool) -> EnqueueRequest:
    content = parse_json(read_text(file), source="the file")
    wanted = build_from_json(EnqueueRequest, content if isinstance(content, dict) else {"jobs": content})
    return wanted.model_copy(update={"replace": True}) if replace else wanted
