"""Requests about schedules."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lib.jobs.audit import Reason
from lib.jobs.schemas import Priority
from lib.schedules.planner import ONE_TIME_CATCH_UP
from lib.validation import NO_CURSOR, Id, Identifier, StageName, StrictModel

# Longer than any sensible expression; its content is validated with its times.
Expression = Annotated[str, Field(max_length=200, json_schema_extra={"format": "cron"})]
Zone = Annotated[str, Field(min_length=1, max_length=100, json_schema_extra={"format": "iana-time-zone"})]
# Time of the occurrence, job and run.
_CURSOR = re.compile(r"[^\0]*/[0-9]{1,18}/[0-9]{1,9}")


def _cursor(value: str) -> str:
    if not _CURSOR.fullmatch(value):
        raise ValueError(NO_CURSOR)
    return value


Seconds = Annotated[float, Field(ge=0, le=86_400)]


def _call(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


# A payload of http_call; plain text is the URL of a call with defaults.
Api = Annotated[dict[str, Any], BeforeValidator(_call, json_schema_input_type=str | dict[str, Any])]


class SchedulePatch(StrictModel):
    """A change of a schedule: fields that are left out keep their values. Durations are in seconds.

    `api`: a payload of the stage `http_call`, or its URL alone, instead of `stage` and `payload`. `max_retry_count`:
    attempts after the first; null: as the stage's settings. `missed_policy`: which occurrences run when no tick ran in
    time: the latest if it is younger than `catch_up_seconds` (`skip`), the latest (`one`), or the latest `missed_cap`
    (`all`). A one-time schedule may be a day late if `catch_up_seconds` is left out; one that is later is paused.
    `overlap_policy`: while the previous occurrence has not ended, the next one is dropped (`skip`), waits (`queue`) or
    runs (`allow`).
    """

    name: Identifier | None = None
    schedule: Expression = ""
    timezone: Zone = "UTC"
    stage: StageName | None = None
    payload: dict[str, Any] | None = None
    api: Api | None = None
    type: Literal["AT_LEAST_ONCE", "AT_MOST_ONCE"] = "AT_LEAST_ONCE"
    is_recurring: bool = True
    max_retry_count: Annotated[int, Field(ge=0, le=24)] | None = None
    retry_delays: Annotated[list[Seconds], Field(min_length=1, max_length=25)] | None = None
    ttr_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    priority: Priority = 0
    missed_policy: Literal["skip", "one", "all"] = "skip"
    catch_up_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    missed_cap: Annotated[int, Field(ge=1, le=100)] = 100
    overlap_policy: Literal["skip", "queue", "allow"] = "skip"
    pause_after_failures: Annotated[int, Field(ge=1, le=1000)] | None = None


class ScheduleRequest(SchedulePatch):
    """A schedule: its expression, and either `stage` with `payload` or `api`. Other fields: as in a change.

    `tenant_id`: by default that of the token, or `default`.
    """

    schedule: Expression
    tenant_id: Identifier | None = None

    def columns(self) -> dict[str, Any]:
        """Return its row, as `giftcard_save_schedule` expects it."""
        row = self.model_dump(exclude={"api", "stage", "payload", "type", "max_retry_count"})
        if not self.is_recurring and "catch_up_seconds" not in self.model_fields_set:
            row["catch_up_seconds"] = ONE_TIME_CATCH_UP
        return row | {
            "stage": self.stage or "http_call",
            "payload": self.payload or self.api or {},
            "semantics": self.type.lower(),
            "max_attempts": None if self.max_retry_count is None else self.max_retry_count + 1,
        }


class ScheduleFilter(StrictModel, strict=False):
    """A filter of schedules: all given fields must match. `older`: the cursor of an earlier page."""

    tenant_id: Identifier | None = None
    name: Identifier | None = None
    status: Literal["active", "paused"] | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None


class RunPage(StrictModel, strict=False):
    """A page of the occurrences or runs of a schedule, newest first. `older`: the cursor of an earlier page."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    older: (
        Annotated[str, Field(max_length=3000, json_schema_extra={"format": "run-cursor"}), AfterValidator(_cursor)]
        | None
    ) = None


class PauseSchedule(StrictModel):
    """The operator who pauses a schedule, and the reason."""

    by: Identifier
    reason: Reason | None = None


class Window(StrictModel, strict=False):
    """The window before now, in seconds."""

    window_seconds: Annotated[float, Field(gt=0, le=31 * 86_400)] = 3600
