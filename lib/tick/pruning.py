"""What has ended leaves: finished jobs for the archive, what nobody needs any more for good."""

import math
import time

from lib.config.settings import Settings
from lib.store.store import Store

# A chore's time in seconds, and one step of it: one call, one transaction, some 50 ms.
_BUDGET = 0.5
_STEP = 500
_KINDS = ("jobs", "history", "ticks", "circuit_changes", "archive")


def limits(settings: Settings) -> dict[str, str | None]:
    """How long each kind stays, as the database takes it; None: for ever."""
    days = {
        "jobs": settings.giftcard_retention_days,
        "dead_letters": settings.giftcard_dead_letter_days,
        "history": settings.giftcard_history_days,
        "ticks": settings.giftcard_tick_days,
        "circuit_changes": settings.giftcard_circuit_change_days,
        "archive": settings.giftcard_archive_days,
    }
    return {kind: f"{number} days" if number else None for kind, number in days.items()}


def prune(store: Store, settings: Settings, *, budget: float = _BUDGET) -> dict[str, int]:
    """Goes on where it stopped the last time, for `budget` seconds or once through. Answers how many of each kind.

    Two that prune at once take turns.
    """
    ends = time.monotonic() + budget
    counts = dict.fromkeys(_KINDS, 0)
    while True:
        step = store.prune(limits(settings), limit=_STEP, dry_run=False)
        counts = {kind: counts[kind] + step[kind] for kind in _KINDS}
        if step["done"] or time.monotonic() >= ends:
            return counts


def prune_all(store: Store, settings: Settings) -> dict[str, int]:
    """Everything whose time has come: to the end of each table, and once more through it from the beginning."""
    rest, whole = prune(store, settings, budget=math.inf), prune(store, settings, budget=math.inf)
    return {kind: rest[kind] + whole[kind] for kind in _KINDS}


def preview(store: Store, settings: Settings) -> dict[str, int | bool]:
    """How many of each kind would leave first, each counted up to a thousand, and whether that is all (`done`): the
    first ten thousand jobs and runs are looked at. Changes nothing."""
    step = store.prune(limits(settings), limit=1000, dry_run=True)
    return {name: step[name] for name in (*_KINDS, "done")}
