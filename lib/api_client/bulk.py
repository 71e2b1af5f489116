"""The client for operations on many jobs: the methods of `lib.jobs.bulk.BulkOperations`."""

from typing import Any

from lib.api_client.transport import Transport
from lib.jobs.schemas import OperationPage, OperationRequest

Json = dict[str, Any]

_PATH = "/api/v1/operations"


class BulkClient:
    """Signatures, results and errors are those of `BulkOperations`. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def preview(self, request: OperationRequest) -> Json:
        """Return what an operation would change."""
        return self._http.post(_PATH, _body(request) | {"dry_run": True})

    def create(self, request: OperationRequest, *, idempotency_key: str | None = None) -> Json:
        """Create an operation and return it."""
        return self._http.post(_PATH, _body(request) | {"dry_run": False}, idempotency_key=idempotency_key)

    def find(self, operation_id: int) -> Json:
        """Return an operation with its progress."""
        return self._http.get(f"{_PATH}/{operation_id}")

    def list(self, page: OperationPage) -> Json:
        """Return a page of operations, the newest first."""
        return self._http.get(_PATH, **page.model_dump())

    def stop(self, operation_id: int) -> Json:
        """Stop an operation and return it."""
        return self._http.post(f"{_PATH}/{operation_id}/stop")


def _body(request: OperationRequest) -> Json:
    return request.model_dump(exclude_none=True, exclude={"filter"}) | {"filter": request.filter.as_json()}
