"""Webhook endpoints, and receipts of inbound webhooks."""

from lib.web.openapi.responses.base import Response, Time
from lib.webhooks.schemas import Event


class WebhookEndpoint(Response):
    """A URL that receives events."""

    id: int
    tenant_id: str
    url: str
    events: list[Event]
    """The event types that it receives."""
    enabled: bool
    disabled_reason: str | None
    previous_secret_until: Time | None
    """Until when the previous secret signs too."""
    created_at: Time
    updated_at: Time


class WebhookEndpointWithSecret(WebhookEndpoint):
    """A webhook endpoint with its signing secret, which is only returned when it is created or rotated."""

    secret: str


class WebhookEndpointPage(Response):
    """A page of webhook endpoints, newest first."""

    endpoints: list[WebhookEndpoint]
    older: int | None
    """The cursor of the next page. Null on the last one."""


class WebhookTest(Response):
    """A test event that will be sent by the next tick."""

    job_id: int
    event_id: str


class EventReceipt(Response):
    """An inbound event."""

    event_id: str
    kind: str
    """What the event changes."""
    repeated: bool
    """The event was received before: nothing is done again."""
