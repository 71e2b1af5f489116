"""Orders and their flows."""

from lib.web.openapi.responses.base import JobStatus, Response, Time


class Order(Response):
    """An accepted order."""

    correlation_id: str
    tenant_id: str
    status_url: str
    """The path of the order's flow."""
    page_url: str | None
    """The link to the customer's page: anyone who has it sees the card. Null: orders have no page."""


class FlowJob(Response):
    """A step of a flow."""

    id: int
    stage: str
    dedup_key: str
    status: JobStatus
    attempts: int
    last_error: str | None
    scheduled_at: Time
    revive_at: Time | None
    """When a dead letter returns to the queue by itself."""
    finished_at: Time | None
    archived_at: Time | None


class OrderTerms(Response):
    """What an order costs. Amounts are in minor units."""

    amount: int
    currency: str
    locale: str | None
    """The language of its mail; null: that of `GIFTCARD_LOCALE`."""
    free_of_charge: bool
    """An operator has waived the payment."""
    cancelled_at: Time | None
    created_at: Time


class Payment(Response):
    """The payment of an order. Amounts are in minor units."""

    reference: str
    """The payment's id at its provider."""
    amount: int
    currency: str
    worth: int
    """What is left of the amount: less if money was refunded or disputed."""
    provider: str
    paid_at: Time


class GiftCard(Response):
    """The card of an order. Amounts are in minor units."""

    last4: str
    """The last four digits of its number."""
    amount: int
    balance: int
    currency: str
    unpaid: int
    """How much of its amount is not paid for any more. Such a card is blocked."""
    state: str
    """`active`, `blocked` or `redeemed`."""
    issued_at: Time


class Flow(Response):
    """The jobs of an order, and their results."""

    tenant_id: str
    correlation_id: str
    jobs: list[FlowJob]
    """The newest 100, in order. Jobs that have not been enqueued yet are not listed."""
    older: int | None
    """The cursor of the page with the jobs before these. Null if there are none."""
    order: OrderTerms | None
    """Null for a flow that began without an order."""
    payment: Payment | None
    card: GiftCard | None


class FlowCancelResult(Response):
    """The cancellation of a flow and its order."""

    tenant_id: str
    correlation_id: str
    cancelled: int
    """Jobs cancelled."""
    cancel_requested: int
    """Running jobs that will be cancelled when their run ends."""
