"""Square's webhooks (`POST /api/webhooks/square`): events about customers, payments and gift cards."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from lib.errors import PermanentError
from lib.giftcards.orders import Arrival, Order
from lib.jobs.context import Context
from lib.validation import Identifier, Moment, StrictModel

Json = dict[str, Any]

_MAX_BIGINT = 2**63 - 1


class _Payload(StrictModel, extra="ignore"):
    """A part of an event; Square adds fields at any time."""


class Data(_Payload):
    """The data of an event. `object` holds its subject, under a name such as `payment`."""

    object: Json = Field(default_factory=dict)


class Event(_Payload):
    """An event. `created_at` is a time of Square's clock."""

    event_id: Annotated[Identifier, Field(max_length=200)]
    type: Annotated[Identifier, Field(max_length=100)]
    created_at: Moment
    data: Data = Data()


class _Customer(_Payload):
    id: Identifier
    given_name: str | None = None
    family_name: str | None = None
    email_address: str | None = None


class _Money(_Payload):
    amount: int = Field(ge=0, le=_MAX_BIGINT)
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]


class _Payment(_Payload):
    id: Identifier
    status: str
    reference_id: Identifier | None = None
    amount_money: _Money


class _Card(_Payload):
    id: Identifier
    state: str
    balance_money: _Money


class _Activity(_Payload):
    gift_card_id: Identifier
    gift_card_balance_money: _Money


def is_signed(signature: str, *, key: str, url: str, body: bytes) -> bool:
    """Return whether Square has signed this body for this URL: HMAC-SHA256 over both, in base64.

    https://developer.squareup.com/docs/webhooks/step3validate
    """
    expected = base64.b64encode(hmac.new(key.encode(), url.encode() + body, hashlib.sha256).digest())
    # WSGI decodes headers as Latin-1.
    return hmac.compare_digest(signature.encode("latin-1", "backslashreplace"), expected)


def action_for(event: Event) -> Json:
    """Return an event's action for `giftcard_receive_event`: {job}, {payment}, {card}, or {ignored: reason}."""
    reader = _READERS.get(event.type) or (_card if event.type.startswith("gift_card.") else None)
    if reader is None:
        return {}
    try:
        return reader(event)
    except ValidationError as error:
        # Only the location: the value may be personal data.
        location = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))
        return {"ignored": f"not as expected: {location or 'object'}"[:200]}


def find_payment(order: Order, context: Context) -> str | None:
    """Return Square's id of the payment received for this order, or None so far.

    Raises:
        PermanentError: the payment differs from the order's amount; an operator must decide.
    """
    amount, currency = order.amount.amount, order.amount.currency
    payment = context.store.inbound_payment(context.job, amount=amount, currency=currency)
    if payment is None:
        return None
    if (payment["amount"], payment["currency"]) != (amount, currency):
        raise PermanentError(
            f"{payment['amount']} {payment['currency']} were paid, the order costs {amount} {currency} (minor units)"
        )
    reference: str = payment["reference"]
    return reference


def _customer(event: Event) -> Json:
    sent = _Customer.model_validate(event.data.object.get("customer"))
    if not sent.email_address:
        return {"ignored": "no e-mail address"}
    payload = {
        "without_order": True,
        "customer": {
            "external_id": sent.id,
            "given_name": sent.given_name or "",
            "family_name": sent.family_name,
            "email": sent.email_address,
        },
    }
    arrival = Arrival.model_validate(payload)
    job = {"stage": "customer_ingest", "correlation_id": f"square:{event.event_id}", "trigger_type": "square"}
    return {"job": job | {"payload": arrival.model_dump(mode="json", exclude_none=True)}}


def _payment(event: Event) -> Json:
    sent = _Payment.model_validate(event.data.object.get("payment"))
    if sent.status != "COMPLETED":
        return {"ignored": "not completed"}
    if sent.reference_id is None:
        return {"ignored": "no reference_id"}
    return {"payment": {"correlation_id": sent.reference_id, "reference": sent.id} | sent.amount_money.model_dump()}


def _card(event: Event) -> Json:
    if "gift_card_activity" in event.data.object:
        activity = _Activity.model_validate(event.data.object["gift_card_activity"])
        return _balance(event, activity.gift_card_id, activity.gift_card_balance_money, blocked=None)
    sent = _Card.model_validate(event.data.object.get("gift_card"))
    return _balance(event, sent.id, sent.balance_money, blocked=sent.state != "ACTIVE")


def _balance(event: Event, reference: str, balance: _Money, *, blocked: bool | None) -> Json:
    at = event.created_at.isoformat()
    return {
        "card": {
            "reference": reference,
            "balance": balance.amount,
            "currency": balance.currency,
            "blocked": blocked,
            "at": at,
        }
    }


_READERS: Mapping[str, Callable[[Event], Json]] = {
    "customer.created": _customer,
    "payment.created": _payment,
    "payment.updated": _payment,
}
