"""pgmq import: messages of pgmq queues (Supabase Queues) become jobs, before a tick begins."""

import json
import time
from collections import Counter
from typing import Any

from lib.config.parsers import PgmqQueue
from lib.config.settings import Settings
from lib.errors import StoreError
from lib.jobs.enqueue import prepare_unattended
from lib.jobs.registry import Registry
from lib.store.sqlstate import may_be_one_row
from lib.store.store import Store
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.tick.message_forms import split_options, translated
from lib.validation import same_json

Json = dict[str, Any]
# Messages of any queues, each with the name of its queue.
Batch = list[tuple[str, Json]]

# Of each queue at one read: more than most ticks start. A read of large messages ends earlier, and is repeated while
# there are more, for at most so many seconds.
_BATCH = 500
_SECONDS = 5.0
_COUNTS = ("moved", "repeated", "conflicts", "refused")


def import_pgmq(
    store: Store, registry: Registry, settings: Settings, *, execution_id: str | None = None, limit: int = _BATCH
) -> tuple[dict[str, Json], int]:
    """Import messages of the queues in GIFTCARD_PGMQ_QUEUES; a queue without messages costs one call for all of them.

    Nothing is imported while everything is paused, nor for an `execution_id` that was delivered before. Return by queue
    how many were moved, repeated, conflicts and refused, perhaps with a `problem`; and the number of calls. What cannot
    be imported stays where it is, and the failure is logged: it never stops the tick.
    """
    if not settings.giftcard_pgmq_queues:
        return {}, 0
    work = _Import(store, registry, settings)
    work.run(limit, execution_id)
    imported = {queue.name: work.result(queue.name) for queue in settings.giftcard_pgmq_queues}
    for queue, result in imported.items():
        _log(queue, result)
    return imported, work.calls


def _log(queue: str, result: Json) -> None:
    counts = {name: result[name] for name in _COUNTS}
    if any(counts.values()):
        events.emit("messages_imported", queue=queue, **counts)
    if counts["refused"] or counts["conflicts"]:
        events.emit("messages_refused", queue=queue, refused=counts["refused"], conflicts=counts["conflicts"])
    if "problem" in result:
        events.emit("pgmq_import_failed", queue=queue, error=result["problem"])


class _Import:
    """One import."""

    def __init__(self, store: Store, registry: Registry, settings: Settings) -> None:
        self.calls = 0
        self._problems: dict[str, str] = {}
        self._queues = {queue.name: queue for queue in settings.giftcard_pgmq_queues}
        self._counts = {queue: Counter[str]() for queue in self._queues}
        self._store, self._registry, self._settings = store, registry, settings
        self._ends = time.monotonic() + _SECONDS

    def run(self, limit: int, execution_id: str | None) -> None:
        """Read and import in rounds, until the queues are empty, each has reached `limit`, or time is over."""
        queues = tuple(self._queues)
        try:
            while queues and time.monotonic() < self._ends:
                self.calls += 1
                read = self._store.read_pgmq(queues, limit=limit, execution_id=execution_id)
                for queue in read:
                    self._note(queue, read[queue].get("problem"))
                found = [(queue, m) for queue in read for m in read[queue].get("messages", [])]
                self._import([(queue, self._prepared(queue, message)) for queue, message in found])
                queues = tuple(queue for queue in read if read[queue].get("more") and self._is_open(queue, limit))
        except (StoreError, TypeError, KeyError, ValueError, AttributeError) as error:
            # Also a reply that is none. What was read and not imported is visible again after a minute.
            for queue in queues:
                self._note(queue, str(error))

    def result(self, queue: str) -> Json:
        """Return the counts of a queue, with its problem if it has one."""
        counts: Json = {name: self._counts[queue][name] for name in _COUNTS}
        return counts | ({"problem": self._problems[queue]} if queue in self._problems else {})

    def _note(self, queue: str, problem: str | None) -> None:
        """Keep the first problem of a queue. It may repeat parts of a message, and it is logged."""
        if problem is not None:
            self._problems.setdefault(queue, clean(problem, secrets=self._settings.secrets()))

    def _is_open(self, queue: str, limit: int) -> bool:
        """Return whether to read on: each further read would hide the messages of a queue with a problem."""
        return queue not in self._problems and self._counts[queue].total() < limit

    def _import(self, batch: Batch) -> None:
        """Import in one call. If the database refuses it, import each half: a message fails only itself."""
        if not batch:
            return
        self.calls += 1
        try:
            self._count(self._store.import_pgmq(_by_queue(batch)))
        except StoreError as error:
            if not may_be_one_row(error):
                raise
            if len(batch) > 1 and time.monotonic() < self._ends:
                middle = len(batch) // 2
                self._import(batch[:middle])
                self._import(batch[middle:])
                return
            self._refuse(batch, str(error))

    def _refuse(self, batch: Batch, reason: str) -> None:
        """Import a refused message as a dead letter; one that is refused even so stays in its queue."""
        ((queue, message), *others) = batch
        if others or "error" in message["job"]:
            for queue, message in batch:
                self._note(queue, f"message {message['msg_id']} stays in the queue: {reason}")
            return
        kept = ("tenant_id", "correlation_id", "dedup_key", "stage", "payload_json")
        job = {name: message["job"].get(name) for name in kept} | {"error": reason}
        self._import([(queue, message | {"job": job})])

    def _count(self, imported: dict[str, Json]) -> None:
        for queue, counts in imported.items():
            self._counts[queue].update({name: counts[name] for name in _COUNTS})
            self._note(queue, counts.get("problem"))

    def _prepared(self, queue: str, message: Json) -> Json:
        return message | {"job": self._job(message["job"], self._queues[queue])}

    def _job(self, job: Json, queue: PgmqQueue) -> Json:
        """Prepare the job of a message like any other. Its payload goes back as text unless it was changed.

        Stage and tenant are those of the queue: a message may repeat its tenant, but name no other.
        """
        named = job["tenant_id"]
        job = job | {"stage": queue.stage, "tenant_id": queue.tenant_id}
        if "error" in job:
            return job
        try:
            payload = json.loads(job["payload_json"])
        except (ValueError, RecursionError) as error:  # such as an integer of more digits than Python reads
            return job | {"error": f"the message cannot be read: {error}"}
        if named not in (None, queue.tenant_id) or "tenant_id" in payload:
            name = named or "no name of a tenant"
            return job | {"error": f"the queue belongs to the tenant {queue.tenant_id}, tenant_id is {name}"}
        content, options = split_options(self._registry.stages.get(queue.stage), payload)
        form = translated(job["stage"], content)
        if "error" in options | form or "order" in form:
            return job | form | options
        row = {name: value for name, value in job.items() if name != "payload_json" and value is not None}
        row |= options | {"payload": form.get("payload", content), "trigger_type": "pgmq"}
        prepared = prepare_unattended(row, self._registry, self._settings)
        if same_json(prepared["payload"], payload):
            del prepared["payload"]
        return job | prepared


def _by_queue(batch: Batch) -> dict[str, list[Json]]:
    batches: dict[str, list[Json]] = {}
    for queue, message in batch:
        batches.setdefault(queue, []).append(message)
    return batches
