"""The stage issue_card: issue the card, once."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import Pending, PermanentError
from lib.giftcards.books import Books, read_books
from lib.giftcards.cards import missing_key
from lib.giftcards.flow import completed
from lib.giftcards.ledger import record_vendor_card
from lib.giftcards.orders import Order
from lib.giftcards.providers import card_provider
from lib.job import Complete, Snooze
from lib.jobs.context import Context
from lib.jobs.stage import stage

# Seconds until a provider that has not decided is asked again.
_PENDING_INTERVAL = 60.0


def _missing_setting(settings: Settings) -> str | None:
    if settings.giftcard_card_provider == "http" and not settings.giftcard_card_url:
        return "GIFTCARD_CARD_URL"
    return missing_key(settings)


@stage("issue_card", payload=Order, needs=_missing_setting)
def issue_card(payload: Order, context: Context) -> Complete | Snooze:
    """Issue and record the card that the order pays for. Only its last four digits enter the context."""
    books = read_books(context, payload)
    if books.card is None:
        _check_paid(books)
        try:
            last4 = _issue(books.order, context)
        except Pending as pending:
            return Snooze(delay=_PENDING_INTERVAL, waiting_for=str(pending))
    else:
        last4 = books.card["last4"]
    return completed(context, books.order, card_last4=last4)


def _check_paid(books: Books) -> None:
    if books.payment is None and not books.free_of_charge:
        raise PermanentError("the order is not paid: requeue its payment job")
    if not books.is_paid:
        raise PermanentError("the payment was refunded or disputed: no card is issued")


def _issue(order: Order, context: Context) -> str:
    provider = card_provider(context)

    def lookup(key: str) -> dict[str, Any] | None:
        return provider.lookup(key, order)

    card = context.once(
        "issue",
        lambda key: provider.issue(key, order),
        lookup=lookup if provider.supports_lookup else None,
        of_flow=True,
    )
    if "decided_by" in card:  # an operator found it at the provider: no run has recorded it
        record_vendor_card(context, order, provider=provider.name, card=card)
    last4: str = card["last4"]
    return last4
