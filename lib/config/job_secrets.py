"""Secrets that jobs name and nobody sees: `{{secret:NAME}}` stands for `GIFTCARD_SECRET_NAME` until a call is made."""

import html
import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

from pydantic import SecretStr

from lib.errors import SettingsError, TransientError

# A shorter one could not be told from other text, and so not be kept out of it.
_LENGTHS = range(8, 4_097)

_NAME = "[A-Z][A-Z0-9_]{0,62}"
VARIABLE = re.compile(f"GIFTCARD_SECRET_({_NAME})")
_MARK = re.compile(rf"\{{\{{secret:({_NAME})\}}\}}")
_LIKE_A_MARK = re.compile(r"\{\{\s*secret\b", re.IGNORECASE)


def said_in(environ: Mapping[str, str]) -> dict[str, SecretStr]:
    """The secrets by name. Raises SettingsError for the first that is wrong."""
    found = {}
    for variable, value in environ.items():
        match = VARIABLE.fullmatch(variable)
        if match and value.strip():
            if len(value.strip()) not in _LENGTHS:
                raise SettingsError(f"{variable}: a secret has {_LENGTHS[0]} to {_LENGTHS[-1]} characters")
            found[match[1]] = SecretStr(value.strip())
    return found


def check(text: str) -> None:
    """Refuses what looks like the name of a secret and is none.

    Raises:
        ValueError: fit for answers.
    """
    if _LIKE_A_MARK.search(_MARK.sub(" ", text)):
        raise ValueError("must name a secret like {{secret:NAME}}, in capitals, digits and underscores")


def named_in(text: str) -> bool:
    """Whether it names a secret."""
    return _MARK.search(text) is not None


def filled(text: str, secrets: Mapping[str, SecretStr], *, written: Callable[[str], str] = str) -> str:
    """The text with its secrets in place, each as `written` makes it fit there.

    Raises:
        TransientError: one is not set. That is a fault of this deployment and not of the job.
    """

    def value(match: re.Match[str]) -> str:
        secret = secrets.get(match[1])
        if secret is None:
            raise TransientError(f"the secret {match[1]} is not set: GIFTCARD_SECRET_{match[1]}", counts=False)
        return written(secret.get_secret_value())

    return _MARK.sub(value, text)


def in_json(secret: str) -> str:
    """As it stands between the quotes of JSON."""
    return json.dumps(secret)[1:-1]


def forms(secret: str) -> set[str]:
    """How others may write it when they repeat it: in JSON, in an address, on a page."""
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
