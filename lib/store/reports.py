"""The calls about days and about other queues: reports of what was, messages that become jobs."""

from datetime import date
from typing import Any

from lib.store.calls import Calls


class ReportCalls(Calls):
    """What each does is told where it is made: `supabase/schemas/55_reports.sql`, `80_pgmq.sql`."""

    def make_report(self, tenant_id: str, *, day: date | None) -> dict[str, Any]:
        """The report of a tenant's day, made now and kept. `day` None: yesterday, by the database's clock."""
        return self._dict("giftcard_make_report", repeat=True, tenant_id=tenant_id, day=day and day.isoformat())

    def report(self, tenant_id: str, *, day: date) -> dict[str, Any]:
        """As it was last made. Refused(GC404): never."""
        return self._dict("giftcard_report", repeat=True, tenant_id=tenant_id, day=day.isoformat())

    def list_reports(self, *, tenant_id: str | None, older: str | None, limit: int) -> dict[str, Any]:
        """A page of them, the newest day first."""
        return self._dict("giftcard_list_reports", repeat=True, tenant_id=tenant_id, older=older, limit=limit)

    def report_tenants(self, day: date) -> list[str]:
        """Tenants in which something happened on that day, the first thousand."""
        tenants: list[str] = self._wire.call("giftcard_report_tenants", repeat=True, day=day.isoformat())
        return tenants

    def read_pgmq(self, queues: tuple[str, ...], *, limit: int) -> dict[str, dict[str, Any]]:
        """Read messages of pgmq queues, which no one else reads for a minute. `limit` 0: only check each queue."""
        return self._dict("giftcard_read_pgmq", repeat=True, queues=queues, limit=limit)

    def import_pgmq(self, batches: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        """Archive messages and enqueue their jobs, by queue: all of a queue or none."""
        return self._dict("giftcard_import_pgmq", repeat=True, batches=batches)
