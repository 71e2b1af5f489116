"""Outcomes as they may be stored: no secrets, no personal data, bounded in length."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lib.job import Complete, Outcome, Release, Snooze
from lib.telemetry.redact import clean

# Limits of what a run stores: a few short facts, not a vendor's whole response.
_LONGEST_FACT = 2_048
_MOST_FACTS = 20
_LONGEST_NAME = 200
_LARGEST_NUMBER = 2**63


def storable(outcome: Outcome, *, secrets: Callable[[], list[str]]) -> Outcome:
    """Return the outcome with its error text and its detail cleaned."""
    if isinstance(outcome, Release):
        return outcome
    if isinstance(outcome, Complete):
        return replace(outcome, detail=_facts(outcome.detail, secrets())) if outcome.detail else outcome
    detail = _facts(outcome.detail, secrets())
    if isinstance(outcome, Snooze):
        return replace(outcome, waiting_for=clean(str(outcome.waiting_for), secrets=secrets()), detail=detail)
    return replace(outcome, error=clean(str(outcome.error), secrets=secrets()), detail=detail)


def _facts(detail: Any, secrets: list[str]) -> dict[str, Any] | None:
    """Return a few plain facts, none of them long or secret; None for anything but a filled object."""
    if not isinstance(detail, dict) or not detail:
        return None
    facts = {}
    for name, value in list(detail.items())[:_MOST_FACTS]:
        key = clean(str(name), secrets=secrets, limit=_LONGEST_NAME)
        facts[key] = value if _is_plain(value) else clean(str(value), secrets=secrets, limit=_LONGEST_FACT)
    return facts


def _is_plain(value: Any) -> bool:
    """Return whether JSON has the value as it is: no NaN, nor a number of thousands of digits."""
    return value is None or (isinstance(value, int | float) and abs(value) < _LARGEST_NUMBER)
