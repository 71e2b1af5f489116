"""Who takes the money and who makes the cards: our own ledger in Postgres, or any HTTP service with idempotency keys.

A provider is asked under a vendor key that is the same at every attempt, and answers the same under it.
`lookup(key)` says what became of a key: its result, or None when nothing happened. One that cannot say
(`answers_lookups` false) leaves an old effect to a person.
"""

from typing import Any, Protocol

from lib.giftcards.cards import vault_of
from lib.giftcards.http_provider import Access, HttpCards, HttpPayments
from lib.giftcards.ledger import LedgerCards, LedgerPayments
from lib.giftcards.orders import Order
from lib.jobs.context import Context

Result = dict[str, Any]


class PaymentProvider(Protocol):
    """Answers {reference}."""

    name: str
    answers_lookups: bool

    def charge(self, key: str, order: Order) -> Result:
        """Takes the order's amount. Declined: a definite no, nothing was taken."""

    def lookup(self, key: str) -> Result | None:
        """What a charge under this key came to."""


class CardProvider(Protocol):
    """Answers {reference, number_encrypted, number_hash, last4}: a number is never stored or logged in clear."""

    name: str
    answers_lookups: bool

    def issue(self, key: str, order: Order) -> Result:
        """Makes a card over the order's amount."""

    def lookup(self, key: str) -> Result | None:
        """The card that was made under this key."""


def payments(context: Context) -> PaymentProvider:
    """The payment provider that the settings choose."""
    chosen = context.settings
    if chosen.giftcard_payment_provider == "http" and chosen.giftcard_payment_url:
        access = Access(chosen.giftcard_payment_url, chosen.giftcard_payment_token, chosen.giftcard_payment_lookup)
        return HttpPayments(context, access, what="payment")
    return LedgerPayments(context)


def cards(context: Context) -> CardProvider:
    """The card provider that the settings choose."""
    chosen = context.settings
    vault = vault_of(chosen)
    if chosen.giftcard_card_provider == "http" and chosen.giftcard_card_url:
        access = Access(chosen.giftcard_card_url, chosen.giftcard_card_token, chosen.giftcard_card_lookup)
        return HttpCards(context, access, vault=vault)
    return LedgerCards(context, vault)
