"""Defines the formats of values: URLs, keys, networks, lists. Each parser raises ValueError for an invalid text.

No message repeats a part of the value: it may be a secret that got into the wrong variable.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationInfo

from lib.config.transport import environment_of

# ASCII only, so that every mail server accepts it: a domain in another script needs its xn-- form.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAIL_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*")
# A queue name that pgmq accepts and that never needs quotes, the name of a stage, and that of a tenant.
_PGMQ_QUEUE = re.compile(r"([A-Za-z0-9_-]{1,47}):([a-z][a-z0-9_]{0,62})(?::([^,:\x00-\x1f\x7f-\x9f]{1,200}))?")
_LOCALE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")
_SQUARE_ID = re.compile(r"[A-Za-z0-9_-]{1,50}")
_LEAST_AMOUNT = re.compile(r"([A-Z]{3}):([1-9][0-9]{0,9})")
MAX_RECIPIENTS = 20


class Url(Protocol):
    """A typed URL, made of its text by the rule of transport."""

    def __call__(self, text: str, *, environment: str) -> Any: ...


def url_of(kind: Url) -> Callable[[Any, ValidationInfo], Any]:
    """Return the parser of a kind of URLs."""

    def parse(value: Any, info: ValidationInfo) -> Any:
        environment = environment_of(info.data.get("giftcard_env"), info.data.get("vercel_env"))
        return kind(value, environment=environment) if isinstance(value, str) else value

    return parse


def bare(text: str) -> str:
    """Return a text without the spaces, line breaks and quotes around it."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text


def stripped(values: Any) -> Any:
    """Strip all texts by field, and leave out those that are empty then, and POSTGRES_URL beside DATABASE_URL."""
    if not isinstance(values, dict):
        return values
    found = {name: bare(value) if isinstance(value, str) else value for name, value in values.items()}
    if found.get("cron_secret"):
        # Vercel sends it as it is, with its quotes.
        found["cron_secret"] = values["cron_secret"].strip()
    if found.get("database_url"):
        found.pop("postgres_url", None)
    return {name: value for name, value in found.items() if value != ""}


def key(value: Any) -> Any:
    """Parse a key for an HTTP header: HTTP clients repeat an invalid value in their message."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[!-~]+", value.strip()):
        raise ValueError("must be a key as copied from Supabase, without spaces")
    return value.strip()


def networks(value: Any) -> Any:
    """Split `10.0.0.0/8,fd00::/8`."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def recipients(value: Any) -> Any:
    """Parse comma-separated mail addresses."""
    if not isinstance(value, str):
        return value
    addresses = alert_recipients(value)
    for number, address in enumerate(addresses, start=1):
        if not is_mail_address(address):
            raise ValueError(f"address {number} must be like name@example.com; separate addresses with commas")
    if len(addresses) > MAX_RECIPIENTS:
        raise ValueError(f"{len(addresses)} addresses are too many: use up to {MAX_RECIPIENTS}, or a mailing list")
    return addresses


def alert_recipients(value: Any) -> Any:
    """Split comma-separated mail addresses, valid or not: an alert to one that is not must not stop everything."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def is_mail_address(text: str) -> bool:
    """Return whether a text is a mail address that every server accepts."""
    return _MAIL_ADDRESS.fullmatch(text) is not None and len(text) <= 254


class PgmqQueue(NamedTuple):
    """A pgmq queue: what its messages become, whatever they hold."""

    name: str
    stage: str
    tenant_id: str


def pgmq_queues(value: Any) -> Any:
    """Parse comma-separated queues, each with its stage and perhaps its tenant, `email_queue:email:acme`."""
    if not isinstance(value, str):
        return value
    queues: dict[str, PgmqQueue] = {}
    for position, part in enumerate(filter(None, map(str.strip, value.split(","))), start=1):
        match = _PGMQ_QUEUE.fullmatch(part)
        if not match or (match[3] or "").strip() != (match[3] or ""):
            raise ValueError("must be queues with stage and tenant, like email_queue:email,payments_queue:payment:acme")
        if match[2] == "webhook":
            raise ValueError(f"gives queue {position} the stage webhook, whose jobs only the database enqueues")
        # pgmq names tables in lower case.
        if match[1].lower() in queues:
            raise ValueError("names a queue twice")
        queues[match[1].lower()] = PgmqQueue(match[1], match[2], match[3] or "default")
    return tuple(queues.values())


def locale(value: Any) -> Any:
    """Parse a language tag: a language, perhaps with script and region."""
    if isinstance(value, str) and not _LOCALE.fullmatch(value):
        raise ValueError("must be a language tag like de or en-GB")
    return value


def square_id(value: Any) -> Any:
    """Parse an id of Square."""
    if not isinstance(value, str):
        return value
    if not _SQUARE_ID.fullmatch(value.strip()):
        raise ValueError("must be an id as copied from Square, like S8GWD5R9QB376")
    return value.strip()


def square_ids(value: Any) -> Any:
    """Parse comma-separated ids of Square."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(map(square_id, filter(None, map(str.strip, value.split(","))))))


def least_amounts(value: Any) -> Any:
    """Parse comma-separated pairs of currency and minor units, `USD:500,EUR:500`."""
    if not isinstance(value, str):
        return value
    amounts: dict[str, int] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        match = _LEAST_AMOUNT.fullmatch(part)
        if not match:
            raise ValueError("must be pairs of currency and minor units, like USD:500,EUR:500")
        if match[1] in amounts:
            raise ValueError("names a currency twice")
        amounts[match[1]] = int(match[2])
    return tuple(amounts.items())
