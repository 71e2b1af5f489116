"""What the database says no with, as the few exceptions of `lib.errors`: the same on every wire."""

import re

from lib.errors import Conflict, GiftcardError, LeaseLost, Misconfigured, Refused, Unavailable


def from_sqlstate(
    state: str, said: str, *, detail: str | None, function: str, check: str, constraint: str | None = None
) -> GiftcardError:
    """`said` and `detail` are Postgres' MESSAGE and DETAIL. `check` names the settings that say who we are.

    A DETAIL may hold the row at fault, which is personal data: it goes nowhere, but for refusals of our own.
    """
    if state[:2] in ("08", "57", "53", "40") or state == "55P03":
        return Unavailable(f"the database cannot be reached or gave up during {function}: {said.splitlines()[0]}")
    if state in ("42883", "42P01", "3F000"):
        return Misconfigured(f"{function} is missing: run the migrations (make migrate). {said}")
    if state in ("42501", "28000", "28P01", "3D000"):
        return Misconfigured(f"the database does not let us call {function}: check {check}. {said}")
    if state == "GC426":
        return Misconfigured(said)
    if state == "GC410":
        return LeaseLost(said)
    if state == "23505":
        return Conflict(said, constraint=constraint or _quoted("constraint", said) or "")
    field = detail if state.startswith("GC") else _quoted("column", said)
    return Refused(said, sqlstate=state, field=field or None)


def _quoted(word: str, said: str) -> str | None:
    """The name that follows the word: `… violates unique constraint "giftcard_cards_number_key"`."""
    match = re.search(rf'{word} "([^"]+)"', said)
    return match and match[1]
