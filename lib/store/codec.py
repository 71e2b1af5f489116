"""The codec of the tick functions: the values that Python exchanges with them as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from lib.job import LONGEST_RETRY_AFTER, Call, Complete, Error, Job, NextJob, Outcome, Release, Retry, Snooze
from lib.telemetry import events
from lib.telemetry.frames import Fault
from lib.telemetry.redact import MAX_ERROR_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The outcome of one settle.

    `settled` lease_lost: nothing changed, because the job belongs to another run. refused: nothing changed, because of
    `error`. put_aside: the job is a dead letter, because nothing else could be stored; skipped: not even that could.
    """

    id: int
    settled: str
    status: str
    next_run_at: datetime | None
    sqlstate: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """A settle of one result with a call. `called_off`: the call failed, nothing was changed.

    Its `kind`: refused, timeout, or unavailable; `error`: why, with the SQLSTATE.
    """

    settled: Settled | None = None
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    called_off: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of one call of a tick. `next_due_in` is in seconds; `stopped_because` None: the tick continues.

    `wake_in` 0: the caller is to wake another tick; 1: it is to ask again after a second (`lib.tick.waking`).
    """

    jobs: tuple[Job, ...]
    settled: tuple[Settled, ...] = ()
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    paused: bool = False
    next_due_at: str | None = None
    next_due_in: float | None = None
    stopped_because: str | None = None
    tick_id: int = 0
    duplicate: bool = False
    revived: int = 0
    maintenance: tuple[str, ...] = ()
    schedules: tuple[dict[str, Any], ...] = ()
    wake_in: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of a run, to be settled. `trips`: the threshold of its circuit, if this failure counts.

    `last_resort`: if it is refused, its job is put aside. `fault`: where it failed, unless the failure was expected.
    `settle`: it is settled already, because it has a call (`Complete.then`).
    """

    job: Job
    outcome: Outcome
    trips: int | None = None
    duration_ms: int | None = None
    last_resort: bool = False
    fault: Fault | None = None
    settle: Settle | None = None

    @property
    def call(self) -> Call | None:
        """The call that it is settled with, on the thread of its run."""
        return self.outcome.then if isinstance(self.outcome, Complete) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An external effect, as begun. `state`: new, unfinished or finished."""

    state: str
    result: dict[str, Any] | None
    vendor_key: str
    age_seconds: float | None = None


_STEP_FIELDS = frozenset(f.name for f in fields(Step)) - {"jobs", "settled"}


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # infinity, and years beyond Python's range: one such row must not stop the tick that claims it.
        past = text.startswith("-") or text.endswith("BC")
        return datetime(1, 1, 1, tzinfo=UTC) if past else datetime(9999, 12, 31, tzinfo=UTC)


def _job(row: list[Any], lease_id: str, owner: str) -> Job:
    """Decode a job, in the order in which `giftcard_claimed_jobs` has it. A newer schema may append more."""
    delays = row[14]
    return Job(
        id=row[0],
        tenant_id=row[1],
        correlation_id=row[2],
        stage=row[3],
        dedup_key=row[4],
        circuit=row[5],
        payload_json=row[6],
        context_json=row[7],
        attempts=row[8],
        max_attempts=row[9],
        run_no=row[10],
        revivals=row[11],
        semantics=row[12],
        ttr=row[13],
        # The table's constraint lets nulls and NaN pass.
        retry_delays=delays and (tuple(delay for delay in delays if isinstance(delay, int | float)) or None),
        scheduled_at=_time(row[15]),
        locked_at=_time(row[16]),
        lock_owner=owner,
        lease_id=lease_id,
        interrupted=row[17],
        source=row[18],
    )


def _jobs(rows: list[list[Any]], lease_id: str, owner: str) -> Iterator[Job]:
    """Yield the jobs of rows. One that cannot be decoded stops no other: its lease ends, and it is interrupted."""
    for row in rows:
        try:
            yield _job(row, lease_id, owner)
        except (TypeError, ValueError, LookupError) as error:
            events.emit("job_unreadable", job_id=row[0] if row else None, error=type(error).__name__)


def decode_step(step: dict[str, Any], *, lease_id: str, owner: str, completed: tuple[int, ...] = ()) -> Step:
    """Decode the result of a call of a tick, which claimed with this lease as this owner.

    `completed`: the jobs of a call of `giftcard_step`. It leaves out `settled` where all of them are.
    """
    settled = _settled(step)
    if not settled and completed:
        settled = tuple(
            Settled(id=job_id, settled="settled", status="completed", next_run_at=None) for job_id in completed
        )
    return Step(
        jobs=tuple(_jobs(step["jobs"], lease_id, owner)),
        settled=settled,
        **{name: value for name, value in step.items() if name in _STEP_FIELDS and value is not None},
    )


def encode_completed(results: list[Result]) -> dict[str, Any] | None:
    """Encode results as `giftcard_step` takes them; None: one is not simply complete."""
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


def _settled(step: dict[str, Any]) -> tuple[Settled, ...]:
    return tuple(Settled(**row | {"next_run_at": _time(row["next_run_at"])}) for row in step.get("settled") or ())


def decode_settle(reply: dict[str, Any]) -> Settle:
    """Decode the result of a settle with a call. Without a job there is none in it."""
    rows = reply["settled"] or []
    if rows and rows[0]["settled"] == "called_off":
        return Settle(called_off={name: str(rows[0][name]) for name in ("kind", "error")})
    opened, closed = tuple(reply["opened"]), tuple(reply["closed"])
    return Settle(settled=next(iter(_settled(reply)), None), opened=opened, closed=closed)


def encode_result(result: Result) -> dict[str, Any]:
    """Encode a result as `giftcard_settle` takes it."""
    flags = {"interrupted": result.job.interrupted, "last_resort": result.last_resort}
    common: dict[str, Any] = {"id": result.job.id, "lease_id": result.job.lease_id}
    common |= {name: True for name, is_set in flags.items() if is_set}
    if result.trips is not None:
        common["trips"] = result.trips
    if result.fault is not None:
        common["frames"] = [frame.as_json() for frame in result.fault.frames]
    if not isinstance(result.outcome, Release) and result.outcome.detail:
        common["detail"] = result.outcome.detail
    match result.outcome:
        case Complete(context=context, next=following, then=call):
            merged = {"context": context} if context else {}
            called = {"then": {"function": call.function, "arguments": call.arguments}} if call else {}
            return common | {"outcome": "complete"} | merged | called | _following(following)
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
