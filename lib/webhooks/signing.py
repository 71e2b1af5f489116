"""Secrets of webhook endpoints, and the headers by which receivers know us: Standard Webhooks, version 1.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

# Bytes; the specification wants 24 to 64.
_SECRET_LENGTH = 32


def new_secret() -> str:
    """A secret as receivers take it: `whsec_` and base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_LENGTH)).decode()


def headers(event_id: str, body: str, *, secrets: Sequence[str], at: float) -> dict[str, str]:
    """What goes with a body. `at`: the time of this attempt in seconds; one signature for each secret."""
    from standardwebhooks import Webhook

    time = datetime.fromtimestamp(int(at), UTC)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": " ".join(Webhook(secret).sign(event_id, time, body) for secret in secrets),
    }
