"""pgmq import: messages of pgmq queues (Supabase Queues) become jobs, before a tick begins."""

import json
from collections.abc import Mapping
from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid, StoreError
from lib.jobs.enqueue import prepare
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry import events

Json = dict[str, Any]

# Messages per queue and tick: more than most ticks start, imported within a fraction of a second.
_BATCH = 500
_NOTHING = {"moved": 0, "repeated": 0, "refused": 0}


def import_pgmq(store: Store, registry: Registry, settings: Settings, *, limit: int = _BATCH) -> dict[str, Json]:
    """Import the messages of the queues in GIFTCARD_PGMQ_QUEUES; one database call if there is none.

    Return by queue how many were moved, repeated and refused, perhaps with a `problem`. A message that cannot be
    imported stays where it is, and the failure is logged: it never stops the tick.
    """
    stages = dict(settings.giftcard_pgmq_queues)
    if not stages:
        return {}
    try:
        imported = _imported(store, registry, settings, stages, limit)
    except StoreError as error:
        imported = {queue: _NOTHING | {"problem": str(error)} for queue in stages}
    for queue, counts in imported.items():
        if "problem" in counts:
            events.emit("pgmq_import_failed", queue=queue, error=counts["problem"])
        elif counts["refused"]:
            events.emit("messages_refused", queue=queue, refused=counts["refused"])
    return imported


def _imported(
    store: Store, registry: Registry, settings: Settings, stages: Mapping[str, str], limit: int
) -> dict[str, Json]:
    read = store.read_pgmq(tuple(stages), limit=limit)
    batches = {
        queue: [
            message | {"job": _prepared(message["job"] | {"stage": stages[queue]}, registry, settings)}
            for message in found["messages"]
        ]
        for queue, found in read.items()
        if found.get("messages")
    }
    done = store.import_pgmq(batches) if batches else {}
    problems = {queue: {"problem": found["problem"]} for queue, found in read.items() if "problem" in found}
    return {queue: _NOTHING | problems.get(queue, {}) | done.get(queue, {}) for queue in stages}


def _prepared(job: Json, registry: Registry, settings: Settings) -> Json:
    """Prepare the job of a message. Its payload stays the original text unless a hook has changed it."""
    if "error" in job:
        return job
    try:
        payload = json.loads(job["payload_json"])
        (prepared,) = prepare([_row(job) | {"payload": payload, "trigger_type": "pgmq"}], registry, settings)
    except (Invalid, ValueError, RecursionError):
        # Enqueued unchanged: its first run fails with the same error, where an operator sees it.
        return job
    if prepared["payload"] == payload:
        del prepared["payload"]
    return job | prepared


def _row(job: Json) -> Json:
    return {name: value for name, value in job.items() if name != "payload_json" and value is not None}
