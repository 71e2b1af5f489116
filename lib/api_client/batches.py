"""The client for batches: the methods of `lib.jobs.batches.Batches`."""

from typing import Any

from lib.api_client.transport import Transport
from lib.jobs.batch_schemas import BatchJobsRequest, BatchPage, BatchRequest

Json = dict[str, Any]

_PATH = "/api/v1/batches"


class BatchesClient:
    """Signatures, results and errors are those of `Batches`. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def create(self, wanted: BatchRequest) -> Json:
        """Create a batch with its jobs."""
        return self._http.post(_PATH, wanted.model_dump(mode="json", exclude_none=True))

    def add(self, batch_id: int, wanted: BatchJobsRequest) -> Json:
        """Enqueue more jobs into an open batch."""
        return self._http.post(f"{_PATH}/{batch_id}/jobs", wanted.model_dump(mode="json", exclude_none=True))

    def find(self, batch_id: int) -> Json:
        """Return a batch with its progress."""
        return self._http.get(f"{_PATH}/{batch_id}")

    def list(self, page: BatchPage) -> Json:
        """Return a page of batches, the newest first."""
        return self._http.get(_PATH, **page.model_dump())

    def seal(self, batch_id: int) -> Json:
        """Seal a batch."""
        return self._http.post(f"{_PATH}/{batch_id}/seal")

    def cancel(self, batch_id: int, *, reason: str, idempotency_key: str | None = None) -> Json:
        """Create the operation that cancels the jobs of a batch."""
        return self._http.post(f"{_PATH}/{batch_id}/cancel", {"reason": reason}, idempotency_key=idempotency_key)

    def requeue(self, batch_id: int, *, reason: str, idempotency_key: str | None = None) -> Json:
        """Create the operation that requeues the dead letters of a batch."""
        return self._http.post(f"{_PATH}/{batch_id}/requeue", {"reason": reason}, idempotency_key=idempotency_key)
