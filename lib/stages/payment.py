"""The stage payment: charge for the order, once."""

from lib.config.settings import Settings
from lib.giftcards.ledger import record_payment
from lib.giftcards.orders import Order
from lib.giftcards.providers import payment_provider
from lib.giftcards.square import find_payment
from lib.job import Complete, NextJob, Snooze
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage

# Seconds between checks for a payment. Its event makes the waiting job due at once.
_CHECK_INTERVAL = 86_400.0


def _missing_setting(settings: Settings) -> str | None:
    if settings.giftcard_payment_provider == "square" and not settings.square_webhook_signature_key:
        return "SQUARE_WEBHOOK_SIGNATURE_KEY"
    chosen = settings.giftcard_payment_provider == "http"
    return "GIFTCARD_PAYMENT_URL" if chosen and not settings.giftcard_payment_url else None


@stage(
    "payment",
    payload=Order,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_payment_retry_attempts",
    needs=_missing_setting,
)
def payment(order: Order, context: Context) -> Complete | Snooze:
    """Charge through the provider, or wait for the payment at Square. A retry repeats the charge with the same key."""
    if context.settings.giftcard_payment_provider == "square":
        return _await_square(order, context)
    provider = payment_provider(context)
    lookup = provider.lookup if provider.supports_lookup else None
    charge = context.once("charge", lambda key: provider.charge(key, order), lookup=lookup)
    # An operator's decision (giftcard_decide_effect) has the reference, but no key.
    key = charge.get("key") or f"decided:{context.job.id}"
    record_payment(context, order, key=key, provider=provider.name, reference=charge["reference"])
    return _done(charge["reference"])


def _await_square(order: Order, context: Context) -> Complete | Snooze:
    """Check for the payment that the customer makes at Square. Square sends its event, so there is no effect here."""
    reference = find_payment(order, context)
    if reference is None:
        return Snooze(delay=_CHECK_INTERVAL, waiting_for="the payment event from Square")
    record_payment(context, order, key=f"square:{reference}", provider="square", reference=reference)
    return _done(reference)


def _done(reference: str) -> Complete:
    return Complete(context={"payment": reference}, next=(NextJob(stage="issue_card"),))
