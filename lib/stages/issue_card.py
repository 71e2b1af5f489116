"""The stage issue_card: issue the card, once."""

from lib.config.settings import Settings
from lib.giftcards.cards import missing_key
from lib.giftcards.ledger import record_card
from lib.giftcards.orders import Order
from lib.giftcards.providers import card_provider
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import stage


def _missing_setting(settings: Settings) -> str | None:
    if settings.giftcard_card_provider == "http" and not settings.giftcard_card_url:
        return "GIFTCARD_CARD_URL"
    return missing_key(settings)


@stage("issue_card", payload=Order, needs=_missing_setting)
def issue_card(order: Order, context: Context) -> Complete:
    """Issue and record the card. Only its last four digits enter the context."""
    provider = card_provider(context)
    lookup = provider.lookup if provider.supports_lookup else None
    card = context.once("issue", lambda key: provider.issue(key, order), lookup=lookup)
    recorded = record_card(context, order, provider=provider.name, card=card)
    # A past time would make the mail look late. `locked_at` is by the database's clock.
    later = order.deliver_at if order.deliver_at and order.deliver_at > context.job.locked_at else None
    return Complete(context={"card_last4": recorded["last4"]}, next=(NextJob(stage="email", at=later),))
