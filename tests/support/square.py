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
MERCHANT, LOCATION = "6SSW7HV8K2ST5", "S8GWD5R9QB376"
PAYMENT = "hYy9pRFVxpDsO1FB05SunFWUe9JZY"
AT = "2026-11-28T10:00:00.123Z"
SETTINGS = {
    "SQUARE_WEBHOOK_SIGNATURE_KEY": KEY,
    "SQUARE_WEBHOOK_URL": URL,
    "SQUARE_MERCHANT_ID": MERCHANT,
    "SQUARE_LOCATION_ID": LOCATION,
}


def minute(number: int) -> str:
    """A time of Square's clock, in order."""
    return f"2026-11-28T10:{number:02}:00Z"


def event(type: str, *, object: Any, event_id: str | None = None, at: str = AT) -> dict[str, Any]:
    """An event about an object like {"payment": {…}}."""
    name = next(iter(object), "")
    return {
        "merchant_id": MERCHANT,
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


def money(amount: int, currency: str = "USD") -> dict[str, Any]:
    return {"amount": amount, "currency": currency}


def payment(
    order: str | None = "order-1", *, type: str = "payment.updated", amount: int = 2500, at: str = AT, **changes: Any
) -> Any:
    """A payment that names an order by our prefix."""
    sent = {
        "amount_money": money(amount),
        "buyer_email_address": "kate@example.com",
        "created_at": AT,
        "id": PAYMENT,
        "location_id": LOCATION,
        "source_type": "CARD",
        "status": "COMPLETED",
        "total_money": money(amount + 300),
        "updated_at": at,
        "version": 3,
    }
    named = {} if order is None else {"reference_id": f"gc:{order}"}
    return event(type, object={"payment": sent | named | changes})


def refund(
    amount: int = 2500, *, of: str = PAYMENT, id: str = "refund-1", at: str = AT, type: str = "refund.updated",
    **changes: Any,
) -> Any:  # fmt: skip
    sent = {
        "amount_money": money(amount),
        "created_at": AT,
        "id": id,
        "location_id": LOCATION,
        "order_id": "03O3USaPaAaFnI6kkwB1JxGgBsUZY",
        "payment_id": of,
        "status": "COMPLETED",
        "updated_at": at,
        "version": 8,
    }
    return event(type, object={"refund": sent | changes})


def dispute(
    state: str = "EVIDENCE_REQUIRED", *, amount: int = 2500, of: str = PAYMENT, id: str = "dispute-1", at: str = AT,
    type: str = "dispute.state.updated", **changes: Any,
) -> Any:  # fmt: skip
    sent = {
        "amount_money": money(amount),
        "brand_dispute_id": "r9rKGSBBQbywBNnWWIiGFg",
        "card_brand": "VISA",
        "created_at": AT,
        "disputed_payment": {"payment_id": of},
        "due_at": "2026-12-12T00:00:00.000Z",
        "id": id,
        "location_id": LOCATION,
        "reason": "NO_KNOWLEDGE",
        "state": state,
        "updated_at": at,
        "version": 6,
    }
    return event(type, object={"dispute": sent | changes})


def gift_card(balance: int, *, state: str = "ACTIVE", id: str = "gftc:1", currency: str = "USD", **more: Any) -> Any:
    sent = {"id": id, "gan": "7783320001001635", "state": state, "type": "DIGITAL"}
    sent["balance_money"] = money(balance, currency)  # type: ignore[assignment]
    return event("gift_card.updated", object={"gift_card": sent}, **more)


def activity(balance: int, *, id: str = "gftc:1", **more: Any) -> Any:
    sent = {"gift_card_id": id, "id": "gcact_1", "location_id": "another", "type": "REDEEM"}
    sent["gift_card_balance_money"] = money(balance)  # type: ignore[assignment]
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


def became(world: World) -> list[tuple[str, str | None]]:
    """What each event became, in the order in which they came, and why if it was ignored."""
    return [(one["kind"], one["facts"].get("why")) for one in events_of(world)]
