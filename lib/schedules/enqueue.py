"""What schedules have due becomes jobs, in the middle of a tick."""

from collections.abc import Sequence
from typing import Any

from lib.config.settings import Settings
from lib.jobs.enqueue import prepare
from lib.jobs.stage import Registry
from lib.schedules.planner import plan
from lib.store.store import Store
from lib.telemetry import events

Json = dict[str, Any]
# So many schedules a call of the tick brings (`giftcard_schedules_for`); and so many calls they may take in one go.
_AT_ONCE = 100
_MOST_CALLS = 40


def enqueue_due(due: Sequence[Json], store: Store, registry: Registry, settings: Settings) -> tuple[int, int, bool]:
    """Plans the schedules that a call of the tick brought, and more where it brought as many as it could.

    Answers how many jobs came of it, how many calls it took, and whether any schedule has moved. One that cannot be
    planned is paused with its reason, and stops no other.
    """

    def prepared(rows: list[Json]) -> list[Json]:
        return prepare(rows, registry, settings)

    jobs = calls = 0
    moved = True
    while due and moved and calls < _MOST_CALLS:
        planned = plan(due, prepared=prepared)
        answer = store.enqueue_occurrences(planned)
        for paused in answer["paused"]:
            events.emit("schedule_paused", schedule_id=paused["id"], error=paused["reason"])
        jobs += len(answer["jobs"])
        moved = answer["left"] < len(planned)
        calls += 1
        if len(due) < _AT_ONCE or not moved:
            break
        due = store.due_schedules(limit=_AT_ONCE)
        calls += 1
    return jobs, calls, moved
