"""Calls for daily reports and pgmq imports."""

from datetime import date
from typing import Any

from lib.caller import Caller
from lib.store.calls import Calls


class ReportCalls(Calls):
    """Documented in `supabase/schemas/`: 55, 56, 80 and 82."""

    def make_report(self, tenant_id: str, *, day: date | None, caller: Caller | None = None) -> dict[str, Any]:
        """Create and store the report of a tenant's day. `day` None: yesterday by the database's clock.

        `caller` None: no act of an operator.
        """
        arguments = {"tenant_id": tenant_id, "day": day and day.isoformat(), "by": caller and caller.name}
        return self._dict("giftcard_make_report", repeat=True, **arguments)

    def report(self, tenant_id: str, *, day: date) -> dict[str, Any]:
        """Return the stored report. Raise Refused (GC404) if there is none."""
        return self._dict("giftcard_report", repeat=True, tenant_id=tenant_id, day=day.isoformat())

    def list_reports(self, *, tenant_id: str | None, older: str | None, limit: int) -> dict[str, Any]:
        """Return a page of reports, newest day first."""
        return self._dict("giftcard_list_reports", repeat=True, tenant_id=tenant_id, older=older, limit=limit)

    def report_tenants(self, day: date, *, after: str | None, limit: int) -> list[str]:
        """Return the first tenants by name with activity on a day. `after`: those after this name."""
        tenants: list[str] = self._wire.call(
            "giftcard_report_tenants", repeat=True, day=day.isoformat(), after=after, limit=limit
        )
        return tenants

    def read_pgmq(
        self, queues: tuple[str, ...], *, limit: int, execution_id: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Read messages of pgmq queues, which no one else reads for a minute. `limit` 0: only check each queue.

        Return {}, and read nothing, while everything is paused, and for an execution id that was delivered before.
        """
        return self._dict("giftcard_read_pgmq", repeat=True, queues=queues, limit=limit, execution_id=execution_id)

    def import_pgmq(self, batches: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        """Archive messages and store each as a job or a dead letter, by queue. `problem`: what stays in its queue."""
        return self._dict("giftcard_import_pgmq", repeat=True, batches=batches)
