"""Where money and cards do not match, and what operators decided about orders."""

from typing import Annotated

from pydantic import Field

from lib.web.openapi.responses.base import Response, Time

_Kind = Annotated[str, Field(description="The kind of difference, such as `paid_without_card`.")]


class Difference(Response):
    """A place where money and cards do not match. Amounts are in minor units."""

    kind: _Kind
    tenant_id: str
    correlation_id: str | None
    """The order that it concerns, if there is one."""
    reference: str
    """The payment's or the card's reference, or the vendor key of an effect."""
    amount: int
    """What is at stake."""
    currency: str | None
    since: Time
    detail: str | None
    """What does not match."""
    action: str
    """What to do about it."""


class Reconciliation(Response):
    """Where money and cards do not match."""

    differences: list[Difference]
    """The oldest first. Empty if money and cards match."""
    truncated: bool
    """Whether there are more than `limit`."""


class AcceptedDifference(Response):
    """A difference that an operator has accepted."""

    kind: _Kind
    tenant_id: str
    item: str
    """Its reference."""
    amount: int


class FreeOrder(Response):
    """An order without a payment."""

    correlation_id: str
    free_of_charge: bool


class RecipientCorrection(Response):
    """A correction of an order's recipient."""

    correlation_id: str
    changed: list[str]
    """The names of the fields that differ now."""


class PaymentEvent(Response):
    """A recorded movement of a payment's money. Amounts are in minor units."""

    payment_id: int
    reference: str
    """The payment's reference at its provider."""
    provider: str
    correlation_id: str | None
    """The order that has accepted the payment. Null if none has."""
    worth: int
    """What the payment is worth now."""
    currency: str
    changed: bool
    """Whether the request changed anything: false if the event was recorded already."""


class CardBlock(Response):
    """The job that blocks a card."""

    correlation_id: str
    job_id: int
    created: bool
    """Whether the job is new: false if one waits or runs already."""


class MailResend(Response):
    """The job that sends the mail of an order again."""

    correlation_id: str
    job_id: int
    done: str
    """`created`: the job is new. `requeued`: it had failed. `waiting`: it waits or runs already."""
    scheduled_at: Time
    """When the job is due."""
    changed: list[str]
    """The names of the recipient's fields that differ now."""
