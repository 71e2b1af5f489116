"""Hooks: blinker signals by which a team changes jobs and failures without touching a stage.

    from lib.jobs.hooks import Draft, before_enqueue

    @before_enqueue.connect
    def delay_reports(draft: Draft) -> None:
        if draft.stage == "report":
            draft.delay_seconds = 3600

Connect to them where stages are loaded. A hook that raises, or sets an impossible value, is logged as `hook_failed`,
and its changes are undone.
"""

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from blinker import Signal

from lib.job import Error, Job, Retry
from lib.jobs.failure_policy import FailurePolicy, decide, may_retry
from lib.jobs.retry_policy import max_attempts
from lib.telemetry import events
from lib.telemetry.frames import place_of
from lib.validation import is_storable

# Sent with a Draft for each job that code enqueues: API, CLI, CSV, next stage, schedule, pgmq. Not for plain SQL, nor
# for the webhook jobs that the database enqueues within a settle.
before_enqueue = Signal()
# Sent with a FailedRun before the outcome of a failed run is settled.
after_error = Signal()

Value = TypeVar("Value")

_LONGEST_DELAY = 10 * 365 * 86_400.0
_CHANGEABLE = ("payload", "ttr_seconds", "delay_seconds", "semantics")


@dataclass(slots=True, kw_only=True)
class Draft:
    """A job about to be enqueued. The first four fields identify it; the others may be set. None: unchanged."""

    stage: str
    tenant_id: str
    correlation_id: str
    trigger_type: str
    payload: dict[str, Any]
    ttr_seconds: int | None = None
    delay_seconds: float | None = None
    semantics: str | None = None


@dataclass(slots=True, kw_only=True)
class FailedRun:
    """A run that failed. `retry` and `delay` (seconds) hold what would happen to its job, and may be set.

    Nothing overrides at_most_once, `max_attempts` after an interruption, and 25 attempts in all.
    """

    stage: str
    job_id: int
    tenant_id: str
    correlation_id: str
    attempt: int
    max_attempts: int
    error: BaseException
    retry: bool
    delay: float | None


def apply_before_enqueue(
    row: dict[str, Any], *, is_valid: Callable[[dict[str, Any]], bool], longest_ttr: int
) -> dict[str, Any]:
    """Return a job, as `giftcard_enqueue` takes it, with the changes of the hooks.

    `is_valid` checks a payload. `longest_ttr`: the most seconds that a hook may set.
    """
    if not before_enqueue.receivers:
        return row
    draft = Draft(
        stage=row["stage"],
        tenant_id=row.get("tenant_id") or "default",
        correlation_id=row.get("correlation_id") or "",
        trigger_type=row.get("trigger_type") or "sql",
        payload=copy.deepcopy(row.get("payload") or {}),
        **{name: row[name] for name in _CHANGEABLE[1:] if row.get(name) is not None},
    )
    before = json.dumps(draft.payload)

    def is_possible(draft: Draft) -> bool:
        if not _is_possible_draft(draft, longest_ttr):
            return False
        return json.dumps(draft.payload) == before or (is_storable(draft.payload) and is_valid(draft.payload))

    draft = _send(before_enqueue, draft, copied=copy.deepcopy, is_possible=is_possible)
    changes = {name: getattr(draft, name) for name in _CHANGEABLE}
    return row | {name: value for name, value in changes.items() if value is not None}


def apply_after_error(
    outcome: Retry | Error, failure: BaseException, job: Job, policy: FailurePolicy, *, rng: random.Random
) -> Retry | Error:
    """Return the outcome of a failed run with the changes of the hooks."""
    if not after_error.receivers:
        return outcome
    run = FailedRun(
        stage=job.stage,
        job_id=job.id,
        tenant_id=job.tenant_id,
        correlation_id=job.correlation_id,
        attempt=job.attempts,
        max_attempts=max_attempts(job, policy.retry),
        error=failure,
        retry=isinstance(outcome, Retry),
        delay=outcome.delay if isinstance(outcome, Retry) else None,
    )
    run = _send(after_error, run, copied=copy.copy, is_possible=_is_possible_run)
    if not run.retry:
        return decide(failure, job, policy, rng=rng, again=False) if isinstance(outcome, Retry) else outcome
    if not may_retry(failure, job, policy.retry):
        return outcome
    retry = outcome if isinstance(outcome, Retry) else decide(failure, job, policy, rng=rng, again=True)
    return retry if run.delay is None or isinstance(retry, Error) else replace(retry, delay=float(run.delay))


def ask_can_retry(policy: FailurePolicy, job: Job, failure: BaseException) -> bool | None:
    """Return the decision of the stage's own `can_retry`; None: it has none, abstains or failed."""
    can_retry = policy.can_retry
    if can_retry is None:
        return None
    decision = guarded(f"can_retry of {job.stage}", lambda: can_retry(job.attempts, failure), job_id=job.id)
    return decision if isinstance(decision, bool) else None


def guarded(name: str, function: Callable[[], Any], *, job_id: int | None = None) -> Any:
    """Return what a team's own code returns; None, and a line in the log, if it raises: it must not stop a job."""
    try:
        return function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also sys.exit
        # The type alone: the message may hold what the job holds.
        events.emit("hook_failed", hook=name, error=type(error).__name__, at=place_of(error), job_id=job_id)
        return None


def _send(
    signal: Signal, value: Value, *, copied: Callable[[Value], Value], is_possible: Callable[[Value], bool]
) -> Value:
    """Pass a value through the receivers, one after another. Undo the changes of one that fails."""
    for receiver in signal.receivers_for(None):
        name = getattr(receiver, "__name__", type(receiver).__name__)
        before = copied(value)

        def call(receiver: Callable[[Value], Any] = receiver, name: str = name, value: Value = value) -> bool:
            receiver(value)
            if not is_possible(value):
                raise ValueError(f"{name} has set an impossible value")
            return True

        if not guarded(name, call, job_id=getattr(value, "job_id", None)):
            value = before
    return value


def _is_possible_draft(draft: Draft, longest_ttr: int) -> bool:
    ttr = draft.ttr_seconds
    return (
        isinstance(draft.payload, dict)
        and (ttr is None or (isinstance(ttr, int) and 1 <= ttr <= longest_ttr))
        and (draft.delay_seconds is None or _is_delay(draft.delay_seconds))
        and draft.semantics in (None, "at_least_once", "at_most_once")
    )


def _is_possible_run(run: FailedRun) -> bool:
    return isinstance(run.retry, bool) and (run.delay is None or _is_delay(run.delay))


def _is_delay(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= _LONGEST_DELAY
