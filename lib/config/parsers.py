"""How the values of variables are spelt: addresses, keys, lists. Each says what is wrong with what it gets."""

import re
from typing import Any

_ADDRESS = re.compile(r"https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d+))?/?")
# ASCII on both sides, so that every mail server takes it: a domain of another script is written in its xn-- form.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAIL_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*")
# What pgmq allows of a queue's name that needs no quotes anywhere, and what a stage may be called.
_INLET = re.compile(r"([A-Za-z0-9_-]{1,47}):([a-z][a-z0-9_]{0,62})")
_MOST_RECIPIENTS = 20


def address(value: Any) -> Any:
    """The base of a URL, and no more."""
    if not isinstance(value, str):
        return value
    match = _ADDRESS.fullmatch(value.strip())
    if not match or int(match[1] or 0) > 65_535:
        raise ValueError("must be an address and no more, like https://abcdefghijklm.supabase.co")
    return value.strip()


def key(value: Any) -> Any:
    """It goes into a header of HTTP, and a client that refuses one repeats it in its message."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"[!-~]+", value.strip()):
        raise ValueError("must be a key as Supabase shows it, without blanks inside")
    return value.strip()


def networks(value: Any) -> Any:
    """`10.0.0.0/8,fd00::/8` as a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def recipients(value: Any) -> Any:
    """Mail addresses by comma."""
    if not isinstance(value, str):
        return value
    found = [part.strip() for part in value.split(",") if part.strip()]
    for number, address in enumerate(found, start=1):
        if not _MAIL_ADDRESS.fullmatch(address) or len(address) > 254:
            raise ValueError(f"address {number} must be like name@example.com, and no more; several go by comma")
    if len(found) > _MOST_RECIPIENTS:
        raise ValueError(
            f"{len(found)} addresses are too many: {_MOST_RECIPIENTS} are allowed; use a list of your mail server's"
        )
    return tuple(dict.fromkeys(found))


def inlets(value: Any) -> Any:
    """Queues and their stages by comma."""
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        match = _INLET.fullmatch(part)
        if not match:
            raise ValueError("must be queues and their stages, like email_queue:email,payments_queue:payment")
        if match[1] in found:
            raise ValueError(f"names the queue {match[1]} twice")
        found[match[1]] = match[2]
    return tuple(found.items())
