"""A night's orders: lanes of real worker processes tick, orders come in, and a scenario does its worst meanwhile."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import psycopg

from lib.errors import StoreError
from proof.crash.house import PatientHouse
from tests.crash.processes import TickFailed, Worker
from tests.crash.shop import Shop

Say = Callable[[str], None]

# Settings of the workers. Short times, so that a vendor that is late costs a night seconds; and as many revivals as a
# night can need, because its time is moved.
ENVIRONMENT = {
    "GIFTCARD_MAX_REVIVALS": "50",
    "GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": "4",
    "GIFTCARD_STAGE_ISSUE_CARD_TTR_SECONDS": "4",
}
# So many orders are under way at most.
_OPEN_ORDERS = 24
_SAY_SECONDS = 5.0
_ORDER_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Plan:
    """What is wanted of a scenario. `times`: how often it does its worst; None: its own number.

    `pace`: what its pauses are multiplied by.
    """

    seed: int
    kills: int = 1000
    times: int | None = None
    lanes: int = 4
    plant: str = ""
    pace: float = 1.0


@dataclass(frozen=True)
class Ended:
    """How a tick ended: the words of the database's failure, none if it ended well, and how long it took."""

    words: str
    seconds: float


class Night:
    """A context in which lanes work and orders come in; it ends when every order is done, or `patience` is over.

    `tick`: options of each tick. `ended`: the ticks. `late`: what is not done in the end.
    """

    def __init__(self, shop: Shop, *, lanes: int, say: Say, patience: float = 120.0, **tick: Any) -> None:
        self.shop, self.house, self.patience = shop, _patient(shop), patience
        self.say, self.began = say, time.monotonic()
        self.ended: list[Ended] = []
        self.late: list[str] = []
        self.on_order: Callable[[str], None] = lambda order: None
        self._tick_options = tick
        self._closing, self._give_up = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._said_at = self.began
        self._orders = threading.Thread(target=self._guarded(self._take_orders))
        self._lanes = [threading.Thread(target=self._guarded(self._lane)) for _ in range(lanes)]

    def __enter__(self) -> Self:
        for thread in (*self._lanes, self._orders):
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        if error is not None:
            self._give_up.set()
        self._orders.join()
        until = time.monotonic() + self.patience
        for thread in self._lanes:
            thread.join(max(0.0, until - time.monotonic()))
        self._give_up.set()
        for thread in self._lanes:
            thread.join()
        if error is None and self._failure is not None:
            raise self._failure
        if error is None and not self.shop.all_done():
            self.late = [f"not done {self.patience:g} s after the last order: {row}" for row in self.house.unfinished()]

    @property
    def failed(self) -> Counter[str]:
        """How often ticks failed with which words."""
        return Counter(tick.words for tick in self.ended if tick.words)

    def progress(self, text: str, *, left: float | None = None) -> None:
        """Say how far it is, every few seconds. `left`: the part that is left, from 1 down to 0."""
        self.check()
        now = time.monotonic()
        if now - self._said_at < _SAY_SECONDS:
            return
        self._said_at = now
        spent = now - self.began
        rest = f", about {spent * left / (1 - left):.0f} s left" if left is not None and left < 1 else ""
        jobs = self.house.jobs_done()
        done = "no answer from the database" if jobs is None else f"{jobs:,} jobs done"
        self.say(f"{spent:4.0f} s: {text}, {len(self.shop.orders):,} orders, {done}{rest}")

    def wait(self, seconds: float, text: str) -> None:
        """Let it go on for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.progress(text)
            time.sleep(min(0.1, seconds))

    def wait_until(self, condition: Callable[[], bool], *, seconds: float, what: str) -> bool:
        """Let it go on until this is so; return whether it was within so many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return True
            self.progress(what)
            time.sleep(0.05)
        return False

    def check(self) -> None:
        """Raise what a lane or the shop failed with."""
        if self._failure is not None:
            raise self._failure

    def _guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                act()
            except BaseException as error:  # noqa: BLE001 - raised again in the night's own thread
                self._failure = self._failure or error
                self._give_up.set()
                self._closing.set()

        return run

    def _take_orders(self) -> None:
        while not self._closing.is_set():
            if self._under_way() < _OPEN_ORDERS:
                with suppress(StoreError):  # the shop closes before the database is back
                    until = 0.0 if self._closing.is_set() else time.monotonic() + _ORDER_PATIENCE_SECONDS
                    self.on_order(self.shop.order(until=until))
            else:
                time.sleep(0.02)

    def _under_way(self) -> int:
        done = "select count(*) from giftcard_jobs where stage = 'email' and status = 'completed'"
        try:
            return len(self.shop.orders) - int(self.house.value(done))
        except psycopg.OperationalError:
            return _OPEN_ORDERS

    def _lane(self) -> None:
        worker = self.house.worker()
        while not self._give_up.is_set() and not self._is_done():
            self._tick(worker)
        if not self._give_up.is_set():
            worker.end()

    def _is_done(self) -> bool:
        if not self._closing.is_set() or self._orders.is_alive():
            return False
        with suppress(psycopg.OperationalError):
            return self.shop.all_done()
        return False

    def _tick(self, worker: Worker) -> None:
        began, report, words = time.monotonic(), None, ""
        try:
            report = worker.tick(limit=1000, **self._tick_options)
        except TickFailed as error:
            words = str(error)
        self.ended.append(Ended(words, time.monotonic() - began))
        with suppress(psycopg.OperationalError):
            if worker.pid is not None:  # it does not tick now: what it still holds, it has lost
                self.house.end_leases_of([worker.pid])
            self.house.move_time()
        if words or (report is not None and not report["started"]):
            time.sleep(0.2 if words else 0.02)


def _patient(shop: Shop) -> PatientHouse:
    assert isinstance(shop.house, PatientHouse)
    return shop.house


@contextmanager
def a_shop(url: str, folder: Path, plan: Plan, **environment: str) -> Iterator[Shop]:
    """Yield a shop whose vendor has bad days, over a house that outlives its server. `environment`: of its workers."""
    house = PatientHouse(url, folder, **ENVIRONMENT)
    try:
        shop = Shop(house)
        house.environment |= environment
        shop.vendor.rng = Random(plan.seed + 1)
        shop.vendor.trouble, shop.vendor.late = 0.1, 0.01 * (plan.pace == 1)
        try:
            yield shop
        finally:
            shop.close()
    finally:
        house.close()
