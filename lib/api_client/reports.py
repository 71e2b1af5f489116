"""The client for reports of days: the methods of `lib.reports.service.Reports`."""

from datetime import date
from typing import Any

from lib.api_client.transport import Transport, segment

Json = dict[str, Any]

_PATH = "/api/v1/reports"


class ReportsClient:
    """Signatures, results and errors are those of `Reports`."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def make_report(self, tenant_id: str | None, *, day: date | None) -> Json:
        """Create the report of a day (None: yesterday), or replace it."""
        body = {"tenant_id": tenant_id, "day": day and day.isoformat()}
        return self._http.post(_PATH, {name: value for name, value in body.items() if value is not None})

    def report(self, tenant_id: str, *, day: date) -> Json:
        """Return a report as it was last created."""
        return self._http.get(f"{_PATH}/{segment(tenant_id)}/{day}")

    def list_reports(self, *, tenant_id: str | None, older: str | None, limit: int) -> Json:
        """Return a page of reports, the newest day first."""
        return self._http.get(_PATH, tenant_id=tenant_id, older=older, limit=limit)
