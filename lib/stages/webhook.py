"""The stage webhook: deliver an event to an endpoint."""

import time
from typing import Annotated

from pydantic import Field

from lib.config.settings import Settings
from lib.errors import PermanentError
from lib.job import Complete, Snooze
from lib.jobs.context import Context
from lib.jobs.stage import stage
from lib.safe_http import url as http_url
from lib.safe_http.client import Request, call_with_detail
from lib.safe_http.response import failure_of_response
from lib.validation import Id, Matching, StrictModel
from lib.webhooks import signing
from lib.webhooks.secrets import place_of, secret_cipher

# Receivers should respond before they start long work.
_TIMEOUT_SECONDS = 15.0
_GONE = 410


class Message(StrictModel):
    """An event for an endpoint. Every attempt sends the same `body`, byte for byte."""

    endpoint_id: Id
    event_id: Annotated[
        str, Matching(r"^[A-Za-z0-9_-]{1,100}$", "must be an id of up to 100 letters, digits, - and _, like evt_42")
    ]
    body: Annotated[str, Field(min_length=2, max_length=100_000)]


def _missing_setting(settings: Settings) -> str | None:
    return None if settings.giftcard_encryption_keys else "GIFTCARD_ENCRYPTION_KEYS"


@stage(
    "webhook",
    payload=Message,
    delays_setting="giftcard_webhook_retry_seconds",
    ttr=30,
    threshold=10,
    needs=_missing_setting,
    circuit_of=lambda message: f"webhook:{message.endpoint_id}",
)
def webhook(message: Message, context: Context) -> Complete | Snooze:
    """Deliver a message at least once, without `once()`: receivers detect duplicates by its id.

    If the endpoint is disabled or deleted, the settle of this run cancels the job.
    """
    if context.job.source != "app":
        raise PermanentError("plain SQL has written this webhook: it is not signed as an event")
    target = context.store.webhook_target(context.job, endpoint_id=message.endpoint_id)
    if target is None:
        return Snooze(delay=0, waiting_for=f"webhook endpoint {message.endpoint_id}, which is disabled or deleted")
    cipher, place = secret_cipher(context.settings), place_of(context.job.tenant_id, message.endpoint_id)
    secrets = [cipher.decrypt(secret, place) for secret in target["secrets"]]
    url = _checked(target["url"], context.settings)
    signed = signing.headers(message.event_id, message.body, secrets=secrets, at=target["at"])
    own = {"Content-Type": "application/json", "User-Agent": "giftcard-jobs"}
    response, detail = call_with_detail(
        Request(method="POST", url=url, headers=own | signed, common={}, body=message.body.encode()),
        allowed=context.settings.giftcard_allowed_networks,
        until=min(time.monotonic() + _TIMEOUT_SECONDS, context.until),
        follow=False,
        secrets=[*context.settings.secrets(), *secrets],
    )
    if response.status == _GONE:
        context.store.disable_webhook_endpoint(message.endpoint_id, url=target["url"], reason="it answered 410 Gone")
    if not 200 <= response.status <= 299:
        raise failure_of_response(response, message=f"{url.host} answered {response.status}", detail=detail)
    return Complete(detail=detail)


def _checked(text: str, settings: Settings) -> http_url.Url:
    """Return the endpoint's URL. One from before the rule, or written by SQL, may be in clear."""
    url = http_url.parse(text)
    try:
        http_url.check_encrypted(url, environment=settings.environment)
    except ValueError as error:
        raise PermanentError(f"the URL of the endpoint {error}") from None
    return url
