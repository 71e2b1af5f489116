"""Orders and their flows."""

from lib.web.openapi.responses.base import JobStatus, Response, Time
from lib.web.openapi.responses.decisions import Difference


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


class Recipient(Response):
    """Who gets the card. Unless revealed, the address is covered and names are cut to their initials."""

    email: str | None
    given_name: str | None
    family_name: str | None


class FoundCard(Response):
    """The card of an order that was found."""

    last4: str
    state: str
    """`active`, `blocked` or `redeemed`."""


class FoundOrder(Response):
    """An order that was found. The amount is in minor units."""

    tenant_id: str
    correlation_id: str
    created_at: Time
    amount: int
    currency: str
    free_of_charge: bool
    cancelled_at: Time | None
    state: str
    """`new`, `paid`, `issued`, `delivered`, `failed` (one of its jobs is a dead letter) or `cancelled`."""
    recipient: Recipient | None
    """Null once the customer is erased."""
    card: FoundCard | None
    matched: list[str]
    """By what it was found: `correlation_id`, `email`, `personal_code`, `last4`, `reference`."""


class OrderSearchResult(Response):
    """Orders that fit a text."""

    orders: list[FoundOrder]
    """The newest first."""
    more: bool
    """Whether there are more."""


class StoryOrder(OrderTerms):
    """The order of a story."""

    deliver_at: str | None
    """When its mail is to be sent. Null: at once."""
    customer_id: int | None


class StoryCard(GiftCard):
    """The card of a story."""

    provider: str
    state_as_of: Time | None
    """Since when its state is known; null: since it was issued."""


class StoryMovement(Response):
    """A movement of a payment's money. The amount is in minor units."""

    kind: str
    """`captured`, `refunded`, `voided` or `disputed`."""
    amount: int
    is_total: bool
    as_of: Time | None
    recorded_at: Time


class StoryPayment(Response):
    """A payment of an order, or one that only names it. Amounts are in minor units."""

    provider: str
    reference: str
    amount: int | None
    currency: str | None
    worth: int
    accepted: bool
    """Whether the order has accepted it."""
    created_at: Time
    events: list[StoryMovement]


class StoryWait(Response):
    """Why a job is not running."""

    reason: str
    text: str


class StoryJob(FlowJob):
    """A job of a story."""

    created_at: Time | None
    trigger_type: str | None
    """What enqueued it."""
    locked_at: Time | None
    """When its run began, if it runs."""
    waiting_for: StoryWait | None


class StoryEvent(Response):
    """Something that happened to an order, or that it waits for."""

    at: Time
    """When it happened; for a wait, when that ends by itself, or the current time."""
    kind: str
    """`order`, `job`, `run`, `wait`, `payment`, `card`, `mail`, `webhook`, `act` (of an operator) or `difference`."""
    text: str
    job_id: int | None
    run_no: int | None
    level: str
    """`info`, `warning` or `error`."""


class OrderStory(Response):
    """Everything that happened to an order."""

    now: Time
    tenant_id: str
    correlation_id: str
    order: StoryOrder | None
    """Null for a flow that began without an order."""
    recipient: Recipient | None
    """Null once the customer is erased, and for a flow without an order."""
    card: StoryCard | None
    payments: list[StoryPayment]
    jobs: list[StoryJob]
    """The newest 100, the newest first."""
    differences: list[Difference]
    """Where its books do not match."""
    events: list[StoryEvent]
    """The oldest first; what it waits for comes last."""
    more: list[str]
    """The names of the lists that are cut: `jobs`, `runs` or `acts`."""
