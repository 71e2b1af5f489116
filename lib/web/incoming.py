"""Events that vendors send: signed by them, counted once. What reads them is imported when one comes."""

from typing import Any

from flask import Blueprint, current_app, request

from lib.telemetry import events
from lib.validation import harmless
from lib.web.problems import Problem
from lib.web.request_data import checked, value
from lib.web.services import Giftcards, giftcards

blueprint = Blueprint("incoming", __name__, url_prefix="/api/webhooks")


@blueprint.post("/square")
def from_square() -> tuple[dict[str, Any], int]:
    """Receive an event from Square.

    Repeated deliveries of an event are acknowledged and have no further effect.
    """
    from lib.giftcards import square
    from lib.jobs.enqueue import prepare

    parts = giftcards(current_app)
    _check_signature(parts)
    event = checked(square.Event, value())
    tenant = parts.settings.square_tenant_id
    action = square.meaning(event)
    if "job" in action:
        (action["job"],) = prepare([action["job"] | {"tenant_id": tenant}], parts.registry(), parts.settings)
    taken = parts.store.receive_event(
        source="square", event_id=event.event_id, type=event.type, tenant_id=tenant, action=action
    )
    events.emit("webhook_received", source="square", type=harmless(event.type), **taken)
    return {"event_id": event.event_id} | taken, 202


def _check_signature(parts: Giftcards) -> None:
    """Lets the request pass if Square has signed it.

    Raises:
        Problem: 503 when it is not set up, 403 when the signature does not fit.
    """
    from lib.giftcards.square import fits

    key, url = parts.settings.square_webhook_signature_key, parts.settings.square_webhook_url
    if key is None or url is None:
        name = "SQUARE_WEBHOOK_SIGNATURE_KEY" if key is None else "SQUARE_WEBHOOK_URL"
        raise Problem(503, "this door is shut", detail=f"{name} is not set: set it to open this door")
    signature = request.headers.get("X-Square-Hmacsha256-Signature", "")
    if not fits(signature, key=key.get_secret_value(), url=url, body=request.get_data()):
        raise Problem(
            403,
            "the signature does not fit",
            detail="is SQUARE_WEBHOOK_URL the very address that the subscription has, and the key its own?",
        )
