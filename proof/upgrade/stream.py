"""Orders as clients send them: at a pace, each to one of the processes, and again where nothing was answered."""

import itertools
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from proof.upgrade.fleet import Process

# Seconds in which all orders come at the earliest: in a short run, steps need time to begin.
_SHORTEST = 10.0
# Every so many orders are to be mailed later, by whichever version runs then.
_DEFERRED, _LATER = 4, timedelta(seconds=2)


class Stream:
    """`orders`: how many come at least. They come until `ended` is set: longer, if the steps take longer."""

    def __init__(self, orders: int) -> None:
        self.names: list[str] = []
        self.ended = False
        self._again: list[dict[str, Any]] = []
        self._pace, self.backlog = orders / _SHORTEST, max(10, orders // 20)
        self._turns = itertools.count()
        self._began = time.monotonic()

    def repeat(self, orders: Sequence[dict[str, Any]]) -> None:
        """Send these again, whether they were taken in or not: each order is one, however often it is sent."""
        self._again += orders

    def hand(self, processes: Sequence[Process], *, open_orders: int) -> None:
        """Hand out what has come, as long as few enough orders are open."""
        free = self.backlog - open_orders
        while processes and (self._again or free > 0):
            order = self._again.pop() if self._again else self._next()
            if order is None:
                return
            free -= 1
            processes[next(self._turns) % len(processes)].hand(order)

    def _next(self) -> dict[str, Any] | None:
        if self.ended or len(self.names) >= (time.monotonic() - self._began) * self._pace:
            return None
        number = len(self.names) + 1
        name = f"order-{number:05}"
        self.names.append(name)
        later = {"deliver_at": (datetime.now(UTC) + _LATER).isoformat()} if number % _DEFERRED == 0 else {}
        customer = {"given_name": "Kate", "email": f"{name}@example.com"}
        amount = {"amount": 1000 + number, "currency": "USD"}
        return {"correlation_id": name, "customer": customer, "amount": amount, **later}
