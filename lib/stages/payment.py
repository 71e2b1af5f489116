"""The stage payment: charge for the order, once."""

from lib.config.settings import Settings
from lib.errors import Pending, PermanentError, TransientError
from lib.giftcards import square
from lib.giftcards.books import take_order
from lib.giftcards.flow import completed
from lib.giftcards.ledger import record_payment
from lib.giftcards.orders import Order
from lib.giftcards.providers import payment_provider
from lib.job import Complete, Snooze
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage

# Seconds between checks for a payment. Its event makes the waiting job due at once.
_CHECK_INTERVAL = 86_400.0
# Seconds until a provider that has not decided is asked again.
_PENDING_INTERVAL = 60.0


def _missing_setting(settings: Settings) -> str | None:
    if settings.giftcard_payment_provider == square.PROVIDER:
        return square.missing_setting(settings)
    chosen = settings.giftcard_payment_provider == "http"
    return "GIFTCARD_PAYMENT_URL" if chosen and not settings.giftcard_payment_url else None


@stage(
    "payment",
    payload=Order,
    policy=RetryPolicy(base=1, cap=60, jitter=0.3),
    attempts_setting="max_payment_retry_attempts",
    needs=_missing_setting,
)
def payment(payload: Order, context: Context) -> Complete | Snooze:
    """Charge what the order costs, unless it is paid or free of charge. A retry repeats the charge with the same key.

    With Square, wait for the payment that the customer makes there.
    """
    books = take_order(context, payload)
    if books.payment:
        return completed(context, books.order, payment=books.payment["reference"])
    if books.free_of_charge:
        return completed(context, books.order, payment="free of charge")
    if context.settings.giftcard_payment_provider == square.PROVIDER:
        return _await_square(books.order, context)
    return _charge(books.order, context)


def _charge(order: Order, context: Context) -> Complete | Snooze:
    provider = payment_provider(context)

    def lookup(key: str) -> dict[str, str] | None:
        return provider.lookup(key, order)

    try:
        charge = context.once(
            "charge",
            lambda key: provider.charge(key, order),
            lookup=lookup if provider.supports_lookup else None,
            of_flow=True,
        )
    except Pending as pending:
        return Snooze(delay=_PENDING_INTERVAL, waiting_for=str(pending))
    if "decided_by" in charge:  # an operator found it at the provider: no run has recorded it
        record_payment(context, order, key=charge["key"], provider=provider.name, reference=charge["reference"])
    return completed(context, order, payment=charge["reference"])


def _await_square(order: Order, context: Context) -> Complete | Snooze:
    """Check for the payment that the customer makes at Square. Square sends its event, so there is no effect here."""
    try:
        reference = square.find_payment(order, context)
    except Pending as pending:
        return Snooze(delay=_CHECK_INTERVAL, waiting_for=str(pending))
    try:
        record_payment(context, order, key=f"square:{reference}", provider=square.PROVIDER, reference=reference)
    except PermanentError as refused:
        # It went back since it was found: a retry waits for the next payment.
        raise TransientError(str(refused), counts=False) from None
    return completed(context, order, payment=reference)
