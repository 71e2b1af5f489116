"""The other side: a payment and card service with idempotency keys, and a mail server."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from proof.soak.orders import Orders
from tests.crash.house import House
from tests.crash.vendors import Made, Reply, Vendor
from tests.support.mail_server import MailServer

# Seconds that a request takes.
_TAKES = (0.03, 0.4)


class _Merciful:
    """Stands where the crash tests have workers to be killed: nothing is killed from outside."""

    def strike(self, order: str, stage: str, when: str) -> bool:
        return False


class SoakVendor(Vendor):
    """`late`: the share of requests that are carried out and answered after their sender has given up."""

    def __init__(self, *, seed: int, seconds: float) -> None:
        super().__init__(cast(House, _Merciful()))
        self.rng = random.Random(seed)
        self.late = 0.0
        self._seconds = seconds
        self._by_order: dict[str, list[Made]] = {}
        self._indexed = 0

    def post(self, path: str, key: str, body: bytes) -> Reply:
        """Charge or make a card, once for a key, as slowly as vendors do."""
        time.sleep(self.rng.uniform(*_TAKES))
        reply = super().post(path, key, body)
        if self.rng.random() < self.late:
            time.sleep(self._seconds)
        return reply

    def made_for(self, orders: list[str]) -> list[Made]:
        """Return what was made for these orders."""
        made = self.made[self._indexed :]
        self._indexed += len(made)
        for one in made:
            self._by_order.setdefault(one.order, []).append(one)
        return [one for order in orders for one in self._by_order.get(order, [])]

    def doubles(self) -> list[str]:
        """Return a line for each order that was charged, or got a card, more than once."""
        self.made_for([])
        lines = []
        for order, made in self._by_order.items():
            stages = [one.stage for one in made]
            lines += [f"order {order}: the vendor did {each} twice" for each in set(stages) if stages.count(each) > 1]
        return lines


class SoakMailServer(MailServer):
    """`mails_of`: the Message-IDs that came for each order. `count`: all mails."""

    def __init__(self, orders: Orders) -> None:
        super().__init__()
        self.mails_of: dict[str, list[str]] = {}
        self.count = 0
        self._orders = orders
        self._turn = threading.Lock()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Refuse connections within the context."""
        with self._turn:
            self.down()
            try:
                yield
            finally:
                self.up()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's
        """Take a mail; the local part of its recipient is the order."""
        reply = await super().handle_DATA(server, session, envelope)
        for mail, recipients in zip(self.mails, self.recipients, strict=True):
            order = recipients[0].partition("@")[0]
            self._orders.mailed(order)
            self.mails_of.setdefault(order, []).append(str(mail["Message-ID"]))
            self.count += 1
        for kept in (self.mails, self.recipients, self.senders, self.encrypted):
            kept.clear()
        return reply
