"""Results of runs as the functions of a tick take them, in JSON."""

from typing import Any

from lib.job import LONGEST_RETRY_AFTER, Complete, Error, NextJob, Release, Retry, Snooze
from lib.store.codec import Result
from lib.telemetry.redact import MAX_ERROR_LENGTH


def encode_completed(results: list[Result]) -> dict[str, Any] | None:
    """Encode results as `giftcard_step` takes them, in the order of ids; None: one is not simply complete."""
    results = sorted(results, key=lambda result: result.job.id)
    more: dict[str, Any] = {}
    for result in results:
        outcome = result.outcome
        if not isinstance(outcome, Complete) or outcome.then or result.job.interrupted or result.last_resort:
            return None
        if outcome.context or outcome.next or outcome.detail:
            more[str(result.job.id)] = _kept(outcome)
    ids, leases = tuple(r.job.id for r in results), tuple(r.job.lease_id for r in results)
    return {"ids": ids, "lease_ids": leases, **({"results": more} if more else {})}


def _kept(outcome: Complete) -> dict[str, Any]:
    """Return what a run leaves besides its end."""
    kept = {"context": outcome.context} if outcome.context else {}
    return kept | ({"detail": outcome.detail} if outcome.detail else {}) | _following(outcome.next)


def encode_result(result: Result) -> dict[str, Any]:
    """Encode a result as `giftcard_settle` takes it."""
    common, outcome = _of_any(result), result.outcome
    match outcome:
        case Complete(context=context, next=following, then=call):
            common["outcome"] = "complete"
            if context:
                common["context"] = context
            if call:
                common["then"] = {"function": call.function, "arguments": call.arguments}
            return common | _following(following) if following else common
        case Retry(delay=delay, error=error, hold=hold):
            return common | {"outcome": "retry", "delay": delay, "error": error} | _held(hold)
        case Error(error=error, revive=revive, next=following, hold=hold):
            ended = {"outcome": "error", "error": error, "revive": revive}
            return common | ended | _held(hold) | _following(following)
        case Snooze(delay=delay, waiting_for=reason):
            error = f"waiting for {reason}"[:MAX_ERROR_LENGTH]
            return common | {"outcome": "snooze", "delay": delay, "error": error}
        case Release():
            return common | {"outcome": "release"}


def _of_any(result: Result) -> dict[str, Any]:
    """Return the fields that results of all outcomes have."""
    job, outcome = result.job, result.outcome
    common: dict[str, Any] = {"id": job.id, "lease_id": job.lease_id}
    if job.interrupted:
        common["interrupted"] = True
    if result.last_resort:
        common["last_resort"] = True
    if result.trips is not None:
        common["trips"] = result.trips
    if result.fault is not None:
        common["frames"] = [frame.as_json() for frame in result.fault.frames]
    if not isinstance(outcome, Release) and outcome.detail:
        common["detail"] = outcome.detail
    return common


def _held(hold: float | None) -> dict[str, Any]:
    """Return the time for which the other side asked to be left alone; none for one that is not a time from now."""
    return {"hold": min(hold, LONGEST_RETRY_AFTER)} if hold is not None and hold > 0 else {}


def _following(jobs: tuple[NextJob, ...]) -> dict[str, Any]:
    if not jobs:
        return {}
    return {
        "next": [
            {
                "stage": job.stage,
                "dedup_key": job.dedup_key,
                "payload": job.payload,
                "circuit": job.circuit,
                "scheduled_at": job.at.isoformat() if job.at else None,
                "ttr_seconds": job.ttr_seconds,
                "delay_seconds": job.delay_seconds,
                "semantics": job.semantics,
                "max_attempts": job.max_attempts,
                "retry_delays": job.retry_delays,
                "priority": job.priority,
                "concurrency_key": job.concurrency_key,
            }
            for job in jobs
        ]
    }
