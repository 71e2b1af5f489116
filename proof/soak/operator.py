"""An operator at work, over HTTP: pauses, cancels and reopens orders, requeues dead letters."""

import random
import time
from typing import Any

import httpx

from proof.soak.orders import Orders

_STAGES = ("personal_code", "payment", "issue_card", "email")
_TIMEOUT = 15.0
_INSISTS = 120.0
_WHO = {"by": "soak", "reason": "the soak"}


class Operator:
    """`acts`: how many were carried out. Each request is repeated until it is answered by something below 500."""

    def __init__(self, orders: Orders, *, url: str, token: str, seed: int) -> None:
        self.acts = 0
        self._orders = orders
        self._rng = random.Random(seed + 3)
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=_TIMEOUT)

    def pause(self, *, seconds: float) -> None:
        """Pause a stage for so long."""
        stage = self._rng.choice(_STAGES)
        self._do("POST", f"/api/v1/stages/{stage}/pause", json=_WHO)
        time.sleep(seconds)
        self._do("POST", f"/api/v1/stages/{stage}/resume", json=_WHO)

    def cancel(self, *, seconds: float) -> None:
        """Cancel one of the latest orders; reopen most of them after so long."""
        open_orders = sorted(self._orders.snapshot())
        if not open_orders:
            return
        order = open_orders[-1]
        is_reopened = self._rng.random() < 0.75
        self._orders.touch(order, cancel=True)
        self._do("POST", f"/api/v1/flows/{order}/cancel", json={"reason": _WHO["reason"]})
        time.sleep(seconds)
        if not is_reopened:
            return
        # A run that was under way when its flow was cancelled may end long after that.
        end = time.monotonic() + _INSISTS
        while time.monotonic() < end:
            jobs = self._jobs(correlation_id=order)
            for job in jobs:
                if (
                    job["status"] == "error"
                ):  # it ran when the flow was cancelled: its requeue would not reopen the order
                    self._do("POST", f"/api/v1/jobs/{job['id']}/cancel", json={"reason": _WHO["reason"]})
                    job["status"] = "cancelled"
            if cancelled := [job for job in jobs if job["status"] == "cancelled"]:
                self._orders.touch(order, cancel=False)
                for job in cancelled:
                    self._requeue(job)
                return
            if jobs and all(job["status"] == "completed" for job in jobs):
                # It was faster: it is done, or its last run ended without a next job.
                is_done = any(job["stage"] == "email" for job in jobs)
                self._orders.cancelled_late |= {order} if is_done else set()
                self._orders.touch(order, cancel=not is_done)
                return
            time.sleep(1)

    def requeue(self) -> None:
        """Requeue the dead letters."""
        for job in self._jobs(status="error"):
            self._orders.touch(job["correlation_id"])
            self._requeue(job)

    def _requeue(self, job: dict[str, Any]) -> None:
        self._do("POST", f"/api/v1/jobs/{job['id']}/requeue", json={"reason": _WHO["reason"]})

    def _jobs(self, **query: str) -> list[dict[str, Any]]:
        answer = self._do("GET", "/api/v1/jobs", params={"limit": "200", **query})
        jobs: list[dict[str, Any]] = answer.get("jobs", [])
        return jobs

    def _do(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        end = time.monotonic() + _INSISTS
        while True:
            try:
                response = self._client.request(method, path, **options)
                if response.status_code < 500 and response.status_code != 429:
                    self.acts += method == "POST" and response.status_code < 300
                    answer: dict[str, Any] = response.json()
                    return answer
                kind = str(response.status_code)
            except httpx.HTTPError as error:
                kind = type(error).__name__
            self._orders.error(f"operator: {kind}")
            if time.monotonic() > end:
                raise TimeoutError(f"{method} {path} was not answered for {_INSISTS:.0f} s: {kind}")
            time.sleep(0.5)
