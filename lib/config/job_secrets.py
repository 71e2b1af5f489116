"""Defines `GIFTCARD_SECRET_<NAME>`: secrets of jobs.

A job refers to a secret as `{{secret:NAME}}`, which is replaced only when the call is sent.
"""

import html
import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

from pydantic import SecretStr

from lib.errors import SettingsError, TransientError

# Characters. A shorter secret could not be redacted: it would match other text.
_LENGTHS = range(8, 4_097)

_NAME = "[A-Z][A-Z0-9_]{0,62}"
VARIABLE = re.compile(f"GIFTCARD_SECRET_({_NAME})")
_REFERENCE = re.compile(rf"\{{\{{secret:({_NAME})\}}\}}")
_ALMOST_REFERENCE = re.compile(r"\{\{\s*secret\b", re.IGNORECASE)


def read(environ: Mapping[str, str]) -> dict[str, SecretStr]:
    """Return the secrets by name. Raise SettingsError for the first invalid one."""
    secrets = {}
    for variable, value in environ.items():
        match = VARIABLE.fullmatch(variable)
        if match and value.strip():
            if len(value.strip()) not in _LENGTHS:
                raise SettingsError(f"{variable}: a secret must have {_LENGTHS[0]} to {_LENGTHS[-1]} characters")
            secrets[match[1]] = SecretStr(value.strip())
    return secrets


def check(text: str) -> None:
    """Validate the references in a text.

    Raises:
        ValueError: a reference is malformed; safe to return to clients.
    """
    if _ALMOST_REFERENCE.search(_REFERENCE.sub(" ", text)):
        raise ValueError("must refer to a secret like {{secret:NAME}}, in capitals, digits and underscores")


def named_in(text: str) -> bool:
    """Return whether a text refers to a secret."""
    return _REFERENCE.search(text) is not None


def filled(text: str, secrets: Mapping[str, SecretStr], *, written: Callable[[str], str] = str) -> str:
    """Replace the references in a text with their secrets, each encoded by `written`.

    Raises:
        TransientError: a secret is not set; the deployment is at fault, not the job.
    """

    def value(match: re.Match[str]) -> str:
        secret = secrets.get(match[1])
        if secret is None:
            raise TransientError(f"the secret {match[1]} is not set: set GIFTCARD_SECRET_{match[1]}", counts=False)
        return written(secret.get_secret_value())

    return _REFERENCE.sub(value, text)


def in_json(secret: str) -> str:
    """Escape a secret for use within a JSON string."""
    return json.dumps(secret)[1:-1]


def forms(secret: str) -> set[str]:
    """Return all forms in which a response may repeat a secret: plain, in JSON, in a URL, in HTML."""
    plain_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {
        secret,
        in_json(secret),
        plain_json,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        html.escape(secret),
    }
