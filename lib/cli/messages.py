"""The sentences after each change: what was changed, and what to do next."""

from collections.abc import Iterator
from typing import Any

from lib.cli.tables import Part, count, moment

Json = dict[str, Any]

# The counts of a tick's report, as people read them.
_TICK_COUNTS = {
    "completed": "completed",
    "retried": "retried",
    "errored": "dead",
    "snoozed": "snoozed",
    "released": "released",
    "interrupted": "interrupted",
    "lease_lost": "lease lost",
    "revived": "revived",
    "cancelled": "cancelled",
}
_MESSAGE_COUNTS = "moved repeated conflicts refused".split()
# The count of a kind in `prune --dry-run` ends here.
_PREVIEW_LIMIT = 1000
_PRUNED_KINDS = {
    "jobs": ("finished job", "finished jobs"),
    "history": ("run", "runs"),
    "ticks": ("tick", "ticks"),
    "circuit_changes": ("circuit change", "circuit changes"),
    "archive": ("archived job", "archived jobs"),
}


def dead_letters(number: int, status: str | None) -> str:
    """Format a number of dead letters, or of cancelled jobs if the filter has that status."""
    return count(number, "cancelled job") if status == "cancelled" else count(number, "dead letter")


def stage_label(stage: str) -> str:
    """Return the name of a stage in a sentence; '*' is everything."""
    return "everything" if stage == "*" else f"stage {stage}"


# Jobs


def requeued(done: Json) -> str:
    """Confirm the requeue of one job."""
    return f"job {done['id']} is queued (was {done['was']}): the next tick runs it"


def bulk_requeued(done: Json, status: str | None) -> Iterator[Part]:
    """Confirm a bulk requeue, or render its dry run."""
    if done["dry_run"]:
        yield f"{dead_letters(done['matched'], status)} would be requeued; nothing was changed: omit --dry-run to do it"
    elif not done["matched"]:
        yield f"no {'cancelled job' if status == 'cancelled' else 'dead letter'} matches: nothing was changed"
    else:
        yield f"{dead_letters(done['requeued'], status)} requeued: the next ticks run them; see flask jobs status"


def cancelled(done: Json) -> str:
    """Confirm the cancellation of one job."""
    if done["cancel_requested"]:
        return f"job {done['id']} is running: it is cancelled after this run unless the run completes it"
    if done["was"] == "cancelled":
        return f"job {done['id']} was cancelled already"
    again = f"to queue it again, due at once: flask jobs requeue {done['id']}"
    return f"job {done['id']} is cancelled (was {done['was']}); {again}"


def flow_cancelled(done: Json) -> Iterator[Part]:
    """Confirm the cancellation of a flow."""
    flow = f"flow {done['correlation_id']} (tenant {done['tenant_id']})"
    if done["cancelled"] or done["cancel_requested"]:
        reopen = "to reopen it, requeue one of them: flask jobs requeue ID"
        yield f"{flow}: {count(done['cancelled'], 'job')} cancelled, and its order; {reopen}"
    else:
        yield f"{flow}: its order is cancelled. No job was left to cancel; money and card: flask jobs orders reconcile"
    if done["cancel_requested"]:
        yield f"  {done['cancel_requested']} running: cancelled after their runs unless these complete them"


def enqueued(done: Json) -> Iterator[Part]:
    """Confirm enqueued jobs, and those that existed already."""
    if len(done["jobs"]) == 1:
        (job,) = done["jobs"]
        if job["created"] and job["status"] != "queued":
            yield f"job {job['id']} ran at once (GIFTCARD_INLINE) and is {job['status']}"
        elif job["created"]:
            yield f"job {job['id']} is queued: the next tick after its time runs it"
        elif "was" in job:
            yield f"job {job['id']} is queued with this payload (was {job['was']})"
        else:
            yield f"job {job['id']} exists already and is {job['status']}: nothing was changed"
        return
    new = sum(job["created"] for job in done["jobs"])
    again = sum("was" in job for job in done["jobs"])
    yield f"{count(new, 'job')} queued, {again} queued again, {len(done['jobs']) - new - again} existed already"


def tick(report: Json, *, only_job_id: int | None) -> Iterator[Part]:
    """Render the report of a tick."""
    counts = ", ".join(f"{report[name]} {word}" for name, word in _TICK_COUNTS.items() if report[name])
    yield f"tick {report['tick_id']}: {report['started']} started{', ' + counts if counts else ''}"
    yield f"stopped because: {report['stopped_because']}, after {report['duration_ms']} ms"
    if only_job_id and not report["started"]:
        yield f"job {only_job_id} was not started; to see why: flask jobs show {only_job_id}"
    elif report.get("advice"):  # older deployments have none
        yield report["advice"]
    elif only_job_id is None and report["stopped_because"] == "limit":
        yield "there may be more: raise --limit, or GIFTCARD_JOBS_PER_CRON_RUN for the clock's ticks"
    for stage, setting in report["parked"].items():
        yield f"stage {stage} is parked: set {setting}"
    for queue, counters in report.get("pgmq", {}).items():
        parts = [f"{counters[name]} {name}" for name in _MESSAGE_COUNTS if counters.get(name)]
        parts += [counters["problem"]] if "problem" in counters else []
        if parts:
            yield f"queue {queue}: {', '.join(parts)}"


# Stages, circuits, archive, customers


def paused(done: Json) -> Iterator[Part]:
    """Confirm the pause of a stage, or of everything."""
    yield (
        f"{stage_label(done['stage'])} is paused by {done['paused_by']}: jobs wait and lose no attempt; "
        f"to resume: flask jobs resume '{done['stage']}'"
    )


def resumed(done: Json) -> Iterator[Part]:
    """Confirm the end of a pause."""
    yield f"{stage_label(done['stage'])} is resumed: the next tick runs its jobs"


def circuit_reset(done: Json) -> Iterator[Part]:
    """Confirm that a circuit is closed."""
    yield f"circuit {done['circuit']} is closed (was {done['was']}): the next tick runs its jobs"


def pruned_counts(found: Json, *, capped: bool) -> str:
    """Format the counts by kind. `capped`: counts of a preview, which end at a thousand."""
    return ", ".join(
        ("at least " if capped and found[kind] >= _PREVIEW_LIMIT else "") + count(found[kind], *names)
        for kind, names in _PRUNED_KINDS.items()
        if found[kind]
    )


def would_prune(found: Json) -> Iterator[Part]:
    """Render the dry run of pruning."""
    counts = pruned_counts(found, capped=True)
    scope = "" if found["done"] else " among the oldest 10,000"
    yield f"{counts} would be removed: omit --dry-run to do it" if counts else f"nothing{scope} is past its limit"


def pruned(done: Json) -> Iterator[Part]:
    """Confirm pruning."""
    counts = pruned_counts(done, capped=False)
    yield f"{counts or 'nothing'} removed; to restore a job from the archive: flask jobs restore ID"


def restored(done: Json) -> Iterator[Part]:
    """Confirm a restore from the archive."""
    again = f"; to run it again: flask jobs requeue {done['id']}" if done["status"] in ("error", "cancelled") else ""
    yield f"job {done['id']} is restored with status {done['status']}{again}"


def erased(done: Json) -> Iterator[Part]:
    """Confirm the erasure of a customer's data."""
    yield (
        f"customer {done['customer_id']} is erased: {count(done['flows'], 'flow')}, {count(done['jobs'], 'job')}, "
        f"{count(done['mails_removed'], 'mail')} removed from the outbox; amounts stay"
    )


# Schedules and webhook endpoints


def schedule_times(schedule: Json) -> str:
    """Format expression and time zone, like `0 3 * * * Europe/Berlin, once`."""
    zone = "" if schedule["timezone"] == "UTC" else f" {schedule['timezone']}"
    return f"{schedule['schedule']}{zone}{'' if schedule['is_recurring'] else ', once'}"


def scheduled(done: Json) -> Iterator[Part]:
    """Confirm a schedule that is created, updated or resumed."""
    yield f"schedule {done['id']} runs {done['stage']}: {schedule_times(done)}"
    yield from next_times(done)


def next_times(found: Json) -> Iterator[Part]:
    """Render the next times of a schedule, or why there are none."""
    if found["status"] == "paused":
        reason = f": {found['pause_reason']}" if found["pause_reason"] else ""
        yield f"paused by {found['paused_by']}{reason}; to resume: flask jobs schedules resume {found['id']}"
    elif found["next_times"]:
        yield f"next: {', '.join(map(moment, found['next_times']))}"
    elif not found["is_recurring"]:
        yield "its one job is enqueued; the schedule is deleted when that job ends"


def schedule_deleted(done: Json) -> Iterator[Part]:
    """Confirm the deletion of a schedule."""
    yield f"schedule {done['id']} is deleted; its jobs stay: see flask jobs list"


def schedule_paused(done: Json) -> Iterator[Part]:
    """Confirm the pause of a schedule."""
    yield f"schedule {done['id']} is paused by {done['paused_by']}; to resume: flask jobs schedules resume {done['id']}"


def schedule_run(done: Json) -> Iterator[Part]:
    """Confirm an occurrence that is enqueued by hand."""
    yield f"job {done['job_id']} is queued: the next tick runs it"


def test_event_enqueued(done: Json) -> Iterator[Part]:
    """Confirm an enqueued test event."""
    job_id = done["job_id"]
    yield f"job {job_id} sends event {done['event_id']} with the next tick: see flask jobs show {job_id}"


def endpoint_deleted(done: Json) -> Iterator[Part]:
    """Confirm the deletion of a webhook endpoint."""
    yield f"webhook endpoint {done['id']} is deleted; its queued webhooks are cancelled when they are due"


# Tests


def sent(found: Json) -> Iterator[Part]:
    """Render which channels accepted a test."""
    for result in found["results"]:
        what = f"accepted by {result['to']}" if result["to"] else "sent"
        outcome = what if result["sent"] else f"not {what}: {result['error']}"
        yield f"{result['channel']}: {outcome}"
