"""pgmq import: messages of pgmq queues (Supabase Queues) become jobs, before a tick begins."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lib.config.settings import Settings
from lib.errors import Conflict, Refused, StoreError
from lib.jobs.enqueue import prepare_unattended
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry import events
from lib.validation import same_json

Json = dict[str, Any]
Batches = dict[str, list[Json]]

# Of each queue at one read: more than most ticks start. A read of large messages ends earlier, and is repeated while
# there are more, for at most so many seconds.
_BATCH = 500
_SECONDS = 5.0
_COUNTS = ("moved", "repeated", "refused")


def import_pgmq(
    store: Store, registry: Registry, settings: Settings, *, limit: int = _BATCH
) -> tuple[dict[str, Json], int]:
    """Import messages of the queues in GIFTCARD_PGMQ_QUEUES; a queue without messages costs one call for all of them.

    Return by queue how many were moved, repeated and refused, perhaps with a `problem`; and the number of calls. What
    cannot be imported stays where it is, and the failure is logged: it never stops the tick.
    """
    stages = dict(settings.giftcard_pgmq_queues)
    if not stages:
        return {}, 0
    work = _Import(store, registry, settings, stages)
    try:
        work.run(limit)
    except StoreError as error:
        work.problems |= dict.fromkeys(stages, str(error))
    imported = {queue: work.result(queue) for queue in stages}
    for queue, counts in imported.items():
        if "problem" in counts:
            events.emit("pgmq_import_failed", queue=queue, error=counts["problem"])
        elif counts["refused"]:
            events.emit("messages_refused", queue=queue, refused=counts["refused"])
    return imported, work.calls


class _Import:
    """One import. `stages`: the stage of each queue."""

    def __init__(self, store: Store, registry: Registry, settings: Settings, stages: dict[str, str]) -> None:
        self.calls = 0
        self.problems: dict[str, str] = {}
        self._counts = {queue: Counter[str]() for queue in stages}
        self._store, self._registry, self._settings = store, registry, settings
        self._stages = stages

    def run(self, limit: int) -> None:
        """Read and import in rounds, until the queues are empty, each has reached `limit`, or time is over."""
        ends = time.monotonic() + _SECONDS
        queues = tuple(self._stages)
        while queues and time.monotonic() < ends:
            read = self._store.read_pgmq(queues, limit=limit)
            self.calls += 1
            self.problems |= {queue: found["problem"] for queue, found in read.items() if "problem" in found}
            batches = {queue: self._prepared(queue, found.get("messages", [])) for queue, found in read.items()}
            self._import({queue: messages for queue, messages in batches.items() if messages})
            queues = tuple(queue for queue, found in read.items() if found.get("more") and self._open(queue, limit))

    def result(self, queue: str) -> Json:
        """Return the counts of a queue, with its problem if it has one."""
        counts: Json = {name: self._counts[queue][name] for name in _COUNTS}
        return counts | ({"problem": self.problems[queue]} if queue in self.problems else {})

    def _open(self, queue: str, limit: int) -> bool:
        """Return whether to read on: each further read would hide the messages of a queue with a problem."""
        return queue not in self.problems and self._counts[queue].total() < limit

    def _import(self, batches: Batches) -> None:
        """Import in one call. If the database refuses it, import smaller parts: a message fails only itself."""
        if not batches:
            return
        try:
            self._count(self._store.import_pgmq(batches))
        except (Refused, Conflict) as error:
            parts = list(_parts(batches))
            if len(parts) > 1:
                for part in parts:
                    self._import(part)
                return
            ((queue, (message,)),) = batches.items()
            job = {name: message["job"].get(name) for name in ("tenant_id", "stage", "payload_json")}
            self._count(self._store.import_pgmq({queue: [message | {"job": job | {"error": str(error)}}]}))
        finally:
            self.calls += 1

    def _count(self, imported: dict[str, Json]) -> None:
        for queue, counts in imported.items():
            self._counts[queue].update({name: counts[name] for name in _COUNTS})
            if "problem" in counts:
                self.problems[queue] = counts["problem"]

    def _prepared(self, queue: str, messages: list[Json]) -> list[Json]:
        return [message | {"job": self._job(message["job"] | {"stage": self._stages[queue]})} for message in messages]

    def _job(self, job: Json) -> Json:
        """Prepare the job of a message like any other. Its payload goes back as text unless a hook has changed it."""
        if "error" in job:
            return job
        try:
            payload = json.loads(job["payload_json"])
        except (ValueError, RecursionError):
            return job  # Postgres can store it, Python cannot read it: its run fails, and no other
        row = {name: value for name, value in job.items() if name != "payload_json" and value is not None}
        row |= {"payload": payload, "trigger_type": "pgmq"}
        prepared = prepare_unattended(row, self._registry, self._settings)
        if same_json(prepared["payload"], payload):
            del prepared["payload"]
        return job | prepared


def _parts(batches: Batches) -> Iterator[Batches]:
    """Yield each queue by itself; of a single queue, each message by itself."""
    if len(batches) > 1:
        yield from ({queue: messages} for queue, messages in batches.items())
        return
    for queue, messages in batches.items():
        yield from ({queue: [message]} for message in messages)
