"""Payment and card providers: the ledger in Postgres, or an HTTP service with idempotency keys.

A provider gets the same vendor key at every attempt and returns the same result for it. `lookup(key)` returns that
result, or None if nothing happened. Without lookups (`supports_lookup` false), an operator resolves old effects.
"""

from typing import Any, Protocol

from lib.giftcards.cards import vault_of
from lib.giftcards.http_provider import HttpCards, HttpPayments, Service
from lib.giftcards.ledger import LedgerCards, LedgerPayments
from lib.giftcards.orders import Order
from lib.jobs.context import Context

Result = dict[str, Any]


class PaymentProvider(Protocol):
    """Charges orders. Results are {reference, key}."""

    name: str
    supports_lookup: bool

    def charge(self, key: str, order: Order) -> Result:
        """Charge the order's amount. Raise Declined if the provider refuses for good: nothing was charged."""

    def lookup(self, key: str) -> Result | None:
        """Return the result of the charge under this key, or None."""


class CardProvider(Protocol):
    """Issues card_provider. Results are {reference, number_encrypted, number_hash, last4}, never a number in clear."""

    name: str
    supports_lookup: bool

    def issue(self, key: str, order: Order) -> Result:
        """Issue a card with the order's amount."""

    def lookup(self, key: str) -> Result | None:
        """Return the card issued under this key, or None."""


def payment_provider(context: Context) -> PaymentProvider:
    """Return the payment provider that the settings choose."""
    settings = context.settings
    if settings.giftcard_payment_provider == "http" and settings.giftcard_payment_url:
        service = Service(
            settings.giftcard_payment_url, settings.giftcard_payment_token, settings.giftcard_payment_lookup
        )
        return HttpPayments(context, service, kind="payment")
    return LedgerPayments(context)


def card_provider(context: Context) -> CardProvider:
    """Return the card provider that the settings choose."""
    settings = context.settings
    vault = vault_of(settings)
    if settings.giftcard_card_provider == "http" and settings.giftcard_card_url:
        service = Service(settings.giftcard_card_url, settings.giftcard_card_token, settings.giftcard_card_lookup)
        return HttpCards(context, service, vault=vault)
    return LedgerCards(context, vault)
