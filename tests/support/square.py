"""Square, as far as tests need it: events as it sends them, with its signature."""

import base64
import hashlib
import hmac
import json
import uuid
from typing import Any

from tests.support.world import World

KEY = "signature-key-of-tests"
URL = "https://giftcards.example.com/api/webhooks/square"
SETTINGS = {"SQUARE_WEBHOOK_SIGNATURE_KEY": KEY, "SQUARE_WEBHOOK_URL": URL}


def event(
    type: str, *, object: Any, event_id: str | None = None, at: str = "2026-11-28T10:00:00.123Z"
) -> dict[str, Any]:
    """An event about an object like {"payment": {…}}."""
    name = next(iter(object), "")
    return {
        "merchant_id": "6SSW7HV8K2ST5",
        "type": type,
        "event_id": event_id or str(uuid.uuid4()),
        "created_at": at,
        "data": {"type": name, "id": "KkAkhdMsgzn59SM8A89WgKwekxLZY", "object": object},
    }


def customer(**changes: Any) -> dict[str, Any]:
    sent = {
        "created_at": "2026-11-28T10:00:00.12Z",
        "creation_source": "THIRD_PARTY",
        "email_address": "kate@example.com",
        "family_name": "Rodgers",
        "given_name": "Kate",
        "id": "JDKYHBWT1D4F8MFH63DBMEN8Y4",
        "preferences": {"email_unsubscribed": False},
        "version": 0,
    }
    return event("customer.created", object={"customer": sent | changes})


def payment(order: str | None = "order-1", *, type: str = "payment.updated", amount: int = 2500, **changes: Any) -> Any:
    sent = {
        "amount_money": {"amount": amount, "currency": "USD"},
        "buyer_email_address": "kate@example.com",
        "id": "hYy9pRFVxpDsO1FB05SunFWUe9JZY",
        "location_id": "S8GWD5R9QB376",
        "source_type": "CARD",
        "status": "COMPLETED",
        "total_money": {"amount": amount + 300, "currency": "USD"},
        "version": 3,
    }
    named = {} if order is None else {"reference_id": order}
    return event(type, object={"payment": sent | named | changes})


def gift_card(balance: int, *, state: str = "ACTIVE", id: str = "gftc:1", currency: str = "USD", **more: Any) -> Any:
    sent = {"id": id, "gan": "7783320001001635", "state": state, "type": "DIGITAL"}
    sent["balance_money"] = {"amount": balance, "currency": currency}  # type: ignore[assignment]
    return event("gift_card.updated", object={"gift_card": sent}, **more)


def activity(balance: int, *, id: str = "gftc:1", **more: Any) -> Any:
    sent = {"gift_card_id": id, "id": "gcact_1", "type": "REDEEM"}
    sent["gift_card_balance_money"] = {"amount": balance, "currency": "USD"}  # type: ignore[assignment]
    return event("gift_card.activity.created", object={"gift_card_activity": sent}, **more)


def signature(body: bytes, *, key: str = KEY, url: str = URL) -> str:
    return base64.b64encode(hmac.new(key.encode(), url.encode() + body, hashlib.sha256).digest()).decode()


def send(world: World, sent: Any, *, signed: str | None = None) -> Any:
    """The door's answer to an event, or to bytes."""
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    headers = {"x-square-hmacsha256-signature": signature(body) if signed is None else signed}
    return world.client.post("/api/webhooks/square", data=body, content_type="application/json", headers=headers)


def taken(world: World, sent: Any) -> dict[str, Any]:
    """What an event became, when it was taken in."""
    answer = send(world, sent)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json
    assert found.pop("event_id") == sent["event_id"]
    return found


def events_of(world: World) -> list[dict[str, Any]]:
    """What was kept of them, in the order in which they came."""
    return world.sql("select * from public.giftcard_inbound_events order by received_at, event_id")
