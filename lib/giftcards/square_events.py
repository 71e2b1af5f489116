"""Square's events (`POST /api/webhooks/square`): what each one means for customers, payments and gift cards.

Objects and states: https://developer.squareup.com/reference/square/webhooks
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, ValidationError

from lib.config.settings import Settings
from lib.giftcards.orders import Arrival
from lib.validation import Identifier, Matching, Moment, StrictModel, field_errors

Json = dict[str, Any]

_MAX_BIGINT = 2**63 - 1
_ENDED_WITHOUT_REFUND = ("REJECTED", "FAILED")
_ENDED_WITHOUT_LOSS = ("WON", "INQUIRY_CLOSED")


class _Payload(StrictModel, extra="ignore"):
    """A part of an event; Square adds fields at any time."""


class Data(_Payload):
    """The data of an event. `object` holds its subject, under a name such as `payment`."""

    object: Json = Field(default_factory=dict)


EventId = Annotated[Identifier, Field(max_length=200)]
EventType = Annotated[Identifier, Field(max_length=100)]


class Event(_Payload):
    """An event. `created_at` is a time of Square's clock."""

    event_id: EventId
    type: EventType
    created_at: Moment
    merchant_id: Identifier | None = None
    data: Data = Data()


class _Customer(_Payload):
    id: Identifier
    given_name: str | None = None
    family_name: str | None = None
    email_address: str | None = None


class _Money(_Payload):
    amount: int = Field(ge=0, le=_MAX_BIGINT)
    currency: Annotated[str, Matching("^[A-Z]{3}$", "must be the code of a currency, like USD")]


class _MoneyObject(_Payload):
    """What payments, refunds and disputes have in common."""

    amount_money: _Money
    location_id: Identifier | None = None
    updated_at: Moment | None = None


class _Payment(_MoneyObject):
    id: Identifier
    status: str
    reference_id: Identifier | None = None
    refunded_money: _Money | None = None


class _Refund(_MoneyObject):
    id: Identifier
    status: str
    payment_id: Identifier | None = None


class _DisputedPayment(_Payload):
    payment_id: Identifier


class _Dispute(_MoneyObject):
    id: Identifier | None = None
    dispute_id: Identifier | None = None
    state: str
    disputed_payment: _DisputedPayment


class _Card(_Payload):
    id: Identifier
    state: str
    balance_money: _Money


class _Activity(_Payload):
    gift_card_id: Identifier
    gift_card_balance_money: _Money


def action_for(event: Event, settings: Settings) -> Json:
    """Return an event's action for `giftcard_receive_event`: {job}, {movements}, {card}, or {ignored: reason}.

    Events of another merchant are ignored, and those about money of another location.
    """
    if settings.square_merchant_id and event.merchant_id != settings.square_merchant_id:
        return {"ignored": "another merchant"}
    reader = _READERS.get(event.type) or (_card if event.type.startswith("gift_card.") else None)
    if reader is None:
        return {}
    try:
        return reader(event, settings)
    except ValidationError as error:
        # Only the fields: a message may hold personal data.
        fields = ", ".join(dict.fromkeys(field or "object" for field, _ in field_errors(error)))
        return {"ignored": f"not as expected: {fields}"[:200]}


def _customer(event: Event, _: Settings) -> Json:
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


def _payment(event: Event, settings: Settings) -> Json:
    sent = _Payment.model_validate(event.data.object.get("payment"))
    if _is_elsewhere(sent, settings):
        return {"ignored": "another location"}
    if sent.status not in ("COMPLETED", "CANCELED", "FAILED"):
        return {"ignored": "not completed"}
    order = (sent.reference_id or "").removeprefix(settings.square_reference_prefix)
    if order in ("", sent.reference_id):
        return {"ignored": "not ours: its reference_id does not begin with SQUARE_REFERENCE_PREFIX"}

    def movement(name: str, kind: str, amount: int, **more: Any) -> Json:
        return _movement(event, sent, sent.id, f"{name}:{sent.id}", kind, amount) | {"named_order": order} | more

    captured = movement("captured", "captured", sent.amount_money.amount)
    if sent.status != "COMPLETED":
        # With the capture, whether or not it was seen: the sum is 0 in any order of arrival.
        return {"movements": [captured, movement("voided", "voided", sent.amount_money.amount)]}
    refunded = sent.refunded_money or _Money(amount=0, currency=sent.amount_money.currency)
    total = {"currency": refunded.currency, "is_total": True}
    return {"movements": [captured, movement("refunded_total", "refunded", refunded.amount, **total)]}


def _refund(event: Event, settings: Settings) -> Json:
    sent = _Refund.model_validate(event.data.object.get("refund"))
    if _is_elsewhere(sent, settings):
        return {"ignored": "another location"}
    if sent.payment_id is None:
        return {"ignored": "no payment_id"}
    # Also while it is pending: no card for money that is on its way back.
    amount = 0 if sent.status in _ENDED_WITHOUT_REFUND else sent.amount_money.amount
    return {"movements": [_movement(event, sent, sent.payment_id, f"refund:{sent.id}", "refunded", amount)]}


def _dispute(event: Event, settings: Settings) -> Json:
    sent = _Dispute.model_validate(event.data.object.get("dispute"))
    if _is_elsewhere(sent, settings):
        return {"ignored": "another location"}
    # `dispute_id` in objects of older API versions.
    dispute = sent.id or sent.dispute_id
    if dispute is None:
        return {"ignored": "no id"}
    amount = 0 if sent.state in _ENDED_WITHOUT_LOSS else sent.amount_money.amount
    payment = sent.disputed_payment.payment_id
    return {"movements": [_movement(event, sent, payment, f"dispute:{dispute}", "disputed", amount)]}


def _is_elsewhere(sent: _MoneyObject, settings: Settings) -> bool:
    ours = settings.square_location_id
    return bool(ours) and sent.location_id is not None and sent.location_id not in ours


def _movement(event: Event, sent: _MoneyObject, payment: str, event_id: str, kind: str, amount: int) -> Json:
    as_of: datetime = sent.updated_at or event.created_at
    return {
        "provider_ref": payment,
        "event_id": event_id,
        "kind": kind,
        "amount": amount,
        "currency": sent.amount_money.currency,
        "as_of": as_of.isoformat(),
    }


def _card(event: Event, _: Settings) -> Json:
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


_READERS: Mapping[str, Callable[[Event, Settings], Json]] = {
    "customer.created": _customer,
    "payment.created": _payment,
    "payment.updated": _payment,
    "refund.created": _refund,
    "refund.updated": _refund,
    "dispute.created": _dispute,
    "dispute.state.updated": _dispute,
    # Its former name.
    "dispute.state.changed": _dispute,
}
