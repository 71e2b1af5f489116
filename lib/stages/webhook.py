"""Tells an endpoint of an event."""

import time
from typing import Annotated

from pydantic import Field

from lib.config.settings import Settings
from lib.encryption import cipher, split_keys
from lib.errors import TransientError
from lib.job import Complete, Snooze
from lib.jobs.context import Context
from lib.jobs.stage import stage
from lib.safe_http import url as outside_url
from lib.safe_http.client import Request, call_with_detail
from lib.safe_http.response import failure_of_response
from lib.validation import Id, StrictModel
from lib.webhooks import signing

# A receiver that takes longer (seconds) shall answer first and work afterwards.
_PATIENCE = 15.0
_GONE = 410


class Message(StrictModel):
    """An event for an endpoint. `body` is sent as it is, byte for byte, at every attempt."""

    endpoint_id: Id
    event_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
    body: Annotated[str, Field(min_length=2, max_length=100_000)]


def _needs(settings: Settings) -> str | None:
    return None if settings.giftcard_encryption_keys else "GIFTCARD_ENCRYPTION_KEYS"


@stage(
    "webhook",
    payload=Message,
    delays_setting="giftcard_webhook_retry_seconds",
    ttr=30,
    threshold=10,
    needs=_needs,
    circuit_of=lambda message: f"webhook:{message.endpoint_id}",
)
def webhook(message: Message, context: Context) -> Complete | Snooze:
    """At least once, without `once()`: who gets a message twice knows it by its id.

    An endpoint that is off or gone wants the job cancelled, which happens when this run is settled.
    """
    target = context.store.webhook_target(context.job, endpoint_id=message.endpoint_id)
    if target is None:
        return Snooze(delay=0, waiting_for=f"webhook endpoint {message.endpoint_id}, which is off or gone")
    secrets = [_opened(secret, context.settings) for secret in target["secrets"]]
    url = outside_url.parse(target["url"])
    signed = signing.headers(message.event_id, message.body, secrets=secrets, at=target["at"])
    usual = {"Content-Type": "application/json", "User-Agent": "giftcard-jobs"}
    answer, detail = call_with_detail(
        Request(method="POST", url=url, headers=usual | signed, common={}, body=message.body.encode()),
        allowed=context.settings.giftcard_allowed_networks,
        until=min(time.monotonic() + _PATIENCE, context.until),
        follow=False,
        secrets=[*context.settings.secrets(), *secrets],
    )
    if answer.status == _GONE:
        context.store.disable_webhook_endpoint(message.endpoint_id, url=target["url"], reason="it answered 410 Gone")
    if not 200 <= answer.status <= 299:
        raise failure_of_response(answer, message=f"{url.host} answered {answer.status}", detail=detail)
    return Complete(detail=detail)


def _opened(sealed: str, settings: Settings) -> str:
    from cryptography.fernet import InvalidToken

    try:
        return cipher(split_keys(settings.giftcard_encryption_keys)).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise TransientError("no encryption key opens the endpoint's secret: is an older key missing?") from None
