"""Square: its signature, the references of its payments, and the payment that an order waits for."""

import base64
import hashlib
import hmac

from lib.config.settings import Settings
from lib.errors import Pending, PermanentError
from lib.giftcards.money import format_money
from lib.giftcards.orders import Order
from lib.jobs.context import Context

PROVIDER = "square"

# https://developer.squareup.com/reference/square/payments-api/create-payment
_MAX_REFERENCE = 40


def missing_setting(settings: Settings) -> str | None:
    """Return the first setting that is missing to receive events. Orders are paid only by those of our merchant."""
    required: dict[str, object] = {
        "SQUARE_WEBHOOK_SIGNATURE_KEY": settings.square_webhook_signature_key,
        "SQUARE_WEBHOOK_URL": settings.square_webhook_url,
    }
    if settings.giftcard_payment_provider == PROVIDER:
        required |= {
            "SQUARE_MERCHANT_ID": settings.square_merchant_id,
            "SQUARE_LOCATION_ID": settings.square_location_id,
        }
    return next((name for name, value in required.items() if not value), None)


def is_signed(signature: str, *, key: str, url: str, body: bytes) -> bool:
    """Return whether Square has signed this body for this URL: HMAC-SHA256 over both, in base64.

    https://developer.squareup.com/docs/webhooks/step3validate
    """
    expected = base64.b64encode(hmac.new(key.encode(), url.encode() + body, hashlib.sha256).digest())
    # WSGI decodes headers as Latin-1.
    return hmac.compare_digest(signature.encode("latin-1", "backslashreplace"), expected)


def find_payment(order: Order, context: Context) -> str:
    """Return Square's id of a payment that the job's order can accept.

    Raises:
        Pending: there is none (yet). What was paid instead is a line of the reconciliation.
        PermanentError: no payment at Square can name this order.
    """
    _check_reference(context)
    offered = context.store.find_offered_payment(context.job, provider=PROVIDER)
    reference: str | None = offered["reference"]
    if reference is None:
        awaited = f"the payment of {format_money(order.amount.amount, order.amount.currency)} at Square"
        instead = offered["instead"]
        raise Pending(f"{awaited}: {format_money(**instead)} were paid instead" if instead else awaited)
    return reference


def _check_reference(context: Context) -> None:
    reference = context.settings.square_reference_prefix + context.job.correlation_id
    if len(reference) > _MAX_REFERENCE:
        raise PermanentError(
            f"the order cannot be paid at Square: its reference would have {len(reference)} characters, Square allows "
            f"{_MAX_REFERENCE}; submit it again with a shorter correlation id"
        )
