"""An order as requests and payloads hold it: strict JSON, nothing guessed."""

import hashlib
import json
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from lib.giftcards.languages import MAX_TAG_LENGTH, canonical_tag
from lib.giftcards.money import is_currency
from lib.mail_address import MAX_ADDRESS_LENGTH, normalized
from lib.validation import Identifier, Line, Moment, Name, StrictModel, Text, schema_hint

# In minor units of any currency: a guard against typing errors, not a business limit. It allows weak currencies (a card
# of 10,000,000 rupiah is worth some 600 dollars) and fits the 32 bits of any vendor.
MAX_AMOUNT = 1_000_000_000
MAX_MESSAGE_LENGTH = 2_000


def _currency(value: str) -> str:
    if not is_currency(value):
        raise ValueError("is not the upper-case ISO 4217 code of a currency in use")
    return value


Email = Annotated[Line, Field(max_length=MAX_ADDRESS_LENGTH), schema_hint(format="email"), AfterValidator(normalized)]
Currency = Annotated[Line, Field(max_length=3), schema_hint(format="iso-4217"), AfterValidator(_currency)]

LanguageTag = Annotated[
    Line, Field(max_length=MAX_TAG_LENGTH), schema_hint(format="language-tag"), AfterValidator(canonical_tag)
]


class Customer(StrictModel):
    """A customer. `given_name` may be empty or all emoji. `external_id` is the shop's own number."""

    external_id: Identifier | None = None
    given_name: Name
    family_name: Name | None = None
    email: Email


class Money(StrictModel):
    """An amount in minor units: 2500 in USD is 25 dollars."""

    amount: int = Field(ge=1, le=MAX_AMOUNT)
    currency: Currency


class Order(StrictModel):
    """One gift card for one customer. `deliver_at` None: at once. `locale`: the language of the mail, as in BCP 47."""

    customer: Customer
    amount: Money
    message: Annotated[Text, Field(max_length=MAX_MESSAGE_LENGTH)] | None = None
    deliver_at: Moment | None = None
    locale: LanguageTag | None = None


def _money_if_ordered(value: Money | None, info: ValidationInfo) -> Money | None:
    if (value is None) is not info.data.get("without_order", False):
        raise ValueError("is required" if value is None else "must be left out for a customer without an order")
    return value


class Arrival(StrictModel):
    """The payload of customer_ingest: an order, or a customer without one (`without_order`)."""

    without_order: bool = False
    customer: Customer
    amount: Annotated[Money | None, AfterValidator(_money_if_ordered)] = Field(default=None, validate_default=True)
    message: Annotated[Text, Field(max_length=MAX_MESSAGE_LENGTH)] | None = None
    deliver_at: Moment | None = None
    locale: LanguageTag | None = None

    def order(self) -> Order:
        """Return the order of an arrival that has one."""
        return Order.model_validate(self.model_dump(exclude={"without_order"}))


def body_hash(order: Order) -> str:
    """Return the SHA-256 in hex of the order's content, whatever the order of keys and the time zone."""
    # Without nulls: a field added by a later release must not change the hash of orders without it.
    body = order.model_dump(mode="json", exclude_none=True)
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
