"""Batches: jobs that end together, and the follow-up of their end (`supabase/schemas/29_batches.sql`)."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import Invalid
from lib.jobs.batch_schemas import BatchJobsRequest, BatchPage, BatchRequest
from lib.jobs.bulk import BulkOperations
from lib.jobs.enqueue import prepare_requests
from lib.jobs.registry import Registry
from lib.jobs.schemas import Filter, JobRequest, OperationRequest
from lib.store.store import Store
from lib.telemetry.redact import covered

Json = dict[str, Any]
Rows = list[Json]


class Batches:
    """The batches of a store. A caller of one tenant sees and changes that tenant's alone."""

    def __init__(self, store: Store, registry: Callable[[], Registry], settings: Settings, *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._caller = caller

    def create(self, wanted: BatchRequest) -> Json:
        """Create a batch with its jobs, all or none, and return it with `jobs`: [{id, status, created}].

        `created`: false if there was one of this name already.

        Raises:
            Invalid: an unknown stage, a payload that its stage does not accept, or no job though it is not open.
            Forbidden: a tenant that the caller may not act for.
            Conflict: a job exists already.
            Refused: the name was used for another batch.
        """
        tenant_id = self._caller.tenant(wanted.tenant_id)
        if not (wanted.jobs or wanted.open):
            raise Invalid("a batch without jobs must be open: add its jobs, then seal it", field="jobs")
        follow_up = None
        if wanted.follow_up:
            job = wanted.follow_up.as_job(otherwise=f"batch-{wanted.name or uuid.uuid4()}")
            (follow_up,) = self._rows([job], tenant_id, field=lambda _: "follow_up")
        jobs = self._rows(wanted.jobs, tenant_id)
        given: Json = {"name": wanted.name, "follow_up": follow_up, "jobs": jobs, "open": wanted.open}
        return _shown(self._store.create_batch(tenant_id=tenant_id, caller=self._caller, **given))

    def add(self, batch_id: int, wanted: BatchJobsRequest) -> Json:
        """Enqueue more jobs into an open batch, all or none. Return {jobs: [{id, status, created}]}.

        Raises:
            Refused: it does not exist or is sealed, or a job exists outside of it.
        """
        tenant_id: str = self.find(batch_id)["tenant_id"]
        return self._store.add_to_batch(batch_id, jobs=self._rows(wanted.jobs, tenant_id), caller=self._caller)

    def find(self, batch_id: int) -> Json:
        """Return a batch with its progress."""
        return _shown(self._store.show_batch(batch_id, tenant_id=self._caller.tenant_id))

    def list(self, page: BatchPage) -> Json:
        """Return a page of batches, newest first. `older`: the cursor of the next page."""
        found = self._store.list_batches(tenant_id=self._caller.tenant_id, **page.model_dump())
        return found | {"batches": [_shown(row) for row in found["batches"]]}

    def seal(self, batch_id: int) -> Json:
        """Seal a batch: no other job can join it; once its jobs have ended, it ends. Return it."""
        return _shown(self._store.seal_batch(batch_id, caller=self._caller))

    def cancel(self, batch_id: int, *, reason: str, idempotency_key: str | None = None) -> Json:
        """Seal a batch, and create the operation that cancels its jobs that have not completed. Return that."""
        batch = self._store.seal_batch(batch_id, caller=self._caller)
        return self._operation(batch, "cancel", reason, idempotency_key)

    def requeue(self, batch_id: int, *, reason: str, idempotency_key: str | None = None) -> Json:
        """Create the operation that requeues the dead letters of a batch, and return that."""
        return self._operation(self.find(batch_id), "requeue", reason, idempotency_key)

    def _operation(self, batch: Json, action: Literal["cancel", "requeue"], reason: str, key: str | None) -> Json:
        its = Filter(batch_id=batch["id"], tenant_id=batch["tenant_id"])
        request = OperationRequest(action=action, filter=its, reason=reason)
        return BulkOperations(self._store, caller=self._caller).create(request, idempotency_key=key)

    def _rows(
        self, jobs: Sequence[JobRequest], tenant_id: str, *, field: Callable[[int], str] = "jobs.{}".format
    ) -> Rows:
        for index, job in enumerate(jobs):
            self._caller.only(job.tenant_id, field=f"{field(index)}.tenant_id")
            if job.tenant_id not in (None, tenant_id):
                raise Invalid(
                    f"the jobs of this batch are of the tenant {tenant_id}", field=f"{field(index)}.tenant_id"
                )
        own = [job.model_copy(update={"tenant_id": tenant_id}) for job in jobs]
        return prepare_requests(
            own, self._registry(), self._settings, caller=self._caller, trigger_type="api", field=field
        )


def done(batch: Json) -> int:
    """Return how many jobs of a batch have ended; a dead letter that will revive has not."""
    counts = batch["counts"]
    ended: int = counts["completed"] + counts["error"] + counts["cancelled"] - batch["reviving"]
    return max(ended, 0)


def _shown(batch: Json) -> Json:
    shared = {"done": done(batch), "follow_up": covered(batch["follow_up"]), "error": covered(batch["error"])}
    return batch | shared
