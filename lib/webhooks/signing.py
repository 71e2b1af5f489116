"""Secrets and signature headers of Standard Webhooks, version 1.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

# Bytes; the specification requires 24 to 64.
_SECRET_LENGTH = 32


def new_secret() -> str:
    """Return a new secret: `whsec_` and base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_LENGTH)).decode()


def headers(event_id: str, body: str, *, secrets: Sequence[str], at: float) -> dict[str, str]:
    """Return the headers of a body, with a signature per secret. `at`: the Unix time of this attempt."""
    from standardwebhooks import Webhook

    time = datetime.fromtimestamp(int(at), UTC)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": " ".join(Webhook(secret).sign(event_id, time, body) for secret in secrets),
    }
