"""The client for the audit: the method of `lib.store.store.Store`."""

from typing import Any

from lib.api_client.transport import Transport


class AuditClient:
    """Signature, result and errors are those of the store."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def list_audit(self, **arguments: Any) -> dict[str, Any]:
        """Return a page of the acts of operators, newest first."""
        return self._http.get("/api/v1/audit", **arguments)
