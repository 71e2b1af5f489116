"""Words of sentences about the state: numbers with their nouns, short texts, and times that the reader's side renders.

A time within a sentence is a placeholder in braces, `{2026-11-29T14:02:00Z}`: a page renders it as local time with UTC
on hover, a terminal as local time.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from lib.telemetry.redact import clean

_PLACEHOLDER = re.compile(r"\{(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\}")
_TIMES = ("", "once", "twice", *(f"{n} times" for n in "three four five six seven eight nine".split()))
# How errors begin in the database: the class, which people do not need.
_CLASS = re.compile(r"^(?:[A-Za-z_]+\.)*\w*(?:Error|Exception|Failure|Declined|Exceeded|Interrupted|Outcome): ")


def many(number: int, one: str, *, capped: bool = False) -> str:
    """Return a number with its noun: 1 order, 1,234 orders; 1,000 or more orders if it is `capped`."""
    noun = one if number == 1 and not capped else f"{one}s"
    return f"{number:,}{' or more' if capped else ''} {noun}"


def times(number: int) -> str:
    """Return how often: once, twice, three times, 12 times."""
    return _TIMES[number] if 0 < number < len(_TIMES) else f"{number:,} times"


def short(text: Any, limit: int = 80) -> str:
    """Return one line of a text that may hold anything, without personal data, secrets and controls."""
    return clean(str(text or ""), secrets=[], limit=limit)


def cause(error: Any, limit: int = 80) -> str:
    """Return an error of a run as a short cause: without its class and the full stop at its end."""
    return short(_CLASS.sub("", str(error or ""), count=1), limit).rstrip(". ") or "no error text"


def moment(time: Any) -> datetime | None:
    """Return a time of the database. None: there is none, or one that Python does not have, such as infinity."""
    try:
        found = datetime.fromisoformat(time)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def at(time: Any) -> str:
    """Return the placeholder of a time."""
    found = moment(time)
    return f"{{{found:%Y-%m-%dT%H:%M:%SZ}}}" if found and found.year >= 1000 else "an unknown time"


def since(time: Any) -> str:
    """Return ` since {…}`, or nothing if the time is unknown."""
    return f" since {at(time)}" if moment(time) else ""


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:].rstrip('. ')}." if text else ""


def after(time: str, seconds: float) -> str:
    """Return the time so many seconds after another one."""
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).isoformat()


def parts(text: str) -> Iterator[str | datetime]:
    """Yield the texts of a sentence, and its times in UTC, in order."""
    for number, part in enumerate(_PLACEHOLDER.split(text)):
        time = moment(part) if number % 2 else None
        if time or part:
            yield time or part


def rendered(text: str, show: Callable[[datetime], str]) -> str:
    """Return a sentence with each of its times as `show` renders it."""
    return "".join(part if isinstance(part, str) else show(part) for part in parts(text))
