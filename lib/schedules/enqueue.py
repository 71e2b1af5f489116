"""Enqueues the jobs of due schedules, in the middle of a tick."""

import contextlib
from collections.abc import Sequence
from typing import Any

from lib.config.settings import Settings
from lib.errors import Refused
from lib.jobs.enqueue import prepare_unattended
from lib.jobs.registry import Registry
from lib.schedules.planner import plan
from lib.store.store import Store
from lib.telemetry import events

Json = dict[str, Any]
# Schedules per call (the same in `giftcard_schedules_for`), and calls per step of a tick.
_BATCH = 100
_MAX_CALLS = 40


def enqueue_due(due: Sequence[Json], store: Store, registry: Registry, settings: Settings) -> tuple[int, int, bool]:
    """Plan the due schedules of a tick's call, and further ones if the call returned a full batch.

    Return the number of jobs enqueued, the number of calls, and whether any schedule has moved on. A schedule that
    cannot be planned is paused with the reason, without effect on the others.
    """

    def prepare_jobs(rows: list[Json]) -> list[Json]:
        return [prepare_unattended(row, registry, settings) for row in rows]

    jobs = calls = 0
    moved = True
    while due and moved and calls < _MAX_CALLS:
        due, asked = _with_creation(due, store)
        calls += asked
        planned = plan(due, prepare=prepare_jobs)
        result = store.enqueue_occurrences(planned)
        for paused in result["paused"]:
            events.emit("schedule_paused", schedule_id=paused["id"], error=paused["reason"])
        jobs += len(result["jobs"])
        moved = result["left"] < len(planned)
        calls += 1
        if len(due) < _BATCH or not moved:
            break
        due = store.due_schedules(limit=_BATCH)
        calls += 1
    return jobs, calls, moved


def _with_creation(due: Sequence[Json], store: Store) -> tuple[list[Json], int]:
    """Add `created_at` to new one-time schedules of plain SQL, and return the number of calls.

    The time of such a schedule is its first one after its creation, even if no tick has seen it before.
    """
    rows, calls = [], 0
    for row in due:
        is_new = not row["is_recurring"] and row["next_at"] is None and row["last_at"] is None
        if is_new and "created_at" not in row:
            calls += 1
            with contextlib.suppress(Refused):  # deleted meanwhile
                row = row | {"created_at": store.schedule(row["id"], tenant_id=None)["created_at"]}
        rows.append(row)
    return rows, calls
