"""Operations on many jobs."""

from typing import Literal

from pydantic import RootModel

from lib.web.openapi.responses.base import Json, Response, Time


class StageCount(Response):
    """How many jobs of a stage an operation would change."""

    stage: str
    count: int


class OperationPreview(Response):
    """What an operation would change."""

    count: int
    """Up to 10,000 jobs."""
    capped: bool
    """There are more."""
    by_stage: list[StageCount]
    """The stages with the most jobs first, at most 50."""


class Operation(Response):
    """An operation on many jobs, with its progress."""

    id: int
    action: Literal["requeue", "requeue_slowly", "cancel"]
    tenant_id: str | None
    """The only tenant whose jobs it changes. Null: all."""
    filter: Json
    """Personal data is masked."""
    selected: int | None
    """How many jobs were selected by `job_ids`. Null: the filter selects them."""
    job_ids: list[int] | None
    """The selected jobs. Null in lists."""
    reason: str
    by: str
    """Who created it."""
    per_minute: float | None
    """The rate of `requeue_slowly`, else null."""
    state: Literal["running", "stopped", "completed", "failed"]
    total: int
    """How many jobs matched when it was created, up to 10,000."""
    capped: bool
    """More than `total` matched."""
    matched: int
    """How many jobs it has met so far."""
    changed: int
    """How many of these it has changed: the others no longer matched."""
    after_id: int
    """All jobs up to this id are done."""
    first_job_id: int | None
    """With `requeue_slowly`: the job that runs first."""
    next_at: Time | None
    """With `requeue_slowly`: when the next job will be due."""
    stopped_because: str | None
    error: str | None
    """Why it has failed."""
    created_at: Time
    last_at: Time | None
    """When its last step was."""
    finished_at: Time | None
    created: bool | None = None
    """Only in the response to its creation: false if it existed already."""


class OperationResult(RootModel[Operation | OperationPreview]):
    """The operation, or with `dry_run` its preview."""


class OperationPage(Response):
    """A page of operations, newest first."""

    operations: list[Operation]
    older: int | None
    """The cursor of the next page. Null on the last one."""
