"""Plans for due schedules: which occurrences become jobs, and when the next one is due."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from lib.errors import Invalid, InvalidJob
from lib.schedules.cron import Times
from lib.validation import same_json

Json = dict[str, Any]
# `lib.jobs.enqueue.prepare`, for the stages and settings in force.
Prepare = Callable[[list[Json]], list[Json]]

# A step creates up to 1,000 jobs and a schedule up to 100, so the last schedule of a step begins at 900 at the latest.
_MAX_JOBS = 900
# Missed occurrences are counted up to this number in a step.
_MAX_COUNTED = 1000
# Seconds until the next check of a schedule that waits for an unfinished job: a share of the job's age, within bounds;
# or until the job can end, but within an hour, in case an operator changes it.
_AGE_SHARE, _MIN_CHECK, _MAX_CHECK, _MAX_BUSY_CHECK = 0.1, 1.0, 60.0, 3600.0
# Seconds by which the time of a one-time schedule may be missed, unless it has a `catch_up_seconds` of its own: for it,
# the column's default does not count.
ONE_TIME_CATCH_UP, _DEFAULT_CATCH_UP = 86_400, 300
_NO_DATE = "no further date matches its expression: change its days or months"
_INSTANT = timedelta(microseconds=1)
_TIMES = ("now", "next_at", "last_at", "created_at", "busy_since", "busy_until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A due schedule, a row of `giftcard_due_schedules`. `now` is the time of the database's clock.

    `created_at`: known of one-time schedules that plain SQL has made. `unfinished`: the number of its unfinished jobs.
    The newest was created at `busy_since`, and they cannot all end before `busy_until`.
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
    priority: int
    next_at: datetime | None
    last_at: datetime | None
    created_at: datetime | None
    missed_policy: str
    catch_up_seconds: int
    missed_cap: int
    overlap_policy: str
    pause_after_failures: int | None
    failures: int
    unfinished: int
    busy_since: datetime | None
    busy_until: datetime | None

    @property
    def catch_up(self) -> timedelta:
        """How old an occurrence may be that runs under the policy `skip`."""
        default = not self.is_recurring and self.catch_up_seconds == _DEFAULT_CATCH_UP
        return timedelta(seconds=ONE_TIME_CATCH_UP if default else self.catch_up_seconds)

    @classmethod
    def from_row(cls, row: Json) -> "Due":
        """Return the schedule of a row. Raises ValueError for a time or a payload that Python cannot read."""
        known = {field.name: row[field.name] for field in fields(cls) if field.name != "payload"}
        try:
            payload = json.loads(row["payload_json"])
        except (ValueError, RecursionError):
            raise ValueError("its payload is nested too deeply, or has a number that is too long") from None
        times = {name: row[name] and _moment(name, row[name]) for name in _TIMES}
        return cls(**known | times, payload=payload)

    def job(self, time: datetime) -> Json:
        """Return the job of an occurrence, as `giftcard_enqueue` takes it."""
        names = "tenant_id stage payload semantics max_attempts ttr_seconds retry_delays priority".split()
        return {name: getattr(self, name) for name in names} | {
            "correlation_id": f"schedule:{self.id}:{utc_text(time)}",
            # Jobs of trigger type schedule do not revive: the next occurrence comes anyway.
            "trigger_type": "schedule" if self.is_recurring else "schedule_once",
            "scheduled_at": utc_text(time),
        }


def _moment(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # infinity; years that Python does not have
        raise ValueError(_out_of_range(name)) from None


def _out_of_range(name: str) -> str:
    return f"{name}: use a time well within the years 1 to 9999"


def utc_text(time: datetime) -> str:
    """Return a time like 2026-01-31T12:00:00Z: the same text for the same time, in any time zone."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def plan(due: Sequence[Json], *, prepare: Prepare = list) -> list[Json]:
    """Return plans for `giftcard_enqueue_occurrences`. A schedule that cannot be planned is paused with the reason.

    A step creates up to 1,000 jobs; the schedules that it leaves out stay due.
    """
    plans: list[Json] = []
    jobs = 0
    for row in due:
        if jobs > _MAX_JOBS:
            break
        try:
            changes = _plan_one(Due.from_row(row), prepare)
        except (Invalid, ValueError, OverflowError) as error:
            changes = {"pause": f"it cannot be planned: {_reason(error)}"}
        plans.append({"id": row["id"], "version": row["version"]} | changes)
        jobs += len(changes.get("jobs", ()))
    return plans


def jobs_of(due: Due, times: list[datetime], *, prepare: Prepare) -> list[Json]:
    """Return the jobs of occurrences, without the payload unless a hook has changed it.

    The database takes the stored payload, because JSON that passes through Python may lose digits.
    """
    jobs = prepare([due.job(time) for time in times])
    return [
        {name: job[name] for name in job if name != "payload" or not same_json(job[name], due.payload)} for job in jobs
    ]


def _reason(error: Invalid | ValueError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return _out_of_range("next_at")
    if isinstance(error, InvalidJob):
        return f"{error.field.partition('.')[0]}: {error}"
    return f"{error.field}: {error}" if isinstance(error, Invalid) else str(error)


def _plan_one(due: Due, prepare: Prepare) -> Json:
    if not due.is_recurring and due.last_at and due.next_at is None:
        return _check_later(due) if due.unfinished else {"delete": True}
    if due.pause_after_failures and due.failures >= due.pause_after_failures:
        return {"pause": f"{due.failures} occurrences in a row have failed"}
    times = Times(due.schedule, due.timezone)
    next_at = due.next_at
    if next_at is None and due.created_at and not due.is_recurring:
        next_at = next(times.after(due.created_at), None)
    if next_at is None or next_at > due.now:  # new, by plain SQL
        return _move_on(times, due.now)
    # A one-time schedule has no next occurrence: it waits where others would drop this one.
    waits = due.overlap_policy == "queue" or (due.overlap_policy == "skip" and not due.is_recurring)
    if due.unfinished and waits:
        return _check_later(due)
    return _run(due, times, next_at, prepare)


def _check_later(due: Due) -> Json:
    """Return the changes of a schedule that waits for its unfinished jobs."""
    age = (due.now - due.busy_since).total_seconds() if due.busy_since else 0.0
    busy = (due.busy_until - due.now).total_seconds() if due.busy_until else 0.0
    check_in = max(_MIN_CHECK, min(_AGE_SHARE * age, _MAX_CHECK), min(busy, _MAX_BUSY_CHECK))
    return {"next_at": due.next_at and utc_text(due.next_at), "check_in": check_in}


def _move_on(times: Times, now: datetime) -> Json:
    """Return the changes of a schedule that only moves to its next time."""
    time = next(times.after(now), None)
    return {"next_at": utc_text(time)} if time else {"pause": _NO_DATE}


def _run(due: Due, times: Times, next_at: datetime, prepare: Prepare) -> Json:
    """Return the changes of a schedule with jobs for the due occurrences that its policies allow."""
    count, newest = _due_times(due, times, next_at)
    allowed = _allowed(due, newest)
    overlaps = due.unfinished > 0 and due.overlap_policy == "skip"
    run, skipped = ([], allowed) if overlaps else (allowed, [])
    changes = _move_on(times, due.now)
    if not due.is_recurring and run:
        changes = {"next_at": None, "check_in": _MIN_CHECK}
    elif due.overlap_policy == "queue" and len(run) > 1:
        changes = {"next_at": utc_text(run[1])}
        run = run[:1]
    if run:
        changes |= {"jobs": jobs_of(due, run, prepare=prepare), "last_at": utc_text(run[-1])}
    if skipped:
        changes |= {"skipped": len(skipped), "skipped_at": utc_text(skipped[-1])}
    missed = [time for time in newest if time not in allowed]
    if missed:
        changes |= {"missed": count - len(allowed), "missed_at": utc_text(missed[-1])}
    if missed and not due.is_recurring and not allowed:
        changes["pause"] = f"its time, {utc_text(missed[-1])}, was missed by {_span(due.catch_up)} or more"
    return changes


def _span(span: timedelta) -> str:
    return "a day" if span == timedelta(days=1) else f"{span.total_seconds():g} s"


def _due_times(due: Due, times: Times, next_at: datetime) -> tuple[int, list[datetime]]:
    """Return how many occurrences are due, counted up to a bound, and the newest, one more than can run."""
    limit = 1 + (due.missed_cap if due.missed_policy == "all" else 1)
    found = times.between(next_at - _INSTANT, due.now, limit=_MAX_COUNTED)
    if len(found) < _MAX_COUNTED:
        return len(found), found[-limit:]
    return len(found), times.newest(next_at - _INSTANT, due.now, limit=limit)


def _allowed(due: Due, newest: list[datetime]) -> list[datetime]:
    """Return the due times that `missed_policy` allows to run."""
    if due.missed_policy == "all" and due.is_recurring:
        return newest[-due.missed_cap :]
    latest = newest[-1:]
    if due.missed_policy == "skip":
        return [time for time in latest if due.now - time < due.catch_up]
    return latest
