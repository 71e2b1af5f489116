"""Payment and card providers: the ledger in Postgres, or an HTTP service with idempotency keys.

A provider gets the same vendor key at every attempt and returns the same result for it, once it is recorded in the
books. `lookup(key, order)` returns that result, or None if nothing happened. Without lookups (`supports_lookup` false),
an operator resolves old effects.
"""

from typing import Any, Protocol

from lib.config.settings import Settings
from lib.errors import TransientError
from lib.giftcards.http_provider import HttpCards, HttpPayments, Service
from lib.giftcards.ledger import LedgerCards, LedgerPayments
from lib.giftcards.orders import Order
from lib.jobs.context import Context

Result = dict[str, Any]


class PaymentProvider(Protocol):
    """Charges orders. Results are {reference, key}. Raises Pending until the provider has decided."""

    name: str
    supports_lookup: bool

    def charge(self, key: str, order: Order) -> Result:
        """Charge the order's amount. Raise Declined if the provider refuses for good: nothing was charged."""

    def lookup(self, key: str, order: Order) -> Result | None:
        """Return the result of the charge under this key, or None."""


class CardProvider(Protocol):
    """Issues cards. Results are {reference, number_encrypted, number_hash, last4}, never a number in clear."""

    name: str
    supports_lookup: bool

    def issue(self, key: str, order: Order) -> Result:
        """Issue a card with the order's amount."""

    def lookup(self, key: str, order: Order) -> Result | None:
        """Return the card issued under this key, or None."""

    def block(self, key: str, reference: str) -> Result:
        """Block the card with this reference; a repeated call is harmless. Return {reference, balance: or None}."""


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
    service = _card_service(context.settings)
    return HttpCards(context, service) if service else LedgerCards(context)


def block_provider(context: Context, name: str) -> CardProvider:
    """Return the provider that issued a card: `name`, also if the settings choose another one by now.

    Raises:
        TransientError: it is the card service, and its settings are gone.
    """
    if name == LedgerCards.name:
        return LedgerCards(context)
    service = _card_service(context.settings)
    if service is None:
        raise TransientError("the card is from the card service: set GIFTCARD_CARD_PROVIDER=http and GIFTCARD_CARD_URL")
    return HttpCards(context, service)


def _card_service(settings: Settings) -> Service | None:
    if settings.giftcard_card_provider == "http" and settings.giftcard_card_url:
        return Service(settings.giftcard_card_url, settings.giftcard_card_token, settings.giftcard_card_lookup)
    return None
