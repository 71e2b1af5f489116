"""The books of an order: what it was taken in with, its payment and its card. A job's payload changes none of it."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from lib.errors import PermanentError
from lib.giftcards.money import format_money, too_little
from lib.giftcards.orders import Money, Order, body_hash
from lib.jobs.context import Context
from lib.validation import field_errors

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The books of one order. `payment`: the one that it accepted; `card`: its number is encrypted; `page_id`: names
    the order in the link to its page."""

    order: Order
    page_id: int
    customer_id: int | None
    free_of_charge: bool
    payment: Row | None
    card: Row | None

    @property
    def is_paid(self) -> bool:
        """Whether a card may be issued: the order is free, or nothing of its payment has gone back."""
        if self.payment is None:
            return self.free_of_charge
        return bool(self.payment["worth"] >= self.order.amount.amount)


def read_books(context: Context, payload: Order | None = None) -> Books:
    """Return the books of the job's order.

    Raises:
        PermanentError: there is no order, it is cancelled or erased, or `payload` asks for another amount or customer.
    """
    return _checked(context.store.books(context.job.tenant_id, context.job.correlation_id), payload)


def take_order(context: Context, payload: Order) -> Books:
    """Return the books of the job's order. A flow that began without an order takes in `payload` as its order.

    Raises:
        PermanentError: as in `read_books`, or the amount of a new order is too little.
    """
    problem = too_little(payload.amount.amount, payload.amount.currency, context.settings.giftcard_least_amounts)
    if problem and context.store.books(context.job.tenant_id, context.job.correlation_id) is None:
        raise PermanentError(problem)
    books = context.store.take_order(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        order=payload.model_dump(mode="json", exclude_none=True),  # as submit_order writes it
        body_hash=body_hash(payload),
    )
    return _checked(books, payload)


def _checked(books: Row | None, payload: Order | None) -> Books:
    if books is None:
        raise PermanentError("the flow has no order: start it at customer_ingest")
    row = books["order"]
    if row["cancelled"]:
        raise PermanentError("the order is cancelled: to reopen it, cancel this job, then requeue it")
    order = order_of(row)
    if payload is not None:
        _check_payload(payload, order)
    return Books(
        order=order,
        page_id=row["page_id"],
        customer_id=row["customer_id"],
        free_of_charge=row["free_of_charge"],
        payment=books["payment"],
        card=books["card"],
    )


def order_of(row: Row) -> Order:
    """Return the order of a row of the books.

    Raises:
        PermanentError: its customer was erased, or the row is invalid.
    """
    if not row["details"]:
        raise PermanentError("the customer of this order was erased")
    content = row["details"] | {"amount": {"amount": row["amount"], "currency": row["currency"]}}
    try:
        return Order.model_validate_json(json.dumps(content))
    except ValidationError as error:
        # Only the fields: a message may hold personal data.
        fields = ", ".join(dict.fromkeys(field for field, _ in field_errors(error)))
        raise PermanentError(f"the order's row in giftcard_orders is invalid: {fields}") from None


def _check_payload(payload: Order, order: Order) -> None:
    if payload.amount != order.amount:
        raise PermanentError(f"the payload asks for {_text(payload.amount)}, the order is over {_text(order.amount)}")
    if payload.customer.external_id != order.customer.external_id:
        raise PermanentError("the payload is for another customer than the order")


def _text(money: Money) -> str:
    return format_money(money.amount, money.currency)
