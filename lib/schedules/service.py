"""What people do with schedules, once: the web API and the command line are two doors to it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from lib.config.settings import Settings
from lib.errors import Invalid, InvalidJob, Refused
from lib.jobs.enqueue import check_payload, prepare
from lib.jobs.stage import Registry
from lib.schedules.cron import Times
from lib.schedules.planner import Due, jobs_of, stamp
from lib.schedules.schemas import ScheduleFilter, SchedulePatch, ScheduleRequest
from lib.store.store import Store
from lib.telemetry.redact import covered
from lib.validation import field_errors

Json = dict[str, Any]

# So many of its next times are told.
_SHOWN = 5


class Scheduling:
    """Over one store. `by` is who asks."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, by: str) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._by = by

    def create(self, wanted: ScheduleRequest) -> Json:
        """A new schedule, with its next times."""
        row = self._checked(wanted)
        times = Times(wanted.schedule, wanted.timezone).upcoming(self._now(), most=1)
        return _told(self._store.save_schedule(row, next_at=stamp(times[0])))

    def show(self, schedule_id: int, *, reveal: bool = False) -> Json:
        """One, with its next times."""
        row = self._store.schedule(schedule_id)
        if reveal:
            self._store.record_reveal(by=self._by, subject=f"schedule {schedule_id}")
        return _told(row, reveal=reveal)

    def find(self, wanted: ScheduleFilter) -> Json:
        """A page of them, the newest first; `older` asks on."""
        found = self._store.list_schedules(
            tenant_id=wanted.tenant_id,
            name=wanted.name,
            paused=None if wanted.status is None else wanted.status == "paused",
            before=wanted.older,
            limit=wanted.limit,
        )
        return found | {"schedules": [_shown(row) for row in found["schedules"]]}

    def change(self, schedule_id: int, patch: SchedulePatch) -> Json:
        """What is given. Its next time is computed anew if its expression or its time zone changes."""
        _check_one_work(patch)
        row = self._store.schedule(schedule_id)
        wanted = _merged(row, patch)
        columns = self._checked(wanted)
        times = Times(wanted.schedule, wanted.timezone).upcoming(_time(row["now"]), most=1)
        same = (row["schedule"], row["timezone"]) == (wanted.schedule, wanted.timezone)
        next_at = row["next_at"] if same and row["next_at"] else stamp(times[0])
        has_run = not wanted.is_recurring and row["last_at"] is not None
        return _told(
            self._store.save_schedule(
                columns,
                next_at=None if row["paused_at"] or has_run else next_at,
                schedule_id=schedule_id,
                version=row["version"],
            )
        )

    def delete(self, schedule_id: int) -> Json:
        """For good. Jobs that are there already go on."""
        return self._store.delete_schedule(schedule_id)

    def pause_schedule(self, schedule_id: int, *, by: str, reason: str | None) -> Json:
        """No occurrences until it is resumed."""
        return _told(self._store.pause_schedule(schedule_id, by=by, reason=reason))

    def resume_schedule(self, schedule_id: int) -> Json:
        """On again, from its next time on: nothing is made up for."""
        row = self._store.schedule(schedule_id)
        times = Times(row["schedule"], row["timezone"]).upcoming(_time(row["now"]), most=1)
        has_run = not row["is_recurring"] and row["last_at"] is not None
        next_at = None if has_run else stamp(times[0])
        return _told(self._store.resume_schedule(schedule_id, version=row["version"], next_at=next_at))

    def run(self, schedule_id: int) -> Json:
        """One occurrence now, whatever its time, its policies and its pause say. For one that runs once, this is it."""
        row = self._store.schedule(schedule_id)
        due = Due.of(row | {"busy_since": None, "busy_until": None})
        plan: Json = {"id": due.id, "version": due.version, "last_at": stamp(due.now)}
        plan |= {"jobs": jobs_of(due, [due.now], prepared=self._prepared)}
        plan |= {"next_at": row["next_at"]} if due.is_recurring else {"next_at": None, "check_in": 1}
        done = self._store.enqueue_occurrences([plan])
        if done["paused"]:
            raise Refused(done["paused"][0]["reason"], sqlstate="GC400", field="payload")
        if done["left"]:
            raise Refused(f"schedule {schedule_id} has changed meanwhile: try again", sqlstate="GC409")
        return {"id": schedule_id, "job_id": done["jobs"][0]}

    def occurrences(self, schedule_id: int, *, limit: int = 10) -> Json:
        """Its jobs, the newest first."""
        rows = self._store.occurrences(schedule_id, limit=limit)
        return {"occurrences": [row | {"last_error": covered(row["last_error"])} for row in rows]}

    def precision(self, *, window_seconds: float) -> Json:
        """How long after its time each run began, by stage."""
        return {"precision": self._store.precision(window_seconds=window_seconds), "window_seconds": window_seconds}

    def _now(self) -> datetime:
        return _time(self._store.clock())

    def _prepared(self, rows: list[Json]) -> list[Json]:
        return prepare(rows, self._registry(), self._settings)

    def _checked(self, wanted: ScheduleRequest) -> Json:
        """The row of it, if it says one thing and its stage takes its payload."""
        if wanted.stage is None and wanted.api is None:
            raise Invalid("say what runs: stage and payload, or api", field="stage")
        _check_one_work(wanted)
        if wanted.missed_policy == "all" and wanted.overlap_policy == "skip":
            words = "missed_policy all needs queue or allow: with skip all but one of what was missed would be dropped"
            raise Invalid(words, field="overlap_policy")
        row = wanted.columns()
        of_api = wanted.api is not None
        stage = self._registry().stages.get(row["stage"])
        if stage is None:
            raise Invalid(f"there is no stage {row['stage']}", field="api" if of_api else "stage")
        try:
            check_payload(stage, row["payload"], self._settings)
        except InvalidJob as error:
            of = "api" if of_api else "payload"
            raise Invalid(str(error), field=error.field.replace("payload", of, 1)) from None
        return row


def _check_one_work(wanted: SchedulePatch) -> None:
    if wanted.api is not None and (wanted.stage is not None or wanted.payload is not None):
        raise Invalid("api and stage exclude each other: api is the payload of the stage http_call", field="api")


def _merged(row: Json, patch: SchedulePatch) -> ScheduleRequest:
    """A stored schedule as if it were asked for anew, with what the patch says."""
    given = patch.model_dump(exclude_unset=True)
    had = {name: row[name] for name in ScheduleRequest.model_fields if name in row and name not in given}
    if patch.api is not None:
        del had["stage"], had["payload"]
    had |= {} if "type" in given else {"type": row["semantics"].upper()}
    had |= {} if "max_retry_count" in given else {"max_retry_count": _retries(row)}
    try:
        return ScheduleRequest.model_validate(had | given)
    except ValidationError as error:  # what plain SQL has stored may not fit
        field, words = field_errors(error)[0]
        raise Invalid(f"{field} {words}", field=field) from None


def _retries(row: Json) -> int | None:
    return None if row["max_attempts"] is None else row["max_attempts"] - 1


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _told(row: Json, *, reveal: bool = False) -> Json:
    """A schedule with its next times."""
    times: list[datetime] = []
    if row["next_at"]:
        after = _time(row["next_at"]) - timedelta(microseconds=1)
        times = Times(row["schedule"], row["timezone"]).upcoming(after, most=_SHOWN if row["is_recurring"] else 1)
    return _shown(row, reveal=reveal) | {"next_times": [time.isoformat() for time in times]}


def _shown(row: Json, *, reveal: bool = False) -> Json:
    """Spelled as it is asked for."""
    told = {name: row[name] for name in row if name not in ("semantics", "max_attempts", "now")}
    last = row["last_job"]
    return told | {
        "type": row["semantics"].upper(),
        "max_retry_count": _retries(row),
        "status": "paused" if row["paused_at"] else "active",
        "payload": row["payload"] if reveal else covered(row["payload"]),
        "last_job": last and last | {"last_error": covered(last["last_error"])},
    }
