"""What came back from outside, and what of it may be kept."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from lib.errors import Failure, PermanentError, TransientError, is_permanent_status
from lib.telemetry.redact import clean

# More than this (bytes) is not read.
MOST_BYTES = 16_384
# More than this (bytes) is not kept.
KEPT_BYTES = 2_048
# Longer than any mail address or card number.
_LONGEST_MATTER = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of HTTP. Names of headers are in lower case. `whole`: the body ended within what was read of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool


def kept(answer: Answer, *, secrets: Sequence[str]) -> str:
    """The beginning of its body as one line of text, without secrets, personal data and control characters.

    Where the body goes on unread it could break off in the middle of a secret, which nobody would know for one: so
    much of its end falls away.
    """
    text, whole = _text(answer)
    cleaned = clean(text, secrets=list(secrets), limit=2 * MOST_BYTES)
    if not whole:
        cleaned = cleaned[: -max([_LONGEST_MATTER, *map(len, secrets)])]
    return cleaned.encode()[:KEPT_BYTES].decode(errors="ignore")


def _text(answer: Answer) -> tuple[str, bool]:
    """The body unpacked, and whether that is all of it. We ask for it unpacked; some servers pack it all the same."""
    packed = answer.headers.get("content-encoding", "identity").strip().lower()
    if packed == "identity":
        return answer.body.decode(errors="replace"), answer.whole
    if packed not in ("gzip", "x-gzip", "deflate"):
        return "", True
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        body = unpack.decompress(answer.body, MOST_BYTES)
    except zlib.error:
        return "", True
    return body.decode(errors="replace"), unpack.eof


def unwanted(answer: Answer, *, said: str, detail: dict[str, Any]) -> Failure:
    """What an answer is that was not wanted: permanent, or worth another try, not before it wants one."""
    if is_permanent_status(answer.status):
        return PermanentError(said, detail=detail)
    return TransientError(said, retry_after=retry_after(answer.headers), detail=detail)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The other side's wish in seconds, said as a number or as a date (RFC 9110, 10.2.3); measured on its own clock."""
    wish = headers.get("retry-after", "").strip()
    if wish.isascii() and wish.isdigit():
        return float(wish)
    until = _date(wish)
    if until is None:
        return None
    return max(0.0, (until - (_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
