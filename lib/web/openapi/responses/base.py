"""What the response models of several resources share."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]
Time = Annotated[str, Field(description="RFC 3339 date and time in UTC, or `infinity`.")]


class Response(BaseModel):
    """The base of all response models: the text below a field is its description."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class JobStatus(StrEnum):
    """The state of a job. A job in `error` is a dead letter."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"


class FieldError(Response):
    """What is wrong with a field or parameter."""

    field: str
    """Its path. Empty: the body as a whole."""
    message: str


class Problem(Response):
    """An error, as RFC 9457 defines it."""

    type: Literal["about:blank"]
    """Always `about:blank`: the status identifies the kind of error."""
    title: str
    """What is wrong."""
    status: int
    """The HTTP status."""
    detail: str | None = None
    """What is wrong in particular, or what to do about it."""
    field: str | None = None
    """The field or parameter that is invalid, the first of `errors`."""
    errors: list[FieldError] | None = None
    """Every field or parameter that is invalid, up to 100."""


class DeleteResult(Response):
    """A deletion."""

    id: int
    deleted: bool
