"""The response to a checked call: its excerpt for storage, and its failure."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from lib.errors import Failure, PermanentError, TransientError, is_permanent_status
from lib.telemetry.redact import clean

# At most so many bytes of a body are read …
MAX_READ_BYTES = 16_384
# … and at most so many are stored.
MAX_STORED_BYTES = 2_048
# Longer than any mail address or card number (characters).
_MAX_SENSITIVE_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response. Header names are in lower case. `complete`: the whole body was read. `redirects`: their number
    before it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool
    redirects: int = 0


def excerpt(response: Response, *, secrets: Sequence[str]) -> str:
    """Return the start of the body as one line, without secrets, personal data and control characters.

    An incomplete body may break off inside a secret, which would not be recognized: its end is cut off.
    """
    text, complete = _text(response)
    cleaned = clean(text, secrets=list(secrets), limit=2 * MAX_READ_BYTES)
    if not complete:
        cleaned = cleaned[: -max([_MAX_SENSITIVE_LENGTH, *map(len, secrets)])]
    return cleaned.encode()[:MAX_STORED_BYTES].decode(errors="ignore")


def _text(response: Response) -> tuple[str, bool]:
    """Return the decompressed body, and whether it is complete. Some servers compress it although not asked to."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return response.body.decode(errors="replace"), response.complete
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return "", True
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        body = decompressor.decompress(response.body, MAX_READ_BYTES)
    except zlib.error:
        return "", True
    return body.decode(errors="replace"), decompressor.eof


def failure_of_response(response: Response, *, message: str, detail: dict[str, Any]) -> Failure:
    """Return the failure of an unexpected response: permanent by its status, or transient with its Retry-After."""
    if is_permanent_status(response.status):
        return PermanentError(message, detail=detail)
    return TransientError(message, retry_after=retry_after(response.headers), detail=detail)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return Retry-After in seconds, from a number or a date (RFC 9110, 10.2.3) relative to the server's clock."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    until = _date(value)
    if until is None:
        return None
    return max(0.0, (until - (_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
