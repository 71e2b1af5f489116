"""What people and machines beside the clock ask of the application over HTTP: an operator, and an uptime monitor."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from demo.receivers import BOOKKEEPER, PING, SHOP, TRANSFER, Receiver
from demo.scenario import CALL_FAILURES, CALL_TIMES, MONITOR_EVERY, ONCE_TIMES, REPORT_TIMES

_PATIENCE = 30.0


class Desk:
    """An operator of one tenant, with the admin token."""

    def __init__(self, url: str, receiver: Receiver, *, tenant: str) -> None:
        self.is_closed = False
        """Whether the report is on its way, and nothing more will be asked for."""
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {os.environ['GIFTCARD_ADMIN_TOKEN']}"}, timeout=_PATIENCE
        )
        self._receiver = receiver
        self._tenant = tenant
        self._shop = 0
        self._pings = 0
        self._asked_at = 0.0

    def make_endpoints(self) -> None:
        """The shop wants to hear of its cards and of what failed, the bookkeeper of reports."""
        self._shop = self._endpoint(SHOP, ["giftcard.issued", "giftcard.failed", "report.ready"])
        self._endpoint(BOOKKEEPER, ["report.ready"])

    def schedule_calls(self) -> None:
        """A ping again and again, and a transfer that must not be made twice."""
        self._pings = self._schedule("ping", CALL_TIMES, api=self._to(PING), max_retry_count=CALL_FAILURES)
        self._schedule(
            "transfer", ONCE_TIMES, api=self._to(TRANSFER), type="AT_MOST_ONCE", is_recurring=False, max_retry_count=5
        )

    def ask_for_health(self) -> None:
        """Now and then, as an uptime monitor does; whatever is wrong is told to whoever hears alerts."""
        if time.monotonic() - self._asked_at >= MONITOR_EVERY:
            self._asked_at = time.monotonic()
            with suppress(httpx.HTTPError):  # it asks again
                self._client.get("/api/health/deep")

    def close(self) -> None:
        """The pings end, and the day's report is scheduled."""
        self._client.delete(f"/api/v1/schedules/{self._pings}").raise_for_status()
        self._schedule(
            "report", REPORT_TIMES, stage="report", payload={"day": _day_of(self._tenant)}, is_recurring=False
        )
        self.is_closed = True

    def turn_off_shop(self) -> None:
        """Its receiver goes with the demo; what is done afterwards shall not be told to nobody."""
        path = f"/api/v1/webhook-endpoints/{self._shop}"
        self._client.patch(path, json={"enabled": False}).raise_for_status()

    def leave(self) -> None:
        """No more calls."""
        self._client.close()

    def _endpoint(self, path: str, events: list[str]) -> int:
        made = self._post("webhook-endpoints", tenant_id=self._tenant, url=self._receiver.url(path), events=events)
        self._receiver.know(path, secret=made["secret"])
        return int(made["id"])

    def _schedule(self, name: str, times: str, **rest: Any) -> int:
        return int(self._post("schedules", tenant_id=self._tenant, name=name, schedule=times, **rest)["id"])

    def _to(self, path: str) -> dict[str, str]:
        return {"url": self._receiver.url(path)}

    def _post(self, to: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.post(f"/api/v1/{to}", json=body).raise_for_status().json()
        return answer


def _day_of(tenant: str) -> str:
    """`demo-20261127-181500` → `2026-11-27`: the day on which its orders came, by the database's clock."""
    day = tenant.split("-")[1]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


@contextmanager
def desk(url: str, receiver: Receiver, *, tenant: str) -> Iterator[Desk]:
    """The operator, with endpoints for webhooks."""
    made = Desk(url, receiver, tenant=tenant)
    try:
        made.make_endpoints()
        yield made
    finally:
        made.leave()
