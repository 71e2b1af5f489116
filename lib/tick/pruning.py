"""Pruning: archive finished jobs and delete old rows."""

import math
import time

from lib.config.settings import Settings
from lib.store.store import Store

# Seconds a maintenance task may take; and rows per step, which is one call, one transaction, some 50 ms. A pass that is
# not over goes on in the next tick: about 5,000 rows a minute, 7 million a day, many times what ticks can make.
_BUDGET = 0.5
_STEP = 500
_KINDS = ("jobs", "history", "ticks", "circuit_changes", "archive")


def limits(settings: Settings) -> dict[str, str | None]:
    """Return the retention of each kind of row, as the database takes it; None: forever."""
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
    """Prune from where the last call stopped, for `budget` seconds or to the end. Return the rows pruned, by kind.

    Concurrent calls take turns. A pass that has pruned something and is not over goes on in the next tick.
    """
    deadline = time.monotonic() + budget
    counts = dict.fromkeys(_KINDS, 0)
    while True:
        step = store.prune(limits(settings), limit=_STEP, dry_run=False)
        counts = {kind: counts[kind] + step[kind] for kind in _KINDS}
        if step["done"]:
            return counts
        if time.monotonic() >= deadline:
            if any(counts.values()):
                store.continue_maintenance("prune")
            return counts


def prune_all(store: Store, settings: Settings) -> dict[str, int]:
    """Prune all that is due: the rest of the current pass, then a whole pass. Return the rows pruned, by kind."""
    rest, whole = prune(store, settings, budget=math.inf), prune(store, settings, budget=math.inf)
    return {kind: rest[kind] + whole[kind] for kind in _KINDS}


def preview(store: Store, settings: Settings) -> dict[str, int | bool]:
    """Return how many rows of each kind would be pruned, up to 1,000 each, and whether that is all (`done`).

    Reads the first 10,000 jobs and runs; changes nothing.
    """
    step = store.prune(limits(settings), limit=1000, dry_run=True)
    return {name: step[name] for name in (*_KINDS, "done")}
