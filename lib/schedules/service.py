"""The operators' verbs for schedules, for the API and the CLI."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import Invalid, InvalidJob, Refused
from lib.jobs.enqueue import check_payload, check_stage, check_ttr, prepare
from lib.jobs.registry import Registry
from lib.schedules.cron import Times
from lib.schedules.planner import Due, jobs_of, utc_text
from lib.schedules.schemas import ScheduleFilter, SchedulePatch, ScheduleRequest
from lib.store.store import Store
from lib.telemetry.redact import covered
from lib.validation import error_sentence, field_errors

Json = dict[str, Any]

# A schedule is returned with so many of its next times.
_NEXT_TIMES = 5


class Scheduling:
    """The verbs over one store, which the audit records."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def create(self, request: ScheduleRequest) -> Json:
        """Create a schedule. Return it with its next times."""
        row = self._checked(request) | {"tenant_id": self._caller.tenant(request.tenant_id)}
        times = Times(request.schedule, request.timezone).upcoming(self._now(), limit=1)
        return _with_next_times(self._store.save_schedule(row, next_at=utc_text(times[0]), caller=self._caller))

    def show(self, schedule_id: int, *, reveal: bool = False) -> Json:
        """Return a schedule with its next times. `reveal`: personal data in clear, recorded in the audit."""
        row = self._row(schedule_id)
        if reveal:
            subject, tenant = f"schedule {schedule_id}", row["tenant_id"]
            self._store.record_reveal(subject=subject, tenant_id=tenant, caller=self._caller)
        return _with_next_times(row, reveal=reveal)

    def find(self, query: ScheduleFilter) -> Json:
        """Return a page of schedules, newest first. The `older` of the result fetches the next page."""
        found = self._store.list_schedules(
            tenant_id=self._caller.only(query.tenant_id),
            name=query.name,
            paused=None if query.status is None else query.status == "paused",
            before=query.older,
            limit=query.limit,
        )
        return found | {"schedules": [_rendered(row) for row in found["schedules"]]}

    def update(self, schedule_id: int, patch: SchedulePatch) -> Json:
        """Update the fields of the patch. Another expression or time zone means another next time."""
        _check_one_work(patch)
        row = self._row(schedule_id)
        request = _merged(row, patch)
        columns = self._checked(request)
        if patch.payload is None and patch.api is None:
            del columns["payload"]  # the stored one stays: JSON that passes through Python may lose digits
        times = Times(request.schedule, request.timezone).upcoming(_time(row["now"]), limit=1)
        same = (row["schedule"], row["timezone"]) == (request.schedule, request.timezone)
        next_at = row["next_at"] if same and row["next_at"] else utc_text(times[0])
        has_run = not request.is_recurring and row["last_at"] is not None
        return _with_next_times(
            self._store.save_schedule(
                columns,
                next_at=None if row["paused_at"] or has_run else next_at,
                schedule_id=schedule_id,
                version=row["version"],
                caller=self._caller,
            )
        )

    def delete(self, schedule_id: int) -> Json:
        """Delete a schedule. Its jobs stay."""
        return self._store.delete_schedule(schedule_id, caller=self._caller)

    def pause(self, schedule_id: int, *, by: str, reason: str | None) -> Json:
        """Pause a schedule: no occurrences until it is resumed. `by`: the name that is shown with the pause."""
        return _with_next_times(
            self._store.pause_schedule(schedule_id, paused_by=by, reason=reason, caller=self._caller)
        )

    def resume(self, schedule_id: int) -> Json:
        """Resume a schedule from its next time on. Occurrences missed during the pause do not run."""
        row = self._row(schedule_id)
        times = Times(row["schedule"], row["timezone"]).upcoming(_time(row["now"]), limit=1)
        has_run = not row["is_recurring"] and row["last_at"] is not None
        next_at = None if has_run else utc_text(times[0])
        return _with_next_times(
            self._store.resume_schedule(schedule_id, version=row["version"], next_at=next_at, caller=self._caller)
        )

    def run(self, schedule_id: int) -> Json:
        """Enqueue one occurrence now, regardless of time, policies and pause. A one-off schedule then ends."""
        row = self._row(schedule_id)
        # Its other times do not matter here, and Python may be unable to read them.
        times = dict.fromkeys(("next_at", "last_at", "created_at", "busy_since", "busy_until"))
        due = Due.from_row(row | times | {"payload_json": json.dumps(row["payload"])})
        plan: Json = {"id": due.id, "version": due.version, "last_at": utc_text(due.now)}
        plan |= {"jobs": jobs_of(due, [due.now], prepare=self._prepare)}
        if not due.is_recurring:
            plan |= {"next_at": None, "check_in": 1}
        elif row["next_at"] or row["paused_at"]:
            plan |= {"next_at": row["next_at"]}
        else:  # new, by plain SQL: the next tick plans it
            plan |= {"next_at": None, "check_in": 0}
        done = self._store.run_schedule(plan, caller=self._caller)
        if done["paused"]:
            raise Refused(done["paused"][0]["reason"], sqlstate="GC400", field="payload")
        if done["left"]:
            raise Refused(f"schedule {schedule_id} has changed meanwhile: try again", sqlstate="GC409")
        return {"id": schedule_id, "job_id": done["jobs"][0]}

    def occurrences(self, schedule_id: int, *, limit: int = 10, older: str | None = None) -> Json:
        """Return a page of the jobs of a schedule, newest first. `older`: the cursor of the next page."""
        tenant_id = self._caller.tenant_id
        found = self._store.occurrences(schedule_id, tenant_id=tenant_id, limit=limit, older=older)
        return found | {
            "occurrences": [row | {"last_error": covered(row["last_error"])} for row in found["occurrences"]]
        }

    def history(self, schedule_id: int, *, limit: int = 10, older: str | None = None) -> Json:
        """Return a page of the runs of all jobs of a schedule, newest first. `older`: the cursor of the next page."""
        tenant_id = self._caller.tenant_id
        found = self._store.schedule_history(schedule_id, tenant_id=tenant_id, limit=limit, older=older)
        return found | {"runs": [run | {"error": covered(run["error"])} for run in found["runs"]]}

    def precision(self, *, window_seconds: float) -> Json:
        """Return by stage how long after its time each run began."""
        return {"precision": self._store.precision(window_seconds=window_seconds), "window_seconds": window_seconds}

    def _row(self, schedule_id: int) -> Json:
        return self._store.schedule(schedule_id, tenant_id=self._caller.tenant_id)

    def _now(self) -> datetime:
        return _time(self._store.clock())

    def _prepare(self, rows: list[Json]) -> list[Json]:
        return prepare(rows, self._registry(), self._settings)

    def _checked(self, request: ScheduleRequest) -> Json:
        """Return the row of a request. Raises Invalid for contradictions, an invalid payload and an impossible ttr."""
        if request.stage is None and request.api is None:
            raise Invalid("set what runs: stage and payload, or api", field="stage")
        _check_one_work(request)
        if request.missed_policy == "all" and request.overlap_policy == "skip":
            message = "missed_policy all needs queue or allow: skip would drop all missed occurrences but one"
            raise Invalid(message, field="overlap_policy")
        check_ttr(request.ttr_seconds, self._settings)
        self._caller.check_payload(request.payload)
        row = request.columns()
        check_stage(row["stage"])
        of_api = request.api is not None
        registry = self._registry()
        stage = registry.stages.get(row["stage"])
        if stage is None and registry.knows(row["stage"]):
            return row
        if stage is None:
            raise Invalid(f"there is no stage {row['stage']}", field="api" if of_api else "stage")
        try:
            check_payload(stage, row["payload"], self._settings)
        except InvalidJob as error:
            of = "api" if of_api else "payload"
            errors = [(field.replace("payload", of, 1), message) for field, message in error.errors]
            raise Invalid(str(error), field=errors[0][0], errors=errors) from None
        return row


def _check_one_work(request: SchedulePatch) -> None:
    if request.api is not None and (request.stage is not None or request.payload is not None):
        raise Invalid("api and stage exclude each other: api is the payload of the stage http_call", field="api")


def _merged(row: Json, patch: SchedulePatch) -> ScheduleRequest:
    """Return a stored schedule with a patch applied, as a request."""
    given = patch.model_dump(exclude_unset=True)
    stored = {name: row[name] for name in ScheduleRequest.model_fields if name in row and name not in given}
    if patch.api is not None:
        del stored["stage"], stored["payload"]
    stored |= {} if "type" in given else {"type": row["semantics"].upper()}
    stored |= {} if "max_retry_count" in given else {"max_retry_count": _retries(row)}
    try:
        return ScheduleRequest.model_validate(stored | given)
    except ValidationError as error:  # a row stored by plain SQL may be invalid
        errors = field_errors(error)
        raise Invalid(error_sentence(errors), field=errors[0][0], errors=errors) from None


def _retries(row: Json) -> int | None:
    return None if row["max_attempts"] is None else row["max_attempts"] - 1


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _with_next_times(row: Json, *, reveal: bool = False) -> Json:
    """Return a schedule as the API does, with its next times."""
    times: list[datetime] = []
    if row["next_at"]:
        # An UPDATE may have stored what has no times: an infinite next_at, or no expression at all.
        with suppress(ValueError, OverflowError, Invalid):
            after = _time(row["next_at"]) - timedelta(microseconds=1)
            limit = _NEXT_TIMES if row["is_recurring"] else 1
            times = Times(row["schedule"], row["timezone"]).upcoming(after, limit=limit)
    return _rendered(row, reveal=reveal) | {"next_times": [time.isoformat() for time in times]}


def _rendered(row: Json, *, reveal: bool = False) -> Json:
    """Return a schedule with the names of a request's fields."""
    fields = {name: row[name] for name in row if name not in ("semantics", "max_attempts", "now")}
    last = row["last_job"]
    return fields | {
        "type": row["semantics"].upper(),
        "max_retry_count": _retries(row),
        "status": "paused" if row["paused_at"] else "active",
        "payload": row["payload"] if reveal else covered(row["payload"]),
        "last_job": last and last | {"last_error": covered(last["last_error"])},
    }
