"""Where a team bends rules without touching a stage: blinker signals. Connect to them where stages are loaded.

    from lib.hooks import Draft, before_enqueue

    @before_enqueue.connect
    def slowly_at_night(draft: Draft) -> None:
        if draft.stage == "report":
            draft.delay_seconds = 3600

A hook that raises, or leaves what cannot be, is logged as `hook_failed`, and what it changed is undone.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from blinker import Signal

from lib.telemetry import events

# Sent with a Draft for each job that code enqueues: API, CLI, CSV, the next stage, a schedule. Not for plain SQL.
before_enqueue = Signal()
# Sent with a FailedRun before it is decided what becomes of a job whose run failed.
after_error = Signal()

Told = TypeVar("Told")

_LONGEST_DELAY = 10 * 365 * 86_400.0
_BENT = ("payload", "ttr_seconds", "delay_seconds", "semantics")


@dataclass(slots=True, kw_only=True)
class Draft:
    """A job about to be enqueued. The first four fields tell which, the others may be set. None: as ever."""

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
    """A run that failed. `retry` and `delay` (seconds) hold what would become of it, and may be set.

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


def drafted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Jobs as `giftcard_enqueue` takes them, as the hooks leave them."""
    return [_drafted(row) for row in rows] if before_enqueue.receivers else rows


def heard(failure: FailedRun) -> FailedRun:
    """The failure as the hooks leave it."""
    if not after_error.receivers:
        return failure
    return _sent(after_error, failure, kept=copy.copy, possible=_is_possible_failure)


def guarded(name: str, function: Callable[[], Any], *, job_id: int | None = None) -> Any:
    """What somebody else's code answers, which may not stop a job; None, and a line in the log, if it raises."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001
        # The type alone: the message may hold what the job holds.
        events.emit("hook_failed", hook=name, error=type(error).__name__, job_id=job_id)
        return None


def _drafted(row: dict[str, Any]) -> dict[str, Any]:
    draft = Draft(
        stage=row["stage"],
        tenant_id=row.get("tenant_id") or "default",
        correlation_id=row.get("correlation_id") or "",
        trigger_type=row.get("trigger_type") or "sql",
        payload=copy.deepcopy(row.get("payload") or {}),
        **{name: row[name] for name in _BENT[1:] if row.get(name) is not None},
    )
    bent = _sent(before_enqueue, draft, kept=copy.deepcopy, possible=_is_possible_draft)
    values = {name: getattr(bent, name) for name in _BENT}
    return row | {name: value for name, value in values.items() if value is not None}


def _sent(signal: Signal, value: Told, *, kept: Callable[[Told], Told], possible: Callable[[Told], bool]) -> Told:
    """Each receiver has its turn with what those before it have left; what one spoils is as it was before it."""
    for receiver in signal.receivers_for(None):
        name = getattr(receiver, "__name__", type(receiver).__name__)
        before = kept(value)

        def turn(receiver: Callable[[Told], Any] = receiver, name: str = name, value: Told = value) -> bool:
            receiver(value)
            if not possible(value):
                raise ValueError(f"{name} has set what cannot be")
            return True

        if not guarded(name, turn, job_id=getattr(value, "job_id", None)):
            value = before
    return value


def _is_possible_draft(draft: Draft) -> bool:
    return (
        isinstance(draft.payload, dict)
        and (draft.ttr_seconds is None or (isinstance(draft.ttr_seconds, int) and 1 <= draft.ttr_seconds <= 86_400))
        and (draft.delay_seconds is None or _is_delay(draft.delay_seconds))
        and draft.semantics in (None, "at_least_once", "at_most_once")
    )


def _is_possible_failure(failure: FailedRun) -> bool:
    return isinstance(failure.retry, bool) and (failure.delay is None or _is_delay(failure.delay))


def _is_delay(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= _LONGEST_DELAY
