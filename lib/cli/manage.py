"""Mending: requeue, cancel, pause, resume."""

import math
from collections.abc import Callable
from typing import Any

import click

from lib.cli import messages
from lib.cli.group import BadInput, Failed, answer, as_json, job_service, jobs, person
from lib.cli.options import ID, NAME, TEXT, given, identifier, made, options_of, payload
from lib.cli.prompts import progress, sure
from lib.cli.tables import count
from lib.errors import Invalid, Refused, StoreError
from lib.jobs.schemas import BulkRequeueRequest, Filter, Page, PauseRequest

Json = dict[str, Any]

_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_IDS = ("payload", "force")


@jobs.command()
@click.argument("job_ids", metavar="[ID]…", nargs=-1, type=ID)
@click.option("--force", is_flag=True, help="With ids: also a completed job: it runs again.")
@click.option("--payload", help="With an id: the corrected payload: JSON, or @FILE, or @- for standard input.")
@options_of(Filter)
@options_of(BulkRequeueRequest, skip=("filter", "already"))
@_yes
@as_json
def requeue(job_ids: tuple[int, ...], *, yes: bool, as_json: bool, **typed: Any) -> None:
    """Send jobs back to the queue. Those named, or all dead letters that fit; each gets a whole new set of attempts."""
    bulk = given(Filter, typed) | given(BulkRequeueRequest, typed)
    if job_ids and bulk:
        raise BadInput(f"give job ids or a filter, not both: {_typed(bulk)} is for a filter")
    if not job_ids:
        alone = {name: typed[name] for name in _IDS if typed[name]}
        if alone:
            raise BadInput(f"{_typed(alone)} is for jobs named by id")
        _requeue_many(typed, yes=yes, as_json=as_json)
        return
    if typed["payload"] is not None and len(job_ids) > 1:
        raise BadInput("one payload is for one job: name one id")
    corrected = None if typed["payload"] is None else payload(typed["payload"])
    if corrected is not None and not isinstance(corrected, dict):
        raise BadInput("--payload must be a JSON object")
    with_ = job_service()
    _each(
        job_ids,
        lambda job_id: with_.requeue(job_id, payload=corrected, force=typed["force"]),
        as_json=as_json,
        view=messages.requeued,
    )


def _typed(options: Json) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in options)


def _each(ids: tuple[int, ...], act: Callable[[int], Json], *, as_json: bool, view: Callable[[Json], str]) -> None:
    """One by one: a refusal stops no other, and is told; one job is answered as the API answers it."""
    if len(ids) == 1:
        answer(act(ids[0]), as_json=as_json, view=lambda done: [view(done)])
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
    answer({"jobs": done, "refused": refused}, as_json=as_json, view=lambda both: map(view, both["jobs"]))
    if refused:
        raise BadInput("; ".join(problem["problem"] for problem in refused))


def _requeue_many(typed: Json, *, yes: bool, as_json: bool) -> None:
    only = made(Filter, given(Filter, typed))
    wanted = made(BulkRequeueRequest, given(BulkRequeueRequest, typed) | {"filter": only})
    if not wanted.all and not only.as_json():
        raise BadInput("say which: job ids, or a filter like --stage or --error, or --all for every dead letter")
    with_ = job_service()
    # Counting comes first: the question names the number, and the bar knows its end.
    counted = with_.requeue_jobs(wanted.model_copy(update={"dry_run": True}), budget=math.inf)
    if wanted.dry_run or not counted["matched"]:
        answer(counted | {"dry_run": wanted.dry_run}, as_json=as_json, view=lambda a: messages.bulk(a, only.status))
        return
    sure(_question(counted["matched"], wanted), yes=yes)
    done = 0

    def heard(matched: int) -> None:
        nonlocal done
        done = matched
        show(matched)

    try:
        with progress("Requeueing", total=counted["matched"]) as show:
            outcome = with_.requeue_jobs(wanted, budget=math.inf, progress=heard)
    except (KeyboardInterrupt, StoreError) as error:
        why = str(error) or "interrupted"
        raise Failed(
            f"{why}; {done:,} were requeued before that, and the same command goes on with the rest"
        ) from error
    answer(outcome, as_json=as_json, view=lambda a: messages.bulk(a, only.status))
    if "stopped_at" in outcome:
        raise BadInput(
            f"{outcome['stopped_because']}: the rest was left alone; flask jobs show {outcome['stopped_at']}"
        )


def _question(matched: int, wanted: BulkRequeueRequest) -> str:
    how = f", the first alone, then {wanted.per_minute:g} a minute" if wanted.slowly else ""
    return f"Requeue {messages.dead(matched, wanted.filter.status)}{how}?"


@jobs.command()
@click.argument("job_ids", metavar="[ID]…", nargs=-1, type=ID)
@click.option("--flow", type=TEXT, metavar="CORRELATION_ID", help="What is left of this flow.")
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="With --flow: its tenant (default).")
@_yes
@as_json
def cancel(job_ids: tuple[int, ...], *, flow: str | None, tenant_id: str | None, yes: bool, as_json: bool) -> None:
    """Cancel jobs, or what is left of a flow. A job that runs is asked to make this run its last."""
    if bool(job_ids) == (flow is not None):
        raise BadInput("say which: job ids, or --flow CORRELATION_ID")
    if flow is None:
        if tenant_id is not None:
            raise BadInput("--tenant is for --flow: ids need none")
        _each(job_ids, job_service().cancel, as_json=as_json, view=messages.cancelled)
        return
    flow = identifier(flow, name="--flow")
    tenant = identifier("default" if tenant_id is None else tenant_id, name="--tenant")
    with_ = job_service()
    found = with_.list_jobs(Filter(tenant_id=tenant, correlation_id=flow), Page(limit=200))["jobs"]
    left = [job for job in found if job["status"] in ("queued", "running", "error")]
    if left:
        sure(f"Cancel {count(len(left), 'job')} of flow {flow} (tenant {tenant})?", yes=yes)
    answer(with_.cancel_flow(tenant, flow), as_json=as_json, view=messages.flow_cancelled)


@jobs.command()
@click.argument("stage", type=NAME)
@click.option("--reason", type=TEXT, help="Why, for those who find it paused.")
@click.option("--by", type=TEXT, help="Who (you).")
@as_json
def pause(stage: str, *, reason: str | None, by: str | None, as_json: bool) -> None:
    """Pause a stage, or everything ('*'). Its jobs wait and lose no attempt."""
    wish = made(PauseRequest, {"by": by if by is not None else person(), "reason": reason})
    answer(job_service().pause(stage, by=wish.by, reason=wish.reason), as_json=as_json, view=messages.paused)


@jobs.command()
@click.argument("stage", type=NAME)
@click.option("--by", type=TEXT, help="Who (you).")
@as_json
def resume(stage: str, *, by: str | None, as_json: bool) -> None:
    """The end of a pause."""
    wish = made(PauseRequest, {"by": by if by is not None else person()})
    answer(job_service().resume(stage, by=wish.by), as_json=as_json, view=messages.resumed)
