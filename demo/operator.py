"""Requests of an operator and of an uptime monitor to the application."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from demo.receivers import BOOKKEEPER, PING, SHOP, TRANSFER, Receiver
from demo.scenario import CALL_CRON, CALL_FAILURES, MONITOR_EVERY, REPORT_CRON, TRANSFER_CRON

_TIMEOUT = 30.0


class Operator:
    """An operator of one tenant with the admin token."""

    def __init__(self, url: str, receiver: Receiver, *, tenant: str) -> None:
        self.is_done = False
        """Whether the report is scheduled, the last request."""
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {os.environ['GIFTCARD_ADMIN_TOKEN']}"}, timeout=_TIMEOUT
        )
        self._receiver = receiver
        self._tenant = tenant
        self._shop = 0
        self._pings = 0
        self._checked_at = 0.0

    def create_endpoints(self) -> None:
        """Create the webhook endpoints: cards and failures for the shop, reports for the bookkeeper."""
        self._shop = self._endpoint(SHOP, ["giftcard.issued", "giftcard.failed", "report.ready"])
        self._endpoint(BOOKKEEPER, ["report.ready"])

    def schedule_calls(self) -> None:
        """Schedule a recurring ping, and a transfer that must not be sent twice."""
        self._pings = self._schedule("ping", CALL_CRON, api=self._to(PING), max_retry_count=CALL_FAILURES)
        self._schedule(
            "transfer",
            TRANSFER_CRON,
            api=self._to(TRANSFER),
            type="AT_MOST_ONCE",
            is_recurring=False,
            max_retry_count=5,
        )

    def check_health(self) -> None:
        """Check the health at intervals, like an uptime monitor, which also sends alerts."""
        if time.monotonic() - self._checked_at >= MONITOR_EVERY:
            self._checked_at = time.monotonic()
            with suppress(httpx.HTTPError):  # the next check follows
                self._client.get("/api/health/deep")

    def finish(self) -> None:
        """Delete the ping's schedule, and schedule the daily report."""
        self._client.delete(f"/api/v1/schedules/{self._pings}").raise_for_status()
        self._schedule(
            "report", REPORT_CRON, stage="report", payload={"day": _day_of(self._tenant)}, is_recurring=False
        )
        self.is_done = True

    def disable_shop(self) -> None:
        """Disable the shop's endpoint: its receiver stops with the demo."""
        path = f"/api/v1/webhook-endpoints/{self._shop}"
        self._client.patch(path, json={"enabled": False}).raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _endpoint(self, path: str, events: list[str]) -> int:
        endpoint = self._post("webhook-endpoints", tenant_id=self._tenant, url=self._receiver.url(path), events=events)
        self._receiver.set_secret(path, secret=endpoint["secret"])
        return int(endpoint["id"])

    def _schedule(self, name: str, cron: str, **rest: Any) -> int:
        return int(self._post("schedules", tenant_id=self._tenant, name=name, schedule=cron, **rest)["id"])

    def _to(self, path: str) -> dict[str, str]:
        return {"url": self._receiver.url(path)}

    def _post(self, to: str, **body: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._client.post(f"/api/v1/{to}", json=body).raise_for_status().json()
        return result


def _day_of(tenant: str) -> str:
    """Return the day of a tenant's orders: `2026-11-27` of `demo-20261127-181500`."""
    day = tenant.split("-")[1]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


@contextmanager
def operator(url: str, receiver: Receiver, *, tenant: str) -> Iterator[Operator]:
    """Yield an operator with webhook endpoints."""
    created = Operator(url, receiver, tenant=tenant)
    try:
        created.create_endpoints()
        yield created
    finally:
        created.close()
