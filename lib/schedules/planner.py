"""What becomes of schedules that are due: which occurrences become jobs, and when the next one comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from lib.errors import Invalid, InvalidJob
from lib.schedules.cron import Times

Json = dict[str, Any]
# `lib.jobs.enqueue.prepare`, for the stages and settings in force.
Prepare = Callable[[list[Json]], list[Json]]

# One step makes up to 1,000 jobs, and one schedule up to 100; schedules that are left over stay due.
_MOST_JOBS = 900
# Occurrences that nobody looked at in time are counted so far, a step.
_COUNTED = 1000
# Seconds until the next look at one that waits for the end of a job: a share of that job's age, within bounds; not
# before the job can have ended, but for what a person may change meanwhile.
_SHARE, _SOON, _LATE, _LATEST = 0.1, 1.0, 60.0, 3600.0
_INSTANT = timedelta(microseconds=1)
_TIMES = ("now", "next_at", "last_at", "busy_since", "busy_until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A schedule to look at, as `giftcard_due_schedules` tells of it. `now` is the database's clock.

    `unfinished`: how many of its jobs have not ended; the newest was made at `busy_since`, and until `busy_until` they
    surely will not all have ended.
    """

    id: int
    version: int
    now: datetime
    tenant_id: str
    schedule: str
    timezone: str
    stage: str
    payload: Json
    semantics: str
    is_recurring: bool
    max_attempts: int | None
    ttr_seconds: int | None
    retry_delays: list[float] | None
    next_at: datetime | None
    last_at: datetime | None
    missed_policy: str
    catch_up_seconds: int
    missed_cap: int
    overlap_policy: str
    pause_after_failures: int | None
    failures: int
    unfinished: int
    busy_since: datetime | None
    busy_until: datetime | None

    @classmethod
    def of(cls, row: Json) -> "Due":
        """Raises ValueError for a time that Python has not."""
        known = {field.name: row[field.name] for field in fields(cls)}
        return cls(**known | {name: row[name] and datetime.fromisoformat(row[name]) for name in _TIMES})

    def job(self, time: datetime) -> Json:
        """The job of an occurrence, as `giftcard_enqueue` takes it."""
        names = ("tenant_id", "stage", "payload", "semantics", "max_attempts", "ttr_seconds", "retry_delays")
        return {name: getattr(self, name) for name in names} | {
            "correlation_id": f"schedule:{self.id}:{stamp(time)}",
            # What belongs to a recurring schedule does not revive: the next occurrence comes anyway.
            "trigger_type": "schedule" if self.is_recurring else "schedule_once",
            "scheduled_at": stamp(time),
        }


def stamp(time: datetime) -> str:
    """Like 2026-01-31T12:00:00Z: the same text for the same time, whoever writes it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def plan(due: Sequence[Json], *, prepared: Prepare = list) -> list[Json]:
    """What `giftcard_enqueue_occurrences` shall carry out. A schedule that cannot be planned is paused with the reason.

    One step makes up to 1,000 jobs; schedules that it leaves out stay due.
    """
    planned: list[Json] = []
    jobs = 0
    for row in due:
        if jobs > _MOST_JOBS:
            break
        try:
            moves = _planned(Due.of(row), prepared)
        except (Invalid, ValueError) as error:
            moves = {"pause": f"it cannot be planned: {_said(error)}"}
        planned.append({"id": row["id"], "version": row["version"]} | moves)
        jobs += len(moves.get("jobs", ()))
    return planned


def jobs_of(due: Due, times: list[datetime], *, prepared: Prepare) -> list[Json]:
    """The jobs of these occurrences, without their payload: the database takes it as it is stored.

    But for one that a hook has bent. JSON that has gone through Python may have lost digits.
    """
    jobs = prepared([due.job(time) for time in times])
    return [{name: job[name] for name in job if name != "payload" or job[name] != due.payload} for job in jobs]


def _said(error: Invalid | ValueError) -> str:
    if isinstance(error, InvalidJob):
        return f"payload: {error}"
    return f"{error.field}: {error}" if isinstance(error, Invalid) else str(error)


def _planned(due: Due, prepared: Prepare) -> Json:
    if not due.is_recurring and due.last_at and due.next_at is None:
        return _waiting(due) if due.unfinished else {"delete": True}
    if due.pause_after_failures and due.failures >= due.pause_after_failures:
        return {"pause": f"{due.failures} occurrences in a row have failed"}
    times = Times(due.schedule, due.timezone)
    if due.next_at is None:  # new, by plain SQL
        return _next(times, due.now)
    if due.unfinished and due.overlap_policy == "queue":
        return _waiting(due)
    return _moved(due, times, due.next_at, prepared)


def _waiting(due: Due) -> Json:
    """Until its unfinished jobs have ended: a look now and then."""
    age = (due.now - due.busy_since).total_seconds() if due.busy_since else 0.0
    busy = (due.busy_until - due.now).total_seconds() if due.busy_until else 0.0
    check_in = max(_SOON, min(_SHARE * age, _LATE), min(busy, _LATEST))
    return {"next_at": due.next_at and stamp(due.next_at), "check_in": check_in}


def _next(times: Times, now: datetime) -> Json:
    time = next(times.after(now), None)
    return {"next_at": stamp(time)} if time else {"pause": "it has no further time"}


def _moved(due: Due, times: Times, next_at: datetime, prepared: Prepare) -> Json:
    """On to its next time, with jobs for the occurrences that are due, as far as its policies let them."""
    found, lately = _lately(due, times, next_at)
    wanted = _wanted(due, lately)
    overlaps = due.unfinished > 0 and due.overlap_policy == "skip"
    run, skipped = ([], wanted) if overlaps else (wanted, [])
    moves = _next(times, due.now)
    if not due.is_recurring and run:
        moves = {"next_at": None, "check_in": _SOON}
    elif due.overlap_policy == "queue" and len(run) > 1:
        moves = {"next_at": stamp(run[1])}
        run = run[:1]
    if run:
        moves |= {"jobs": jobs_of(due, run, prepared=prepared), "last_at": stamp(run[-1])}
    if skipped:
        moves |= {"skipped": len(skipped), "skipped_at": stamp(skipped[-1])}
    lost = [time for time in lately if time not in wanted]
    if lost:
        moves |= {"missed": found - len(wanted), "missed_at": stamp(lost[-1])}
    return moves


def _lately(due: Due, times: Times, next_at: datetime) -> tuple[int, list[datetime]]:
    """How many occurrences have come due, counted to a bound; and the newest, one more than can be wanted."""
    most = 1 + (due.missed_cap if due.missed_policy == "all" else 1)
    found = times.between(next_at - _INSTANT, due.now, most=_COUNTED)
    if len(found) < _COUNTED:
        return len(found), found[-most:]
    return len(found), times.newest(next_at - _INSTANT, due.now, most=most)


def _wanted(due: Due, lately: list[datetime]) -> list[datetime]:
    """Those that shall run, by the policy for what was missed."""
    if due.missed_policy == "all" and due.is_recurring:
        return lately[-due.missed_cap :]
    latest = lately[-1:]
    if due.missed_policy == "skip":
        return [time for time in latest if due.now - time < timedelta(seconds=due.catch_up_seconds)]
    return latest
