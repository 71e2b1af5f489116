"""Operations on many jobs: requeue, requeue slowly, cancel. Ticks carry them out (`lib/tick/operations.py`)."""

import uuid
from typing import Any

from lib.caller import Caller
from lib.errors import Invalid
from lib.jobs.schemas import OperationPage, OperationRequest
from lib.store.store import Store
from lib.telemetry.redact import covered

Json = dict[str, Any]

# What may repeat personal data: texts that operators typed, and the database's words.
_TEXTS = ("filter", "reason", "stopped_because", "error")


class BulkOperations:
    """The operations of a store. A caller of one tenant sees and changes that tenant's alone."""

    def __init__(self, store: Store, *, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    def preview(self, request: OperationRequest) -> Json:
        """Return what an operation would change: {count, capped, by_stage: [{stage, count}]}, the most first.

        `count` goes up to 10,000; `capped`: there are more. Nothing is changed.

        Raises:
            Invalid: a filter together with `job_ids`, or a status that the action does not change.
            Forbidden: the filter names a tenant that the caller may not see.
        """
        return self._store.preview_operation(caller=self._caller, **self._wanted(request))

    def create(self, request: OperationRequest, *, idempotency_key: str | None = None) -> Json:
        """Create an operation, which the next tick begins, and return it.

        `created`: false if an operation with this key existed already. It changes only jobs that exist now.

        Raises:
            Invalid, Forbidden: as `preview`; or there is no reason, or neither a filter nor `all`.
            Refused: the key was used for another operation.
        """
        if request.reason is None:
            raise Invalid("reason is required", field="reason")
        if request.job_ids is None and not request.all and not request.filter.as_json():
            raise Invalid("an empty filter matches every job: set all to true to change them", field="filter")
        created = self._store.create_operation(
            caller=self._caller,
            idempotency_key=idempotency_key or str(uuid.uuid4()),
            reason=request.reason,
            per_minute=request.per_minute,
            **self._wanted(request),
        )
        return _shown(created)

    def find(self, operation_id: int) -> Json:
        """Return an operation with its progress."""
        return _shown(self._store.show_operation(operation_id, tenant_id=self._caller.tenant_id))

    def list(self, page: OperationPage) -> Json:
        """Return a page of operations, newest first. `older`: the cursor of the next page."""
        found = self._store.list_operations(tenant_id=self._caller.tenant_id, **page.model_dump())
        return found | {"operations": [_shown(row) for row in found["operations"]]}

    def stop(self, operation_id: int) -> Json:
        """Stop an operation and return it. What it has changed stays.

        Raises:
            Refused: it does not exist, has completed or has failed.
        """
        return _shown(self._store.stop_operation(operation_id, caller=self._caller))

    def _wanted(self, request: OperationRequest) -> Json:
        self._caller.only(request.filter.tenant_id, field="filter.tenant_id")
        ids = None if request.job_ids is None else tuple(dict.fromkeys(request.job_ids))
        return {"action": request.action, "filter": request.filter.as_json(), "job_ids": ids}


def _shown(operation: Json) -> Json:
    return {name: covered(value) if name in _TEXTS else value for name, value in operation.items()}
