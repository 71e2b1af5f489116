"""Takes the money, once."""

from lib.context import Context
from lib.giftcards.books import record_payment
from lib.giftcards.orders import Order
from lib.giftcards.providers import payments
from lib.job import Complete, NextJob
from lib.policy import RetryPolicy
from lib.settings import Settings
from lib.stages import stage


def _needs(settings: Settings) -> str | None:
    chosen = settings.giftcard_payment_provider == "http"
    return "GIFTCARD_PAYMENT_URL" if chosen and not settings.giftcard_payment_url else None


@stage(
    "payment",
    payload=Order,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_payment_retry_attempts",
    needs=_needs,
)
def payment(order: Order, context: Context) -> Complete:
    """After a timeout nobody knows whether the money is taken: the same key asks again."""
    provider = payments(context)
    lookup = provider.lookup if provider.answers_lookups else None
    taken = context.once("charge", lambda key: provider.charge(key, order), lookup=lookup)
    # A person who decided that it happened (giftcard_decide_effect) knows the reference, not the key.
    key = taken.get("key") or f"decided:{context.job.id}"
    record_payment(context, order, key=key, provider=provider.name, reference=taken["reference"])
    return Complete(context={"payment": taken["reference"]}, next=(NextJob(stage="issue_card"),))
