"""Makes the card, once."""

from lib.context import Context
from lib.giftcards.orders import Order
from lib.giftcards.providers import cards, record_card
from lib.job import Complete, NextJob
from lib.settings import Settings
from lib.stages import stage


def _needs(settings: Settings) -> str | None:
    if settings.giftcard_encryption_keys is None:
        return "GIFTCARD_ENCRYPTION_KEYS"
    if settings.giftcard_lookup_key is None:
        return "GIFTCARD_LOOKUP_KEY"
    chosen = settings.giftcard_card_provider == "http"
    return "GIFTCARD_CARD_URL" if chosen and not settings.giftcard_card_url else None


@stage("issue_card", payload=Order, needs=_needs)
def issue_card(order: Order, context: Context) -> Complete:
    """Issues through the provider; the job's context learns the last four digits only."""
    provider = cards(context)
    card = context.once("issue", lambda key: provider.issue(key, order), lookup=provider.lookup)
    recorded = record_card(context, order, provider=provider.name, card=card)
    return Complete(context={"card_last4": recorded["last4"]}, next=(NextJob(stage="email", at=order.deliver_at),))
