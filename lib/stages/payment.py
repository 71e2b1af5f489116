"""Takes the money, once."""

from lib.config.settings import Settings
from lib.giftcards.ledger import record_payment
from lib.giftcards.orders import Order
from lib.giftcards.providers import payment_provider
from lib.giftcards.square import find_payment
from lib.job import Complete, NextJob, Snooze
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage

# Whoever waits for a payment is woken by it: this is how often (seconds) it looks by itself.
_LOOK_AGAIN = 86_400.0


def _needs(settings: Settings) -> str | None:
    if settings.giftcard_payment_provider == "square" and not settings.square_webhook_signature_key:
        return "SQUARE_WEBHOOK_SIGNATURE_KEY"
    chosen = settings.giftcard_payment_provider == "http"
    return "GIFTCARD_PAYMENT_URL" if chosen and not settings.giftcard_payment_url else None


@stage(
    "payment",
    payload=Order,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_payment_retry_attempts",
    needs=_needs,
)
def payment(order: Order, context: Context) -> Complete | Snooze:
    """After a timeout nobody knows whether the money is taken: the same key asks again."""
    if context.settings.giftcard_payment_provider == "square":
        return _paid_at_square(order, context)
    provider = payment_provider(context)
    lookup = provider.lookup if provider.supports_lookup else None
    taken = context.once("charge", lambda key: provider.charge(key, order), lookup=lookup)
    # A person who decided that it happened (giftcard_decide_effect) knows the reference, not the key.
    key = taken.get("key") or f"decided:{context.job.id}"
    record_payment(context, order, key=key, provider=provider.name, reference=taken["reference"])
    return _done(taken["reference"])


def _paid_at_square(order: Order, context: Context) -> Complete | Snooze:
    """The customer pays there, and an event tells of it: nothing is asked for, so there is no effect of ours."""
    reference = find_payment(order, context)
    if reference is None:
        return Snooze(delay=_LOOK_AGAIN, waiting_for="the payment, of which Square sends an event")
    record_payment(context, order, key=f"square:{reference}", provider="square", reference=reference)
    return _done(reference)


def _done(reference: str) -> Complete:
    return Complete(context={"payment": reference}, next=(NextJob(stage="issue_card"),))
