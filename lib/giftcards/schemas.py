"""Requests about orders and their money: what operators decide, and what payment services report."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lib.giftcards.orders import MAX_AMOUNT, Currency, Email
from lib.jobs.audit import Reason
from lib.validation import Identifier, Moment, Name, StrictModel

# The kinds of `giftcard_reconcile`, without those that only `verify` finds: those cannot be accepted.
Difference = Literal[
    "paid_without_card",
    "paid_but_cancelled",
    "paid_but_free",
    "money_without_order",
    "paid_twice",
    "wrong_amount",
    "refunded_after_issue",
    "disputed_after_issue",
    "card_of_cancelled_order",
    "charge_unknown",
    "issue_unknown",
    "refund_without_payment",
    "event_refused",
]
Movement = Literal["captured", "refunded", "voided", "disputed"]


class DifferenceQuery(StrictModel):
    """Where money and cards do not match. `verify`: add up every payment and check every card as well."""

    tenant_id: Identifier | None = None
    verify: bool = False
    limit: Annotated[int, Field(ge=1, le=999)] = 200


class AcceptRequest(StrictModel):
    """The acceptance of a difference: it is not listed again unless its amount changes.

    `tenant_id`: by default that of the token, or `default`.
    """

    kind: Difference
    reference: Identifier
    tenant_id: Identifier | None = None
    reason: Reason


class FreeRequest(StrictModel):
    """The reason why an order is free of charge."""

    reason: Reason


class RecipientPatch(StrictModel):
    """A correction of an order's recipient: fields that are left out keep their values."""

    email: Email | None = None
    given_name: Name | None = None
    family_name: Name | None = None

    @model_validator(mode="after")
    def _something(self) -> "RecipientPatch":
        if not self.changes():
            raise ValueError("give at least one of email, given_name, family_name")
        return self

    def changes(self) -> dict[str, Any]:
        """Return the given fields. A family name may be null: there is none."""
        given = self.model_dump(exclude_unset=True)
        return {name: value for name, value in given.items() if value is not None or name == "family_name"}


class ResendRequest(StrictModel):
    """Why the mail of an order is sent again. `email`: the right address of its recipient, from now on."""

    reason: Reason
    email: Email | None = None


class OrderSearch(StrictModel):
    """A search for orders. `text`: a correlation id or its beginning, the e-mail address of a customer or recipient, a
    personal code, the last four digits of a card, or the reference of a payment. `reveal`: recipients in clear.
    """

    text: Identifier
    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 50
    reveal: bool = False


class EventMoney(StrictModel):
    """An amount in minor units: 2500 in USD is 25 dollars. 0: nothing has moved after all."""

    amount: Annotated[int, Field(ge=0, le=MAX_AMOUNT)]
    currency: Currency | None = None


class PaymentEventRequest(StrictModel):
    """A movement of an order's money, recorded once per `event_id`.

    `reference`: the payment's; without it, that of the payment which the order has accepted. `is_total`: the amount is
    the total of this kind so far, and not one more; by default it is for `captured` alone. `as_of`: the time of this
    description: a newer one of the same event replaces it, an older one changes nothing. Without it an event is final.
    """

    event_id: Identifier
    kind: Movement
    amount: EventMoney
    reference: Identifier | None = None
    is_total: bool | None = None
    as_of: Moment | None = None
