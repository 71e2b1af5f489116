"""SQLSTATEs as the exceptions of `lib.errors`, the same on every wire."""

import re

from lib.errors import Conflict, GiftcardError, LeaseLost, Misconfigured, Refused, Unavailable


def from_sqlstate(
    state: str, message: str, *, detail: str | None, function: str, check: str, constraint: str | None = None
) -> GiftcardError:
    """Return the exception for a SQLSTATE, Postgres' MESSAGE and its DETAIL.

    `check` names the settings with the credentials. A DETAIL may hold the row at fault, which is personal data: it is
    dropped, except from our own SQLSTATEs (GC…).
    """
    if state[:2] in ("08", "57", "53", "40") or state == "55P03":
        return Unavailable(f"the database cannot be reached or gave up during {function}: {message.splitlines()[0]}")
    if state in ("42883", "42P01", "3F000"):
        return Misconfigured(f"{function} is missing: run the migrations (make migrate). {message}")
    if state in ("42501", "28000", "28P01", "3D000"):
        return Misconfigured(f"the database does not allow calls of {function}: check {check}. {message}")
    if state == "GC426":
        return Misconfigured(message)
    if state == "GC410":
        return LeaseLost(message)
    if state == "23505":
        return Conflict(message, constraint=constraint or _quoted("constraint", message) or "")
    field = detail if state.startswith("GC") else _quoted("column", message)
    return Refused(message, sqlstate=state, field=field or None)


def _quoted(word: str, message: str) -> str | None:
    """Return the quoted name after a word: `… violates unique constraint "giftcard_cards_number_key"`."""
    match = re.search(rf'{word} "([^"]+)"', message)
    return match and match[1]
