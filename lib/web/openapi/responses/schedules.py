"""Schedules and their occurrences."""

from typing import Literal

from pydantic import Field

from lib.web.openapi.responses.base import JobStatus, Json, Response, Time
from lib.web.openapi.responses.jobs import JobRun


class OccurrenceJob(Response):
    """The job of an occurrence."""

    id: int
    status: JobStatus
    attempts: int
    scheduled_at: Time
    finished_at: Time | None
    last_error: str | None


class Occurrence(OccurrenceJob):
    """An occurrence of a schedule, with its job."""

    time: Time
    """The time that the schedule set for it."""
    created_at: Time


class OccurrenceList(Response):
    """A page of the occurrences of a schedule, newest first."""

    occurrences: list[Occurrence]
    older: str | None
    """The cursor of the next page. Null on the last one."""


class ScheduleRun(JobRun):
    """A run of a job of a schedule."""

    time: Time
    """The time that the schedule set for the occurrence."""


class ScheduleHistory(Response):
    """A page of the runs of all jobs of a schedule, newest first."""

    runs: list[ScheduleRun]
    older: str | None
    """The cursor of the next page. Null on the last one."""


class Schedule(Response):
    """A schedule. Durations are in seconds."""

    id: int
    version: int
    """Increases with each change."""
    tenant_id: str
    name: str | None
    status: Literal["active", "paused"]
    schedule: str
    """A cron expression."""
    timezone: str
    stage: str
    source: Literal["app", "pgmq", "sql"]
    """Where the payload comes from. Its jobs have the same source."""
    payload: Json
    """Personal data is masked unless the request has `reveal=true`."""
    type: Literal["AT_LEAST_ONCE", "AT_MOST_ONCE"]
    is_recurring: bool
    max_retry_count: int | None
    retry_delays: list[float] | None
    ttr_seconds: int | None
    priority: int
    """Of its jobs: 10 starts first, -10 last."""
    missed_policy: Literal["skip", "one", "all"]
    catch_up_seconds: int
    missed_cap: int
    overlap_policy: Literal["skip", "queue", "allow"]
    pause_after_failures: int | None
    next_at: Time | None
    """The next occurrence."""
    next_times: list[Time] = Field(default_factory=list)
    """The next five occurrences. Lists omit this field."""
    last_at: Time | None
    """The latest occurrence that became a job."""
    last_job_id: int | None
    last_job: OccurrenceJob | None
    """Null once the job is archived."""
    unfinished: int
    """Jobs of this schedule that have not ended."""
    failures: int
    """Occurrences in a row that failed for good."""
    missed: int
    """Occurrences dropped because no tick ran in time."""
    skipped: int
    """Occurrences dropped because an earlier one had not ended."""
    paused_at: Time | None
    paused_by: str | None
    pause_reason: str | None
    created_at: Time
    updated_at: Time


class SchedulePage(Response):
    """A page of schedules, newest first."""

    schedules: list[Schedule]
    older: int | None
    """The cursor of the next page. Null on the last one."""


class ScheduleRunResult(Response):
    """An occurrence started by an operator."""

    id: int
    """The schedule."""
    job_id: int
