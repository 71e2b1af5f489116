"""Batches of jobs."""

from typing import Literal

from lib.web.openapi.responses.base import Json, Response, Time
from lib.web.openapi.responses.jobs import EnqueuedJob


class BatchCounts(Response):
    """How many jobs a batch has now, by status."""

    total: int
    queued: int
    running: int
    completed: int
    error: int
    cancelled: int


class BatchEnd(Response):
    """How many jobs a batch had at its end, by status."""

    total: int
    completed: int
    error: int
    cancelled: int


class Batch(Response):
    """A batch: jobs that end together."""

    id: int
    tenant_id: str
    name: str | None
    state: Literal["open", "running", "ended"]
    """Open: jobs can join it. Running: none can, and some have not ended."""
    counts: BatchCounts
    """Of now. Of each status up to 100,000 are counted, in lists up to 1,000."""
    capped: bool
    """There are more of some status than were counted."""
    reviving: int
    """Dead letters that will revive: they have not ended."""
    done: int
    """How many of the counted jobs have ended."""
    follow_up: Json | None
    """The job to enqueue at its end. Personal data is masked."""
    follow_up_job_id: int | None
    """The job that was enqueued at its end."""
    error: str | None
    """Why the follow-up cannot be enqueued. Ticks try again."""
    created_at: Time
    sealed_at: Time | None
    ended_at: Time | None
    ended_with: BatchEnd | None
    """Stays as it was, whatever becomes of the jobs later."""


class NewBatch(Batch):
    """A batch, with the jobs of the request in the same order."""

    created: bool
    """False: there was one of this name already."""
    jobs: list[EnqueuedJob]


class BatchPage(Response):
    """A page of batches, newest first."""

    batches: list[Batch]
    older: int | None
    """The cursor of the next page. Null on the last one."""
