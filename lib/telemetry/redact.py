"""Takes secrets and personal data out of text that is stored, logged or shown."""

import re
from typing import Any

MAX_ERROR_LENGTH = 500

# It begins where a word begins and never looks back: without that, a long text without an @ takes its length squared.
_EMAIL = re.compile(r"(?<![^\s<>\"'(),;:@])[^\s<>\"'(),;:@]++@[^\s<>\"'(),;:@]+\.[^\s<>\"'(),;:@]+")
_CARD_NUMBER = re.compile(r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_URL_PASSWORD = re.compile(r"(?<=://)[^\s/]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+|[\ud800-\udfff]")


def covered(value: Any) -> Any:
    """The same JSON value with mail addresses and card numbers covered, for showing."""
    if isinstance(value, dict):
        return {name: covered(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [covered(inner) for inner in value]
    return _cover(value) if isinstance(value, str) else value


def _cover(text: str) -> str:
    text = _EMAIL.sub("[email]", text)
    return _CARD_NUMBER.sub(lambda match: f"[card …{re.sub(r'[^0-9]', '', match[0])[-4:]}]", text)


def clean(text: str, *, secrets: list[str], limit: int = MAX_ERROR_LENGTH) -> str:
    """One line without secrets, mail addresses, card numbers and control characters, at most `limit` characters."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    text = _CONTROL.sub(" ", text)
    text = _URL_PASSWORD.sub("[secret]@", text)
    text = _BEARER.sub(r"\1 [secret]", text)
    text = _cover(text).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
