"""Each order on its way, as those outside know it. All methods may be called by several threads."""

import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class Accepted:
    """An order that the API has accepted, and when."""

    number: int
    at: float
    is_touched: bool = False
    is_cancelled: bool = False


class Orders:
    """`open`: those accepted and not yet checked, by correlation id. `errors`: how often each kind was met.

    `cancelled_late`: orders that were done when an operator cancelled them, so that their cards differ from the books.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.accepted = 0
        self.checked = 0
        self.cancelled = 0
        self.cancelled_late: set[str] = set()
        self.open: dict[str, Accepted] = {}
        self.errors: Counter[str] = Counter()
        self._answers: list[float] = []
        self._mails: list[float] = []
        self._lock = threading.RLock()

    def next_number(self) -> int:
        """Return the number of the next order."""
        with self._lock:
            self.sent += 1
            return self.sent

    def accept(self, number: int, *, seconds: float) -> None:
        """Note that the API accepted an order, and how long its answer took."""
        with self._lock:
            self.accepted += 1
            self.open[name(number)] = Accepted(number, time.monotonic())
            self._answers.append(seconds)

    def mailed(self, order: str) -> None:
        """Note that the mail of an order came."""
        with self._lock:
            if (accepted := self.open.get(order)) is not None:
                self._mails.append(time.monotonic() - accepted.at)

    def error(self, kind: str) -> None:
        """Count an error that somebody outside met."""
        with self._lock:
            self.errors[kind] += 1

    def touch(self, order: str, *, cancel: bool | None = None) -> None:
        """Note that an operator has acted on an order; `cancel`: whether it stays cancelled."""
        with self._lock:
            if (accepted := self.open.get(order)) is not None:
                accepted.is_touched = True
                accepted.is_cancelled = accepted.is_cancelled if cancel is None else cancel

    def settle(self, orders: list[str], *, cancelled: bool = False) -> None:
        """Note that orders were checked."""
        with self._lock:
            for order in orders:
                self.open.pop(order)
            self.checked += len(orders)
            self.cancelled += len(orders) if cancelled else 0

    def snapshot(self) -> dict[str, Accepted]:
        """Return the open orders of this moment."""
        with self._lock:
            return dict(self.open)

    def take_times(self) -> tuple[list[float], list[float]]:
        """Return the seconds of the API's answers, and from order to mail, since the last call."""
        with self._lock:
            answers, self._answers = self._answers, []
            mails, self._mails = self._mails, []
            return answers, mails


def name(number: int) -> str:
    """Return the correlation id of an order."""
    return f"order-{number:07}"
