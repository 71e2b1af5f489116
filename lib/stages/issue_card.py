"""Makes the card, once."""

from lib.config.settings import Settings
from lib.giftcards.cards import missing_key
from lib.giftcards.ledger import record_card
from lib.giftcards.orders import Order
from lib.giftcards.providers import card_provider
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import stage


def _needs(settings: Settings) -> str | None:
    if settings.giftcard_card_provider == "http" and not settings.giftcard_card_url:
        return "GIFTCARD_CARD_URL"
    return missing_key(settings)


@stage("issue_card", payload=Order, needs=_needs)
def issue_card(order: Order, context: Context) -> Complete:
    """Issues through the provider; the job's context learns the last four digits only."""
    provider = card_provider(context)
    lookup = provider.lookup if provider.supports_lookup else None
    card = context.once("issue", lambda key: provider.issue(key, order), lookup=lookup)
    recorded = record_card(context, order, provider=provider.name, card=card)
    # A time that is past would look as if the mail were late; this run's start is a time of the database's clock.
    later = order.deliver_at if order.deliver_at and order.deliver_at > context.job.locked_at else None
    return Complete(context={"card_last4": recorded["last4"]}, next=(NextJob(stage="email", at=later),))
