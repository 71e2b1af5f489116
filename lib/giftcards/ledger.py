"""The ledger in Postgres: it records every payment and card, and the ledger providers need nothing else."""

from random import SystemRandom
from typing import Any

from lib.errors import Conflict, TransientError
from lib.giftcards.cards import Vault, new_number
from lib.giftcards.orders import Order
from lib.jobs.context import Context

Result = dict[str, Any]

_NUMBER_TRIES = 3


def record_payment(context: Context, order: Order, *, key: str, provider: str, reference: str | None) -> Result:
    """Record the order's payment; a repeated call returns the first one."""
    return context.store.record_payment(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        idempotency_key=key,
        provider=provider,
        provider_ref=reference,
        amount=order.amount.amount,
        currency=order.amount.currency,
    )


def record_card(context: Context, order: Order, *, provider: str, card: Result) -> Result:
    """Record the order's card; a repeated call returns the first one. Raise Conflict if the number is taken."""
    return context.store.record_card(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        customer_id=context.job.context.get("customer_id"),
        provider=provider,
        provider_ref=card["reference"],
        number_encrypted=card["number_encrypted"],
        number_hash=card["number_hash"],
        last4=card["last4"],
        amount=order.amount.amount,
        currency=order.amount.currency,
    )


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

    def lookup(self, key: str) -> Result | None:
        """See `PaymentProvider`."""
        payment = self._context.store.find_payment(key)
        return {"reference": payment["reference"], "key": key} if payment else None


class LedgerCards:
    """A card is a row of `giftcard_cards`, with a number created here."""

    name = "ledger"
    supports_lookup = True

    def __init__(self, context: Context, vault: Vault) -> None:
        self._context = context
        self._vault = vault

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`. Records the card at once, so that a number that is already taken is detected."""
        for _ in range(_NUMBER_TRIES):
            sealed = self._vault.seal(new_number(SystemRandom()))
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
        raise TransientError(f"all {_NUMBER_TRIES} generated card numbers are taken")

    def lookup(self, key: str) -> Result | None:
        """See `CardProvider`. Searches by order: the row is unique by order, and an order has one card."""
        row = self._context.store.find_card(self._context.job.tenant_id, self._context.job.correlation_id)
        return _card_of(row) if row else None


def _card_of(row: Result) -> Result:
    return {name: row[name] for name in ("reference", "number_encrypted", "number_hash", "last4")}
