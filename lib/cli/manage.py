"""requeue, cancel, pause, resume."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from lib.cli import messages
from lib.cli.group import BadInput, Failed, jobs, json_option, output
from lib.cli.known import require_names, suggesting
from lib.cli.models import build_each, identifiers
from lib.cli.options import (
    ID,
    NAME,
    TEXT,
    build,
    by_option,
    json_argument,
    option_name,
    options_of,
    reason_option,
    typed_fields,
    yes_option,
)
from lib.cli.prompts import confirm, progress_bar
from lib.cli.services import current_user, job_service
from lib.cli.tables import count
from lib.errors import Invalid, Refused, StoreError
from lib.jobs.schemas import ActRequest, BulkRequeueRequest, Filter, Page, PauseRequest

Json = dict[str, Any]

_OPTIONS_WITH_IDS = ("payload", "force")


@jobs.command()
@click.argument("job_ids", metavar="[ID]…", nargs=-1, type=ID)
@click.option("--force", is_flag=True, help="With ids: requeue a completed job too; it runs again.")
@click.option("--payload", help="With one id: the corrected payload: JSON, or @FILE, or @- for standard input.")
@options_of(Filter)
@options_of(BulkRequeueRequest, skip=("filter", "already", "reason"))
@reason_option
@yes_option
@json_option
def requeue(job_ids: tuple[int, ...], *, yes: bool, as_json: bool, **options: Any) -> None:
    """Send jobs back to the queue with a new set of attempts: these ids, or all dead letters that match a filter."""
    bulk = typed_fields(Filter, options) | typed_fields(BulkRequeueRequest, options | {"reason": None})
    if job_ids and bulk:
        raise BadInput(f"give job ids or a filter, not both: {_option_names(bulk)} needs a filter")
    if not job_ids:
        of_ids = {name: options[name] for name in _OPTIONS_WITH_IDS if options[name]}
        if of_ids:
            raise BadInput(f"{_option_names(of_ids)} needs job ids")
        _requeue_many(options, yes=yes, as_json=as_json)
        return
    if options["payload"] is not None and len(job_ids) > 1:
        raise BadInput("--payload is for one job: give one id")
    payload = None if options["payload"] is None else json_argument(options["payload"])
    if payload is not None and not isinstance(payload, dict):
        raise BadInput("--payload must be a JSON object")
    why = build(ActRequest, {"reason": options["reason"]}).reason
    service = job_service()
    _for_each(
        job_ids,
        lambda job_id: service.requeue(job_id, payload=payload, force=options["force"], reason=why),
        as_json=as_json,
        view=messages.requeued,
    )


def _option_names(fields: Json) -> str:
    return ", ".join(map(option_name, fields))


def _for_each(ids: tuple[int, ...], act: Callable[[int], Json], *, as_json: bool, view: Callable[[Json], str]) -> None:
    """Act on one job after the other; a refusal stops no other. The result of a single job is the API's."""
    if len(ids) == 1:
        output(act(ids[0]), as_json=as_json, view=lambda done: [view(done)])
        return
    done: list[Json] = []
    refused: list[Json] = []
    for job_id in dict.fromkeys(ids):
        try:
            done.append(act(job_id))
        except (Invalid, Refused) as error:
            refused.append({"id": job_id, "problem": str(error)})
        except StoreError as error:
            before = ", ".join(str(job["id"]) for job in done) or "none"
            raise Failed(f"{error}; done before that: {before}") from error
    output({"jobs": done, "refused": refused}, as_json=as_json, view=lambda result: map(view, result["jobs"]))
    if refused:
        raise BadInput("; ".join(problem["problem"] for problem in refused))


def _requeue_many(options: Json, *, yes: bool, as_json: bool) -> None:
    only, bulk = build_each((Filter, BulkRequeueRequest), options | {"filter": None})
    wanted = bulk.model_copy(update={"filter": only})
    if not wanted.all and not only.as_json():
        raise BadInput("no job is selected: give ids, a filter like --stage or --error, or --all for every dead letter")
    service = job_service()
    # Count first: the question names the number, and the progress bar needs the total.
    counted = service.requeue_jobs(wanted.model_copy(update={"dry_run": True}), budget=math.inf)
    if not counted["matched"]:
        require_names(only)
    if wanted.dry_run or not counted["matched"]:
        counted |= {"dry_run": wanted.dry_run}
        output(counted, as_json=as_json, view=lambda result: messages.bulk_requeued(result, only.status))
        return
    confirm(_question(counted["matched"], wanted), yes=yes)
    done = 0

    def on_progress(matched: int) -> None:
        nonlocal done
        done = matched
        show(matched)

    try:
        with progress_bar("Requeueing", total=counted["matched"]) as show:
            outcome = service.requeue_jobs(wanted, budget=math.inf, progress=on_progress)
    except (KeyboardInterrupt, StoreError) as error:
        reason = str(error) or "interrupted"
        raise Failed(f"{reason}; {done:,} were requeued before that: repeat the command for the rest") from error
    output(outcome, as_json=as_json, view=lambda result: messages.bulk_requeued(result, only.status))
    if "stopped_at" in outcome:
        raise BadInput(
            f"{outcome['stopped_because']}: the rest was not requeued; see flask jobs show {outcome['stopped_at']}"
        )


def _question(matched: int, wanted: BulkRequeueRequest) -> str:
    how = f", the first alone, then {wanted.per_minute:g} a minute" if wanted.slowly else ""
    return f"Requeue {messages.dead_letters(matched, wanted.filter.status)}{how}?"


@jobs.command()
@click.argument("job_ids", metavar="[ID]…", nargs=-1, type=ID)
@click.option("--flow", type=TEXT, metavar="CORRELATION_ID", help="All jobs of this flow that have not completed.")
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="With --flow: its tenant (default).")
@reason_option
@yes_option
@json_option
def cancel(
    job_ids: tuple[int, ...],
    *,
    flow: str | None,
    tenant_id: str | None,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel jobs, or an order with the rest of its flow. A running job is not retried after its run."""
    if bool(job_ids) == (flow is not None):
        raise BadInput("give job ids, or --flow CORRELATION_ID")
    why = build(ActRequest, {"reason": reason}).reason
    if flow is None:
        if tenant_id is not None:
            raise BadInput("--tenant is for --flow: ids need none")
        cancelling = partial(job_service().cancel, reason=why)
        _for_each(job_ids, cancelling, as_json=as_json, view=messages.cancelled)
        return
    flow, tenant = identifiers({"--flow": flow, "--tenant": "default" if tenant_id is None else tenant_id})
    service = job_service()
    found = service.list_jobs(Filter(tenant_id=tenant, correlation_id=flow), Page(limit=200))["jobs"]
    unfinished = [job for job in found if job["status"] in ("queued", "running", "error")]
    if unfinished:
        confirm(f"Cancel {count(len(unfinished), 'job')} of flow {flow} (tenant {tenant})?", yes=yes)
    output(service.cancel_flow(tenant, flow, reason=why), as_json=as_json, view=messages.flow_cancelled)


@jobs.command()
@click.argument("stage", type=NAME)
@reason_option
@by_option
@json_option
def pause(stage: str, *, reason: str | None, by: str | None, as_json: bool) -> None:
    """Pause a stage, or everything ('*'). Its jobs wait and lose no attempt."""
    request = build(PauseRequest, {"by": by if by is not None else current_user(), "reason": reason})
    with suggesting("stage", stage):
        done = job_service().pause(stage, by=request.by, reason=request.reason)
    output(done, as_json=as_json, view=messages.paused)


@jobs.command()
@click.argument("stage", type=NAME)
@reason_option
@by_option
@json_option
def resume(stage: str, *, reason: str | None, by: str | None, as_json: bool) -> None:
    """Resume a paused stage, or everything ('*')."""
    request = build(PauseRequest, {"by": by if by is not None else current_user(), "reason": reason})
    with suggesting("stage", stage):
        done = job_service().resume(stage, by=request.by, reason=request.reason)
    output(done, as_json=as_json, view=messages.resumed)
