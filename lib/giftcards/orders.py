"""An order as it comes through the doors and travels in payloads. JSON in, JSON out, nothing guessed."""

import hashlib
import json
import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationInfo

from lib.giftcards.money import is_currency

# In minor units, whatever the currency: a guard against a slipped finger, not a business limit. It has to let weak
# currencies through (a card of 10,000,000 rupiah is worth some 600 dollars) and fits the 32 bits of any vendor.
MAX_AMOUNT = 1_000_000_000
MAX_NAME_LENGTH = 200
MAX_ID_LENGTH = 200
MAX_EMAIL_LENGTH = 254  # RFC 5321
MAX_MESSAGE_LENGTH = 2_000

# Control characters (Postgres refuses NUL, terminals obey the others), line separators, and halves of a character.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSAFE_IN_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _without(unsafe: re.Pattern[str], value: object) -> object:
    found = unsafe.search(value) if isinstance(value, str) else None
    if found:
        kind = "half a character (lone surrogate)" if found[0] >= "\ud800" else "a control character"
        raise ValueError(f"contains {kind}, U+{ord(found[0]):04X}")
    return value


def _email(value: str) -> str:
    from email_validator import EmailNotValidError, validate_email  # only orders need it, the cron's door does not

    try:
        return validate_email(value, check_deliverability=False).normalized
    except EmailNotValidError:
        # Its own words can repeat parts of the address, and messages end in logs.
        raise ValueError("is not a valid e-mail address") from None


def _currency(value: str) -> str:
    if not is_currency(value):
        raise ValueError("is not the upper-case ISO 4217 code of a currency in use")
    return value


def _moment(value: object) -> object:
    """RFC 3339 text → aware UTC. What is not text is left to pydantic."""
    if not isinstance(value, str):
        return value
    if not _RFC3339.fullmatch(value):
        raise ValueError("is not a time with a zone as in RFC 3339, like 2026-12-24T18:00:00+01:00")
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        raise ValueError("is no time of any calendar") from None


def _utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("has no time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is no time of any calendar") from None


def _told(**words: str) -> Any:
    """What the API's description says of a type, beside what pydantic knows by itself."""
    return Field(json_schema_extra=dict(words))


# The same as the expressions above, as JSON Schema writes them: halves of a character are no text there.
_NOT_IN_LINE = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_NOT_IN_TEXT = r"\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029"

_Line = Annotated[str, BeforeValidator(partial(_without, _UNSAFE)), StringConstraints(strip_whitespace=True)]
_Text = Annotated[str, BeforeValidator(partial(_without, _UNSAFE_IN_TEXT)), _told(pattern=f"^[^{_NOT_IN_TEXT}]*$")]
Identifier = Annotated[
    _Line,
    Field(min_length=1, max_length=MAX_ID_LENGTH),
    _told(pattern=f"^[^{_NOT_IN_LINE}]*[^{_NOT_IN_LINE}\\s][^{_NOT_IN_LINE}]*$"),
]
Name = Annotated[_Line, Field(max_length=MAX_NAME_LENGTH), _told(pattern=f"^[^{_NOT_IN_LINE}]*$")]
Email = Annotated[_Line, Field(max_length=MAX_EMAIL_LENGTH), _told(format="email"), AfterValidator(_email)]
Currency = Annotated[_Line, Field(max_length=3), _told(format="iso-4217"), AfterValidator(_currency)]
Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_utc)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class Customer(_Part):
    """`given_name` may be empty or all emoji: the personal code copes. `external_id` is the shop's own number."""

    external_id: Identifier | None = None
    given_name: Name
    family_name: Name | None = None
    email: Email


class Money(_Part):
    """`amount` in minor units: 2500 of USD is 25 dollars."""

    amount: int = Field(ge=1, le=MAX_AMOUNT)
    currency: Currency


class Order(_Part):
    """One gift card for one customer. `deliver_at` None: at once."""

    customer: Customer
    amount: Money
    message: Annotated[_Text, Field(max_length=MAX_MESSAGE_LENGTH)] | None = None
    deliver_at: Moment | None = None


def _with_its_order(value: Money | None, info: ValidationInfo) -> Money | None:
    if (value is None) is not info.data.get("without_order", False):
        raise ValueError("Field required" if value is None else "belongs to an order, and this customer has none")
    return value


class Arrival(_Part):
    """What customer_ingest takes: an order, or a customer who has ordered nothing yet (`without_order`)."""

    without_order: bool = False
    customer: Customer
    amount: Annotated[Money | None, AfterValidator(_with_its_order)] = Field(default=None, validate_default=True)
    message: Annotated[_Text, Field(max_length=MAX_MESSAGE_LENGTH)] | None = None
    deliver_at: Moment | None = None


def body_hash(order: Order) -> str:
    """SHA-256 in hex of what the order says: the same for any spelling of it (order of keys, zone of a time)."""
    # Without nulls: a field that a later release adds must not change the hash of orders that lack it.
    body = order.model_dump(mode="json", exclude_none=True)
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
