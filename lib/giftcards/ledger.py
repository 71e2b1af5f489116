"""The ledger in Postgres: it records every payment and card, and the ledger providers need nothing else."""

from random import SystemRandom
from typing import Any

from lib.errors import Conflict, PermanentError, Refused, TransientError
from lib.giftcards.cards import new_number, vault_of
from lib.giftcards.money import format_money
from lib.giftcards.orders import Order
from lib.jobs.context import Context

Result = dict[str, Any]

_NUMBER_TRIES = 3
_REFUSALS = ("GC404", "GC409")


def record_payment(context: Context, order: Order, *, key: str, provider: str, reference: str | None) -> Result:
    """Record the payment that the order accepts; a repeated call returns it.

    Raises:
        PermanentError: the order cannot accept it. Money that a provider took is recorded all the same.
    """
    try:
        return context.store.record_payment(
            tenant_id=context.job.tenant_id,
            correlation_id=context.job.correlation_id,
            idempotency_key=key,
            provider=provider,
            provider_ref=reference,
            amount=order.amount.amount,
            currency=order.amount.currency,
        )
    except Refused as refused:
        if refused.sqlstate not in _REFUSALS:
            raise
        if reference is not None:
            record_captured(
                context,
                provider=provider,
                reference=reference,
                amount=order.amount.amount,
                currency=order.amount.currency,
            )
            raise PermanentError(
                f"payment {reference} cannot be kept: {refused}; refund it; to charge anew run sql/decide_effect.sql"
            ) from None
        raise PermanentError(f"nothing was charged: {refused}") from None


def record_captured(context: Context, *, provider: str, reference: str, amount: int, currency: str) -> None:
    """Record money that a provider took for the job's order, although the order does not accept it.

    A reference that is recorded already keeps its row as it is: the charge then has no result, and is shown as unknown.
    """
    try:
        context.store.record_payment_event(
            tenant_id=context.job.tenant_id,
            provider=provider,
            provider_ref=reference,
            event_id=f"captured:{reference}",
            kind="captured",
            amount=amount,
            currency=currency,
            named_order=context.job.correlation_id,
        )
    except Refused as refused:
        if refused.sqlstate not in _REFUSALS:
            raise


def record_card(context: Context, order: Order, *, provider: str, card: Result) -> Result:
    """Record the order's card; a repeated call returns it.

    Raises:
        Conflict: the number is taken.
        Refused: GC409: the order has another card, or is not paid.
    """
    return context.store.record_card(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        provider=provider,
        provider_ref=card["reference"],
        number_encrypted=card["number_encrypted"],
        number_hash=card["number_hash"],
        last4=card["last4"],
        amount=order.amount.amount,
        currency=order.amount.currency,
    )


def record_vendor_card(context: Context, order: Order, *, provider: str, card: Result) -> Result:
    """Record a card that a provider has issued.

    Raises:
        PermanentError: the order cannot have it: the card exists at the provider, and someone has to block it there.
    """
    try:
        return record_card(context, order, provider=provider, card=card)
    except (Refused, Conflict) as refused:
        if refused.sqlstate not in (*_REFUSALS, Conflict.sqlstate):
            raise
        price = format_money(order.amount.amount, order.amount.currency)
        raise PermanentError(
            f"card {card['reference']} over {price} cannot be kept, block it at its provider: {refused}"
        ) from None


class LedgerPayments:
    """A payment is a row of `giftcard_payments`, unique by order and by key."""

    name = "ledger"
    supports_lookup = True

    def __init__(self, context: Context) -> None:
        self._context = context

    def charge(self, key: str, order: Order) -> Result:
        """See `PaymentProvider`."""
        payment = record_payment(self._context, order, key=key, provider=self.name, reference=None)
        return {"reference": payment["reference"], "key": key}

    def lookup(self, key: str, order: Order) -> Result | None:
        """See `PaymentProvider`."""
        payment = self._context.store.find_payment(key)
        return {"reference": payment["reference"], "key": key} if payment else None


class LedgerCards:
    """A card is a row of `giftcard_cards`, with a number created here."""

    name = "ledger"
    supports_lookup = True

    def __init__(self, context: Context) -> None:
        self._context = context

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`. Records the card at once, so that a number that is already taken is detected."""
        vault = vault_of(self._context.settings)
        for _ in range(_NUMBER_TRIES):
            sealed = vault.seal(new_number(SystemRandom()), self._context.job.flow)
            card = {
                "reference": f"ledger:{key}",
                "number_encrypted": sealed.encrypted,
                "number_hash": sealed.number_hash,
                "last4": sealed.last4,
            }
            try:
                return _card_of(record_card(self._context, order, provider=self.name, card=card))
            except Conflict:
                continue
            except Refused as refused:
                # Another run of this order may have recorded its card under this key meanwhile.
                recorded = self.lookup(key, order)
                if recorded is None or recorded["reference"] != card["reference"]:
                    raise PermanentError(f"no card was issued: {refused}") from None
                return recorded
        raise TransientError(f"all {_NUMBER_TRIES} generated card numbers are taken")

    def lookup(self, key: str, order: Order) -> Result | None:
        """See `CardProvider`. Searches by order: the row is unique by order, and an order has one card."""
        books = self._context.store.books(self._context.job.tenant_id, self._context.job.correlation_id)
        return _card_of(books["card"]) if books and books["card"] else None

    def block(self, key: str, reference: str) -> Result:
        """See `CardProvider`. The row is the card: there is nothing else to block."""
        return {"reference": reference, "balance": None}


def _card_of(row: Result) -> Result:
    return {name: row[name] for name in ("reference", "number_encrypted", "number_hash", "last4")}
