"""Redaction of secrets and personal data in text that is stored, logged or returned."""

import re
from typing import Any

MAX_ERROR_LENGTH = 500
# So many times its limit is read of a text; and the longest number of a card, with a gap after each digit.
_REACH = 8
_LONGEST_CARD = 40

# Starts at a word boundary and never backtracks: otherwise a long text without an @ takes quadratic time.
_EMAIL = re.compile(r"(?<![^\s<>\"'(),;:@])[^\s<>\"'(),;:@]++@[^\s<>\"'(),;:@]+\.[^\s<>\"'(),;:@]+")
_CARD_NUMBER = re.compile(r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/]+@")
_GAP = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+|[\ud800-\udfff]")


def covered(value: Any) -> Any:
    """Return a JSON value with its mail addresses and card numbers covered."""
    if isinstance(value, dict):
        return {name: covered(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [covered(inner) for inner in value]
    return _cover(value) if isinstance(value, str) else value


def _cover(text: str) -> str:
    text = _EMAIL.sub("[email]", text)
    return _CARD_NUMBER.sub(lambda match: f"[card …{re.sub(r'[^0-9]', '', match[0])[-4:]}]", text)


def clean(text: str, *, secrets: list[str], limit: int = MAX_ERROR_LENGTH) -> str:
    """Return one line, up to `limit` characters, without secrets, mail addresses, card numbers and controls.

    A text that is much longer is cut first: cleaning takes the same time for any length.
    """
    head = text[: _end(text, secrets, reach=_REACH * limit)]
    is_cut = len(head) < len(text)
    for secret in secrets:
        head = head.replace(secret, "[secret]")
    head = _CONTROL.sub(" ", head)
    if is_cut:
        # The number of a card may go on behind the cut.
        head = head[:-_LONGEST_CARD] + head[-_LONGEST_CARD:].rstrip("0123456789 -")
    head = _URL_PASSWORD.sub("[secret]@", head)
    head = _BEARER.sub(r"\1 [secret]", head)
    head = _cover(head).strip()
    return head if len(head) <= limit and not is_cut else head[: limit - 1] + "…"


def _end(text: str, secrets: list[str], *, reach: int) -> int:
    """Return where to cut a text: behind the word at `reach`, and through no secret."""
    if len(text) <= reach:
        return len(text)
    gap = _GAP.search(text, reach, 2 * reach)
    if gap:
        end = gap.start()
    else:
        # A long word. If an @ follows, its beginning may be an address or a password.
        end = reach if text.find("@", reach) < 0 else max(match.start() for match in _GAP.finditer("\n" + text[:reach]))
    while starts := [at for secret in secrets if (at := _straddles(text, secret, end)) >= 0]:
        end = min(starts)
    return end


def _straddles(text: str, secret: str, end: int) -> int:
    """Return where the secret begins that goes on behind `end`; -1 if there is none."""
    return text.find(secret, max(0, end - len(secret) + 1), end + len(secret) - 1) if len(secret) > 1 else -1
