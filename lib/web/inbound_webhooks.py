"""Inbound webhooks: events that vendors sign and send.

What reads an event is imported with the first one: other requests never need it.
"""

from typing import Any

from flask import Blueprint, current_app, request

from lib.errors import InvalidJob
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.validation import harmless
from lib.web import throttle
from lib.web.auth import disabled
from lib.web.problems import Problem
from lib.web.services import Services, services

blueprint = Blueprint("inbound_webhooks", __name__, url_prefix="/api/webhooks")


@blueprint.post("/square")
def from_square() -> tuple[dict[str, Any], int]:
    """Receive an event from Square.

    Repeated deliveries of an event are acknowledged and have no further effect. So is an event that cannot be used: it
    is kept as ignored, with the reason, because Square would only send it again.
    """
    from lib.giftcards import square_events, square_reading

    own = services(current_app)
    _check_signature(own)
    event, wrong = square_reading.read(request.get_data())
    action: dict[str, Any] = {"ignored": wrong} if wrong else square_events.action_for(event, own.settings)
    if "job" in action:
        action = _prepared(action["job"], own)
    received = own.store.receive_event(
        source="square",
        event_id=event.event_id,
        type=event.type,
        tenant_id=own.settings.square_tenant_id,
        action=action,
    )
    refused = received.pop("refused")
    if refused is None and str(action.get("ignored")).startswith("not as expected") and not received["repeated"]:
        refused = action["ignored"]
    named: dict[str, Any] = {"source": "square", "type": harmless(event.type)}
    if refused is not None:
        events.emit(
            "webhook_refused",
            **named,
            event_id=harmless(event.event_id),
            error=clean(refused, secrets=own.settings.secrets()),
        )
    events.emit("webhook_received", **named, **received)
    return {"event_id": event.event_id} | received, 202


def _prepared(job: dict[str, Any], own: Services) -> dict[str, Any]:
    """Return the action of a job, as it is enqueued; ignored, if its stage does not take it."""
    from lib.jobs.enqueue import prepare

    try:
        (ready,) = prepare([job | {"tenant_id": own.settings.square_tenant_id}], own.registry(), own.settings)
    except InvalidJob as error:
        # Only the field: the message may repeat a value.
        return {"ignored": f"not as expected: {error.field}"[:200]}
    return {"job": ready}


def _check_signature(own: Services) -> None:
    """Check that Square signed the request.

    Raises:
        Problem: 503 if a setting is missing, 403 if the signature does not match, 429 after too many of them.
    """
    from lib.giftcards.square import is_signed, missing_setting

    missing = missing_setting(own.settings)
    key, url = own.settings.square_webhook_signature_key, own.settings.square_webhook_url
    if missing or key is None or url is None:
        raise disabled(missing or "SQUARE_WEBHOOK_URL")
    signature = request.headers.get("X-Square-Hmacsha256-Signature", "")
    if not is_signed(signature, key=key.get_secret_value(), url=url.get_secret_value(), body=request.get_data()):
        counted = own.store.count_denied(throttle.bucket(), reason="signature")
        detail = "check that SQUARE_WEBHOOK_URL and the key are those of the subscription in Square"
        raise throttle.denied(counted, Problem(403, "the signature does not match", detail=detail))
