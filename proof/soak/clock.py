"""The minute clock, which now and then calls twice, or not at all."""

import random
import threading
import time
import uuid

import httpx

from proof.soak.orders import Orders
from proof.soak.plan import Plan

# The share of calls that are delivered twice, and of those that never come.
_TWICE = 0.1
_MISSED = 0.1
_TIMEOUT = 300.0
_PATH = "/api/cron/giftcard-jobs"


class Clock:
    """`calls`, `doubled`, `missed`: minutes."""

    def __init__(self, plan: Plan, orders: Orders, *, url: str, secret: str) -> None:
        self.calls = self.doubled = self.missed = 0
        self._every = plan.minute
        self._orders = orders
        self._rng = random.Random(plan.seed + 2)
        self._stop = threading.Event()
        self._headers = {"Authorization": f"Bearer {secret}", "User-Agent": "vercel-cron/1.0"}
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT)
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def start(self) -> None:
        """Begin with a call at once."""
        self._thread.start()

    def stop(self) -> None:
        """Call no more; calls that are under way are left alone."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += self._every
            fate = self._rng.random()
            if fate < _MISSED:
                self.missed += 1
                continue
            execution = uuid.uuid4().hex
            times = 2 if fate < _MISSED + _TWICE else 1
            self.calls += 1
            self.doubled += times - 1
            for _ in range(times):
                threading.Thread(target=self._call, args=(execution,), name="call", daemon=True).start()

    def _call(self, execution: str) -> None:
        try:
            response = self._client.get(_PATH, headers={**self._headers, "x-vercel-execution-id": execution})
        except httpx.HTTPError as error:
            self._orders.error(f"clock: {type(error).__name__}")
            return
        if response.status_code != 200:
            self._orders.error(f"clock: {response.status_code}")
