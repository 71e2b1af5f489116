"""Defines the formats of values: URLs, networks, lists. Each parser raises ValueError for an invalid text.

No message repeats a part of the value: it may be a secret that got into the wrong variable.
"""

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationInfo

from lib.config.cleaning import bare, check_text, items
from lib.config.mail_address import mail_address
from lib.config.transport import environment_of

# A queue name that pgmq accepts and that never needs quotes, the name of a stage, and that of a tenant.
_PGMQ_QUEUE = re.compile(r"([A-Za-z0-9_-]{1,47}):([a-z][a-z0-9_]{0,62})(?::([^,:\x00-\x1f\x7f-\x9f]{1,200}))?")
_LOCALE = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.IGNORECASE | re.ASCII)
_SQUARE_ID = re.compile(r"[A-Za-z0-9_-]{1,50}")
_TENANT_WEIGHT = re.compile(r"([^,;\x00-\x1f\x7f-\x9f]{1,200})=([1-9][0-9]?|100)")
_LEAST_AMOUNT = re.compile(r"([A-Z]{3}):([1-9][0-9]{0,9})")
MAX_RECIPIENTS = 20
# Each tick stores them.
_MAX_WEIGHTS = 100


class Url(Protocol):
    """A typed URL, made of its text by the rule of transport."""

    def __call__(self, text: str, *, environment: str) -> Any: ...


def url_of(kind: Url) -> Callable[[Any, ValidationInfo], Any]:
    """Return the parser of a kind of URLs."""

    def parse(value: Any, info: ValidationInfo) -> Any:
        environment = environment_of(info.data.get("giftcard_env"), info.data.get("vercel_env"))
        return kind(value, environment=environment) if isinstance(value, str) else value

    return parse


def stripped(values: Any) -> Any:
    """Clean all texts by field, and leave out those that are empty then, and POSTGRES_URL beside DATABASE_URL."""
    if not isinstance(values, dict):
        return values
    found = {name: bare(value) if isinstance(value, str) else value for name, value in values.items()}
    if found.get("cron_secret"):
        # Vercel sends it as it is, with its quotes.
        found["cron_secret"] = values["cron_secret"].strip()
    if found.get("database_url"):
        found.pop("postgres_url", None)
    return {name: value for name, value in found.items() if value != ""}


def checked(value: Any, info: ValidationInfo) -> Any:
    """Validate what no value has. Recipients are validated one by one; a wrong one of alerts stops nothing."""
    if isinstance(value, str) and info.field_name not in ("report_recipients", "giftcard_alert_recipients"):
        check_text(value)
    return value


def split(value: Any) -> Any:
    """Split a comma-separated list."""
    return items(value) if isinstance(value, str) else value


def networks(value: Any) -> Any:
    """Parse comma-separated networks, `10.0.0.0/8,fd00::/8`."""
    if not isinstance(value, str):
        return value
    found = []
    for position, item in enumerate(items(value), start=1):
        try:
            found.append(ip_network(item))
        except ValueError:
            raise ValueError(
                f"item {position} must be a network like 10.20.0.0/16 (with zeros behind it) or ::1; "
                "separate networks with commas"
            ) from None
    return tuple(dict.fromkeys(found))


def recipients(value: Any) -> Any:
    """Parse comma-separated mail addresses."""
    if not isinstance(value, str):
        return value
    addresses: dict[str, str] = {}
    for number, item in enumerate(items(value), start=1):
        try:
            address = mail_address(item)
        except ValueError:
            raise ValueError(
                f"address {number} must be like name@example.com; separate addresses with commas"
            ) from None
        addresses.setdefault(address.casefold(), address)
    if len(addresses) > MAX_RECIPIENTS:
        raise ValueError(f"{len(addresses)} addresses are too many: use up to {MAX_RECIPIENTS}, or a mailing list")
    return tuple(addresses.values())


def alert_recipients(value: Any) -> Any:
    """Split comma-separated mail addresses, valid or not: an alert to one that is not must not stop everything."""
    return tuple(dict.fromkeys(map(_encoded, items(value)))) if isinstance(value, str) else value


def _encoded(text: str) -> str:
    """Return a valid address in ASCII, any other text as it is."""
    try:
        return mail_address(text)
    except ValueError:
        return text


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
    for position, part in enumerate(items(value), start=1):
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


def locale(text: str) -> str:
    """Parse a language tag: a language, perhaps with script and region, in any case as in orders."""
    match = _LOCALE.fullmatch(text)
    if not match:
        raise ValueError("must be a language tag like de or en-GB")
    language, script, region = match.groups(default="")
    return "-".join(filter(None, (language.lower(), script.title(), region.upper())))


def square_id(text: str) -> str:
    """Parse an id of Square."""
    if not _SQUARE_ID.fullmatch(text):
        raise ValueError("must be an id as copied from Square, like S8GWD5R9QB376")
    return text


def square_ids(value: Any) -> Any:
    """Parse comma-separated ids of Square."""
    return tuple(dict.fromkeys(map(square_id, items(value)))) if isinstance(value, str) else value


def tenant_weights(value: Any) -> Any:
    """Parse comma-separated pairs of tenant and weight, `acme=3,beta=2`."""
    if not isinstance(value, str):
        return value
    weights: dict[str, int] = {}
    for part in items(value):
        match = _TENANT_WEIGHT.fullmatch(part)
        if not match or match[1].strip() != match[1]:
            raise ValueError("must be pairs of tenant and weight, each 1 to 100, like acme=3,beta=2")
        if match[1] in weights:
            raise ValueError("names a tenant twice")
        weights[match[1]] = int(match[2])
    if len(weights) > _MAX_WEIGHTS:
        raise ValueError(f"must name at most {_MAX_WEIGHTS} tenants: those that are left out have the weight 1")
    return tuple(weights.items())


def least_amounts(value: Any) -> Any:
    """Parse comma-separated pairs of currency and minor units, `USD:500,EUR:500`."""
    if not isinstance(value, str):
        return value
    amounts: dict[str, int] = {}
    for part in items(value):
        match = _LEAST_AMOUNT.fullmatch(part)
        if not match:
            raise ValueError("must be pairs of currency and minor units, like USD:500,EUR:500")
        if match[1] in amounts:
            raise ValueError("names a currency twice")
        amounts[match[1]] = int(match[2])
    return tuple(amounts.items())
