"""The stage block_card: block a card at its provider.

The books enqueue it for a card that is not paid for any more, and operators for any card.
"""

from lib.config.settings import Settings
from lib.errors import Pending, PermanentError
from lib.giftcards.providers import block_provider
from lib.job import Complete, Snooze
from lib.jobs.context import Context
from lib.jobs.stage import stage
from lib.validation import StrictModel

# Seconds until a provider that has not decided is asked again.
_PENDING_INTERVAL = 60.0


class Block(StrictModel):
    """The block of a card. `force`: an operator wants it, whatever the books have of the order's payment."""

    force: bool = False


def _missing_setting(settings: Settings) -> str | None:
    if settings.giftcard_card_provider == "http" and not settings.giftcard_card_url:
        return "GIFTCARD_CARD_URL"
    return None


@stage("block_card", payload=Block, needs=_missing_setting)
def block_card(payload: Block, context: Context) -> Complete | Snooze:
    """Block the card of the job's order. Without `force`: unless the order is paid again meanwhile."""
    flow = context.job.tenant_id, context.job.correlation_id
    books = context.store.books(*flow)
    if books is None or books["card"] is None:
        raise PermanentError("the order has no card to block")
    card = books["card"]
    if card["unpaid"] == 0 and not books["order"]["cancelled"] and not payload.force:
        return Complete(detail={"blocked": False, "reason": "the order is paid"})
    provider = block_provider(context, card["provider"])
    try:
        blocked = context.once("block", lambda key: provider.block(key, card["reference"]), repeatable=True)
    except Pending as pending:
        return Snooze(delay=_PENDING_INTERVAL, waiting_for=str(pending))
    after = context.store.block_card(*flow, balance=blocked["balance"])
    return Complete(detail={"blocked": True, "spent": max(0, after["amount"] - after["balance"])})
