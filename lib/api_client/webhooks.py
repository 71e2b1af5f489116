"""The client for webhook endpoints: the methods of `lib.webhooks.service.Endpoints`."""

from typing import Any

from lib.api_client.transport import Transport
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest

Json = dict[str, Any]

_PATH = "/api/v1/webhook-endpoints"


class WebhooksClient:
    """Signatures, results and errors are those of `Endpoints`."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def find(self, page: EndpointPage) -> Json:
        """Return a page of endpoints, the newest first."""
        return self._http.get(_PATH, **page.model_dump())

    def show(self, endpoint_id: int) -> Json:
        """Return one endpoint, without its secret."""
        return self._http.get(f"{_PATH}/{endpoint_id}")

    def create(self, request: EndpointRequest, *, idempotency_key: str | None = None) -> Json:
        """Create an endpoint; the result holds its secret. The same key with the same request returns it again."""
        return self._http.post(_PATH, request.model_dump(exclude_none=True), idempotency_key=idempotency_key)

    def update(self, endpoint_id: int, request: EndpointPatch) -> Json:
        """Update address, events, or on and off."""
        return self._http.patch(f"{_PATH}/{endpoint_id}", request.model_dump(exclude_none=True))

    def delete(self, endpoint_id: int) -> Json:
        """Delete an endpoint."""
        return self._http.delete(f"{_PATH}/{endpoint_id}")

    def rotate(self, endpoint_id: int, request: RotateRequest, *, idempotency_key: str | None = None) -> Json:
        """Replace the secret; the result holds the new one. The same key with the same request returns it again."""
        path = f"{_PATH}/{endpoint_id}/rotate-secret"
        return self._http.post(path, request.model_dump(), idempotency_key=idempotency_key)

    def test(self, endpoint_id: int) -> Json:
        """Enqueue a test event."""
        return self._http.post(f"{_PATH}/{endpoint_id}/test")
