"""What callers may ask of jobs: strict models, so that what is stored is what was sent."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lib.giftcards.orders import Identifier, Moment

StageName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9_]*$")]
Line = Identifier
JobId = Annotated[int, Field(ge=1, le=2**63 - 1)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class JobRequest(_Request):
    """One job to enqueue. `payload` is checked by its stage's model; times in seconds; `scheduled_at` with its zone."""

    stage: StageName
    correlation_id: Identifier
    tenant_id: Identifier = "default"
    dedup_key: Annotated[str, Field(max_length=200)] = ""
    payload: dict[str, Any] = Field(default_factory=dict)
    max_attempts: Annotated[int, Field(ge=1, le=25)] | None = None
    semantics: Literal["at_least_once", "at_most_once"] = "at_least_once"
    ttr_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    retry_delays: (
        Annotated[list[Annotated[float, Field(ge=0, le=86_400)]], Field(min_length=1, max_length=25)] | None
    ) = None
    scheduled_at: Moment | None = None
    delay_seconds: Annotated[float, Field(ge=0, le=366 * 86_400)] = 0


class EnqueueRequest(_Request):
    """One to a thousand jobs. `replace`: those in error or cancelled are queued again with this payload."""

    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=1000)]
    replace: bool = False


class Filter(_Request):
    """Which jobs. What is not given fits all; `error` is a part of the last error, in any case."""

    status: Literal["queued", "running", "completed", "error", "cancelled"] | None = None
    stage: StageName | None = None
    circuit: Line | None = None
    tenant_id: Identifier | None = None
    correlation_id: Identifier | None = None
    error: Line | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    def as_json(self) -> dict[str, str]:
        """What was given, for the database."""
        given = self.model_dump(exclude_none=True)
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}


class Page(_Request):
    """Which part of a list: after or before a cursor that an earlier page gave."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: JobId | None = None
    newer: JobId | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Page":
        if self.older is not None and self.newer is not None:
            raise ValueError("older and newer exclude each other")
        return self


class RequeueRequest(_Request):
    """`payload`: a corrected one, checked by the stage's model. `force`: also a completed job."""

    payload: dict[str, Any] | None = None
    force: bool = False


class BulkRequeueRequest(_Request):
    """Which dead (or cancelled) jobs go back to the queue. An empty filter needs `all`.

    `slowly`: the first one alone, at once; unless it completes nothing else is touched; the rest then come due at
    `per_minute`. `after`: go on behind this id, as an earlier answer said; `already`: how many the answers before that
    have requeued, so that the rate goes on where it was and no other goes alone.
    """

    filter: Filter = Field(default_factory=Filter)
    all: bool = False
    dry_run: bool = False
    slowly: bool = False
    per_minute: Annotated[float, Field(gt=0, le=60_000)] = 10
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    already: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0


class PauseRequest(_Request):
    """Who pauses or resumes, and why."""

    by: Line
    reason: Line | None = None
