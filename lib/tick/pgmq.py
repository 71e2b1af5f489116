"""Messages that others put into queues of pgmq (Supabase Queues) become jobs, before a tick begins."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import StoreError
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry import events

# Of each queue at one tick: more than most ticks start, and moved within a fraction of a second.
_BATCH = 500


def import_pgmq(
    store: Store, registry: Registry, settings: Settings, *, limit: int = _BATCH
) -> dict[str, dict[str, Any]]:
    """One call, if GIFTCARD_PGMQ_QUEUES is set. By queue: how many were moved, repeated, refused; perhaps a `problem`.

    What cannot be moved waits where it is, and is logged: it never stops the tick. `limit` 0 moves nothing and tells
    whether it could.
    """
    inlets = {queue: registry.shaped({"stage": stage}, settings) for queue, stage in settings.giftcard_pgmq_queues}
    if not inlets:
        return {}
    try:
        moved = store.import_pgmq(inlets, limit=limit)
    except StoreError as error:
        moved = {queue: {"moved": 0, "repeated": 0, "refused": 0, "problem": str(error)} for queue in inlets}
    for queue, sums in moved.items():
        if "problem" in sums:
            events.emit("pgmq_import_failed", queue=queue, error=sums["problem"])
        elif sums["refused"]:
            events.emit("messages_refused", queue=queue, refused=sums["refused"])
    return moved
