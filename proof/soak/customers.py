"""Customers: each sends an order over HTTP, and repeats it under its idempotency key until it is accepted."""

import queue
import random
import threading
import time
from typing import Any

import httpx

from proof.soak.orders import Orders, name
from proof.soak.plan import Plan

_SENDERS = 6
_TIMEOUT = 15.0
_SYLLABLES = ("ka", "te", "jür", "gen", "ма", "рия", "zo", "ë", "li", "na", "to", "mo", "ay", "şe", "ra")


class Customers:
    """Sends orders at the plan's rate until `stop`; `finish` waits until all that were sent are accepted."""

    def __init__(self, plan: Plan, orders: Orders, *, url: str, token: str) -> None:
        self.refused: list[str] = []
        self._plan, self._orders = plan, orders
        self._rng = random.Random(plan.seed + 1)
        self._waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=_TIMEOUT)
        self._arrivals = threading.Thread(target=self._arrive, name="arrivals", daemon=True)
        self._senders = [threading.Thread(target=self._send, name="customer", daemon=True) for _ in range(_SENDERS)]

    def start(self) -> None:
        """Begin to order."""
        for thread in (self._arrivals, *self._senders):
            thread.start()

    def stop(self) -> None:
        """Order no more."""
        self._stop.set()

    def finish(self, *, seconds: float) -> bool:
        """Wait until each order that was sent is accepted or refused; return whether that is so."""
        self.stop()
        self._arrivals.join()
        for _ in self._senders:
            self._waiting.put(None)
        end = time.monotonic() + seconds
        for sender in self._senders:
            sender.join(max(0.0, end - time.monotonic()))
        return not any(sender.is_alive() for sender in self._senders)

    def _arrive(self) -> None:
        due = time.monotonic()
        while True:
            due += self._rng.expovariate(self._plan.rate / 60)
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            self._waiting.put(self._orders.next_number())

    def _send(self) -> None:
        while (number := self._waiting.get()) is not None:
            wait = 0.2
            while not self._is_answered(number):
                time.sleep(wait)
                wait = min(2.0, wait * 2)

    def _is_answered(self, number: int) -> bool:
        began = time.monotonic()
        try:
            response = self._client.post(
                "/api/v1/giftcards", json=order(number), headers={"Idempotency-Key": name(number)}
            )
        except httpx.HTTPError as error:
            self._orders.error(f"API: {type(error).__name__}")
            return False
        if response.status_code == 202:
            self._orders.accept(number, seconds=time.monotonic() - began)
            return True
        self._orders.error(f"API: {response.status_code}")
        if response.status_code < 500 and response.status_code != 429:
            self.refused.append(f"order {name(number)} was refused: {response.status_code} {response.text[:200]}")
            return True
        return False


def order(number: int) -> dict[str, Any]:
    """Return the body of an order: two of three belong to a customer who has ordered before, or will again."""
    rng = random.Random(number // 2)
    given_name = "".join(rng.choices(_SYLLABLES, k=2)).capitalize()
    return {
        "correlation_id": name(number),
        "customer": {
            "external_id": f"{number // 2:07}-1520" if rng.random() < 0.7 else None,
            "given_name": given_name,
            "family_name": "Rodgers",
            "email": f"{name(number)}@example.com",
        },
        "amount": {"amount": 1000 + number % 9000, "currency": "USD"},
    }
