"""Redaction of secrets and personal data in text that is stored, logged or returned."""

import re
from typing import Any

MAX_ERROR_LENGTH = 500

# Starts at a word boundary and never backtracks: otherwise a long text without an @ takes quadratic time.
_EMAIL = re.compile(r"(?<![^\s<>\"'(),;:@])[^\s<>\"'(),;:@]++@[^\s<>\"'(),;:@]+\.[^\s<>\"'(),;:@]+")
_CARD_NUMBER = re.compile(r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/]+@")
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
    """Return one line, up to `limit` characters, without secrets, mail addresses, card numbers and controls."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    text = _CONTROL.sub(" ", text)
    text = _URL_PASSWORD.sub("[secret]@", text)
    text = _BEARER.sub(r"\1 [secret]", text)
    text = _cover(text).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
