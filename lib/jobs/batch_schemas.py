"""Requests about batches."""

from typing import Annotated, Any, Literal

from pydantic import Field

from lib.jobs.audit import Reason
from lib.jobs.schemas import JobRequest, Priority
from lib.validation import Id, Identifier, StageName, StrictModel


class FollowUpRequest(StrictModel):
    """The job that is enqueued when a batch ends. Its context has `batch`: how many jobs there were, by status.

    `correlation_id`: by default a flow of its own. `delay_seconds`: after the end.
    """

    stage: StageName
    correlation_id: Identifier | None = None
    dedup_key: Annotated[str, Field(max_length=200)] = ""
    payload: dict[str, Any] = Field(default_factory=dict)
    max_attempts: Annotated[int, Field(ge=1, le=25)] | None = None
    ttr_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    delay_seconds: Annotated[float, Field(ge=0, le=366 * 86_400)] = 0
    priority: Priority = 0
    concurrency_key: Identifier | None = None

    def as_job(self, *, otherwise: str) -> JobRequest:
        """Return the job; `otherwise`: its flow, where it names none."""
        given = self.model_dump(exclude_none=True)
        return JobRequest.model_validate({"correlation_id": otherwise} | given)


class BatchRequest(StrictModel):
    """A batch, with up to 1,000 jobs. Unless `open`, no other job can join it.

    `name`: to repeat the request without a second batch. `tenant_id`: by default that of the token, or `default`; its
    jobs and its follow-up are of the same.
    """

    name: Annotated[Identifier, Field(max_length=150)] | None = None
    tenant_id: Identifier | None = None
    jobs: Annotated[list[JobRequest], Field(max_length=1000)] = Field(default_factory=list)
    follow_up: FollowUpRequest | None = None
    open: bool = False


class BatchJobsRequest(StrictModel):
    """Up to 1,000 more jobs for an open batch."""

    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=1000)]


class BatchActRequest(StrictModel):
    """An act on the jobs of a batch. `reason`: recorded in the audit."""

    reason: Reason


class BatchPage(StrictModel):
    """A page of batches, newest first. `older`: the cursor of an earlier page."""

    state: Literal["open", "running", "ended"] | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Id | None = None
