"""Operations on reports of days, shared by the web API and the CLI."""

from datetime import date
from typing import Any

from lib.caller import Caller
from lib.store.store import Store

Json = dict[str, Any]


class Reports:
    """The reports in a store. For another tenant than the caller's, every method raises Forbidden."""

    def __init__(self, store: Store, *, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    def make_report(self, tenant_id: str | None, *, day: date | None) -> Json:
        """Create the report of a day, or replace it. `tenant_id` None: the caller's own; `day` None: yesterday."""
        return self._store.make_report(self._caller.tenant(tenant_id), day=day, caller=self._caller)

    def report(self, tenant_id: str, *, day: date) -> Json:
        """Return a report as it was last created."""
        return self._store.report(self._caller.tenant(tenant_id), day=day)

    def list_reports(self, *, tenant_id: str | None, older: str | None, limit: int) -> Json:
        """Return a page of reports, newest day first."""
        return self._store.list_reports(tenant_id=self._caller.only(tenant_id), older=older, limit=limit)
