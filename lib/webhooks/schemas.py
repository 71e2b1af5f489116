"""What callers may ask of webhook endpoints."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lib.safe_http import url as outside_url
from lib.validation import Identifier, StrictModel

# A week: longer than anybody needs to take a new secret over.
_LONGEST_FORMER_HOURS = 168


def _url(value: str) -> str:
    outside_url.parse(value)
    return value


def _no_duplicates(value: list[str]) -> list[str]:
    return list(dict.fromkeys(value))


Event = Literal[
    "giftcard.issued", "giftcard.delivered", "giftcard.failed", "job.completed", "job.dead_lettered", "report.ready"
]
Events = Annotated[list[Event], Field(min_length=1, max_length=50), AfterValidator(_no_duplicates)]
Url = Annotated[str, Field(json_schema_extra={"format": "uri"}), AfterValidator(_url)]


class EndpointRequest(StrictModel):
    """A new endpoint."""

    tenant_id: Identifier = "default"
    url: Url
    events: Events
    enabled: bool = True


class EndpointPatch(StrictModel):
    """What to change. None: it stays as it is."""

    url: Url | None = None
    events: Events | None = None
    enabled: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> "EndpointPatch":
        if not self.model_dump(exclude_none=True):
            raise ValueError("give at least one of url, events, enabled")
        return self


class RotateRequest(StrictModel):
    """`former_hours`: how long the secret before the new one signs too."""

    former_hours: Annotated[float, Field(ge=0, le=_LONGEST_FORMER_HOURS)] = 24


class EndpointPage(StrictModel):
    """Which part of the list; `older`: a cursor that an earlier page gave."""

    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
