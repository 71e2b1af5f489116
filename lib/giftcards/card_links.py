"""Links to the customer's page of an order: `<public URL>/o/<token>`.

A token is the order's page id and its signature under a key derived from `GIFTCARD_ENCRYPTION_KEYS`: 24 bytes, in
base64url. The database knows the id alone, and cannot make a link. A link works as long as the key that signed it is
among the keys.
"""

import base64
import re

from lib.config.settings import Settings
from lib.encryption import Signer, split_keys
from lib.giftcards.cards import missing_key

_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")
_ID_BYTES = 8


def is_on(settings: Settings) -> bool:
    """Return whether orders have a page: unless it is switched off, with a public URL and the keys of cards."""
    return settings.giftcard_customer_page and settings.public_url is not None and missing_key(settings) is None


def page_url(page_id: int, settings: Settings) -> str | None:
    """Return the link to the page of an order; None: orders have none."""
    if not is_on(settings):
        return None
    content = page_id.to_bytes(_ID_BYTES, signed=True)
    token = base64.urlsafe_b64encode(content + _signer(settings).sign(content)).decode()
    return f"{settings.public_url}/o/{token}"


def page_id_of(token: str, settings: Settings) -> int | None:
    """Return the page id of a token; None: it is none of ours. Any token of 32 characters takes the same time."""
    known = _TOKEN.fullmatch(token) is not None
    decoded = base64.urlsafe_b64decode(token) if known else bytes(_ID_BYTES)
    content, signature = decoded[:_ID_BYTES], decoded[_ID_BYTES:]
    return int.from_bytes(content, signed=True) if _signer(settings).accepts(content, signature) else None


def _signer(settings: Settings) -> Signer:
    return Signer(split_keys(settings.giftcard_encryption_keys), purpose="card page")
