"""What was done, to what, and what to do next: the sentences after each command that changes something."""

from collections.abc import Iterator
from typing import Any

from lib.cli.tables import Part, count

Json = dict[str, Any]


def dead(number: int, status: str | None) -> str:
    """Like 1,234 dead letters."""
    return count(number, "cancelled job") if status == "cancelled" else count(number, "dead letter")


def _what(stage: str) -> str:
    return "everything" if stage == "*" else f"stage {stage}"


def requeued(done: Json) -> str:
    """One job."""
    return f"job {done['id']} was {done['was']}, is queued: the next tick runs it"


def bulk(done: Json, status: str | None) -> Iterator[Part]:
    """Many jobs."""
    if done["dry_run"]:
        yield f"{dead(done['matched'], status)} would be requeued; nothing was changed: leave --dry-run out to do it"
    elif not done["matched"]:
        yield f"no {'cancelled job' if status == 'cancelled' else 'dead letter'} fits: nothing was changed"
    else:
        yield f"{dead(done['requeued'], status)} requeued: the next ticks run them; flask jobs status shows how it goes"


def cancelled(done: Json) -> str:
    """One job."""
    if done["cancel_requested"]:
        return (
            f"job {done['id']} runs: unless this run completes it, it is cancelled then; flask jobs show {done['id']}"
        )
    if done["was"] == "cancelled":
        return f"job {done['id']} was cancelled already"
    return f"job {done['id']} was {done['was']}, is cancelled; flask jobs requeue {done['id']} takes it back"


def flow_cancelled(done: Json) -> Iterator[Part]:
    """What was left of a flow."""
    yield f"flow {done['correlation_id']} (tenant {done['tenant_id']}): {count(done['cancelled'], 'job')} cancelled"
    if done["cancel_requested"]:
        yield f"  {done['cancel_requested']} running: unless this run completes them, they are cancelled then"


def paused(done: Json) -> Iterator[Part]:
    """A stage, or everything."""
    yield (
        f"{_what(done['stage'])} is paused by {done['paused_by']}: jobs wait and lose no attempt; "
        f"flask jobs resume '{done['stage']}' ends it"
    )


def resumed(done: Json) -> Iterator[Part]:
    """The end of a pause."""
    yield f"{_what(done['stage'])} is no longer paused: the next tick takes its jobs"


def was_reset(done: Json) -> Iterator[Part]:
    """A circuit."""
    yield f"circuit {done['circuit']} was {done['was']}, is closed: the next tick takes its jobs"


def enqueued(done: Json) -> Iterator[Part]:
    """Jobs that are in the queue now, or were there."""
    if len(done["jobs"]) == 1:
        (job,) = done["jobs"]
        if job["created"] and job["status"] != "queued":
            yield f"job {job['id']} ran at once (GIFTCARD_INLINE) and is {job['status']}"
        elif job["created"]:
            yield f"job {job['id']} is queued: the next tick after its time runs it"
        elif "was" in job:
            yield f"job {job['id']} was {job['was']}, is queued with this payload"
        else:
            yield f"job {job['id']} was there already and is {job['status']}: nothing was changed"
        return
    new = sum(job["created"] for job in done["jobs"])
    again = sum("was" in job for job in done["jobs"])
    yield f"{count(new, 'job')} queued, {again} queued again, {len(done['jobs']) - new - again} were there already"


def tick(report: Json, *, only_job_id: int | None) -> Iterator[Part]:
    """What a tick did."""
    names = (
        "completed",
        "retried",
        "errored",
        "snoozed",
        "released",
        "interrupted",
        "lease_lost",
        "revived",
        "cancelled",
    )
    counts = ", ".join(f"{report[name]} {name}" for name in names if report[name])
    yield f"tick {report['tick_id']}: {report['started']} started{', ' + counts if counts else ''}"
    yield f"stopped because: {report['stopped_because']}, after {report['duration_ms']} ms"
    if only_job_id and not report["started"]:
        yield f"job {only_job_id} was not started: flask jobs show {only_job_id} says why"
    elif report.get("advice"):  # older deployments have none
        yield report["advice"]
    elif only_job_id is None and report["stopped_because"] == "limit":
        yield "there may be more: raise --limit, or GIFTCARD_JOBS_PER_CRON_RUN for the clock's ticks"
    for stage, setting in report["parked"].items():
        yield f"stage {stage} is parked: set {setting}"
    for queue, sums in report.get("pgmq", {}).items():
        came = ", ".join(f"{sums[name]} {name}" for name in ("moved", "repeated", "refused") if sums[name])
        if came or "problem" in sums:
            yield f"queue {queue}: {sums.get('problem', came)}"


def imported(outcome: Json) -> Iterator[Part]:
    """Orders of a file."""
    yield (
        f"{outcome['created']} orders taken in, {outcome['repeated']} were there already, {len(outcome['wrong'])} wrong"
    )
    for row in outcome["wrong"]:
        yield f"  line {row['line']}: {row['problem']}"


def erased(done: Json) -> Iterator[Part]:
    """A person."""
    yield (
        f"customer {done['customer_id']} is erased: {count(done['flows'], 'flow')}, {count(done['jobs'], 'job')}, "
        f"{count(done['mails_removed'], 'mail')} removed from the outbox; amounts stay"
    )
