"""What the functions of a tick return, as values. `lib.store.encode` has the way back."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from lib.job import Call, Complete, Job, Outcome
from lib.telemetry import events
from lib.telemetry.frames import Fault


@dataclass(slots=True, kw_only=True)
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


@dataclass(slots=True, kw_only=True)
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


@dataclass(slots=True, kw_only=True)
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
    """An external effect, as begun. `state`: new, unfinished or finished; `tries`: how often, under this key."""

    state: str
    result: dict[str, Any] | None
    vendor_key: str
    age_seconds: float | None = None
    tries: int | None = None


_STEP_FIELDS = frozenset(f.name for f in fields(Step)) - {"jobs", "settled"}


def _time(text: str) -> datetime:
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
    if step.get("settled") is None:
        settled = tuple(
            Settled(id=job_id, settled="settled", status="completed", next_run_at=None) for job_id in completed
        )
    return Step(
        jobs=tuple(_jobs(step["jobs"], lease_id, owner)),
        settled=settled,
        **{name: value for name, value in step.items() if name in _STEP_FIELDS and value is not None},
    )


def _settled(step: dict[str, Any]) -> tuple[Settled, ...]:
    rows = step.get("settled") or ()
    return tuple(
        Settled(**row | {"next_run_at": _time(row["next_run_at"]) if row["next_run_at"] else None}) for row in rows
    )


def decode_settle(reply: dict[str, Any]) -> Settle:
    """Decode the result of a settle with a call. Without a job there is none in it."""
    rows = reply["settled"] or []
    if rows and rows[0]["settled"] == "called_off":
        return Settle(called_off={name: str(rows[0][name]) for name in ("kind", "error")})
    opened, closed = tuple(reply["opened"]), tuple(reply["closed"])
    return Settle(settled=next(iter(_settled(reply)), None), opened=opened, closed=closed)
