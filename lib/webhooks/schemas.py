"""Requests about webhook endpoints."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lib.safe_http import url as safe_url
from lib.validation import Identifier, StrictModel

# A week: enough for a receiver to switch to a new secret.
_LONGEST_FORMER_HOURS = 168


def _url(value: str) -> str:
    safe_url.parse(value)
    return value


def _no_duplicates(value: list[str]) -> list[str]:
    return list(dict.fromkeys(value))


Event = Literal[
    "giftcard.issued", "giftcard.delivered", "giftcard.failed", "job.completed", "job.dead_lettered", "report.ready"
]
Events = Annotated[list[Event], Field(min_length=1, max_length=50), AfterValidator(_no_duplicates)]
Url = Annotated[str, Field(json_schema_extra={"format": "uri"}), AfterValidator(_url)]


class EndpointRequest(StrictModel):
    """A webhook endpoint: a URL that receives these events. `tenant_id`: by default that of the token, or `default`."""

    tenant_id: Identifier | None = None
    url: Url
    events: Events
    enabled: bool = True


class EndpointPatch(StrictModel):
    """A change of a webhook endpoint: fields that are left out keep their values."""

    url: Url | None = None
    events: Events | None = None
    enabled: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> "EndpointPatch":
        if not self.model_dump(exclude_none=True):
            raise ValueError("give at least one of url, events, enabled")
        return self


class RotateRequest(StrictModel):
    """A new signing secret. `former_hours`: for how long the previous one signs too."""

    former_hours: Annotated[float, Field(ge=0, le=_LONGEST_FORMER_HOURS)] = 24


class EndpointPage(StrictModel):
    """A page of a list. `older`: the cursor of an earlier page."""

    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
