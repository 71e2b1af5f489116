"""A worker of the crash tests: a process of its own, which ticks when it is told to.

It is forked from a process that has imported everything (`tests.crash.warm`), and only waits: the process that works is
its child, and a killed child has a successor at once. Its answers tell of it: {"ready": pid}, {"killed": pid}. Each
order is a number and the arguments of a tick; the answer is {"tick": number, "report": …}, or "failed" with the error
of a tick that the database failed. Log lines go to a file. It ends, with its child's exit code, when its orders do and
after the tick in which SIGTERM came.
"""

import importlib
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lib import stages
from lib.config.load import load
from lib.config.settings import Settings
from lib.errors import StoreError
from lib.jobs.registry import Registry
from lib.store.store import Store
from lib.telemetry import events
from lib.tick.shutdown import Shutdown
from lib.tick.tick import run_tick
from tests.crash.doom import Appointments, DoomedWire
from tests.crash.tasks import task

_CRYPTOGRAPHY = (
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.hkdf",
)
_SAMPLE = {"customer": {"given_name": "Zoë", "email": "zoe@example.com"}, "amount": {"amount": 100, "currency": "USD"}}


def main(
    kind: str, folder: str, orders: Connection, answers: Connection, environment: dict[str, str], log: str
) -> None:
    """One child after another, as long as they are killed. The appointments lie in the folder."""
    os.setsid()  # so that both end with one signal
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), 2)
    registry = warm_up() if kind == "orders" else Registry({task.name: task})
    while True:
        child = os.fork()
        if child == 0:
            _work(registry, Path(folder), orders, answers)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(code)
        answers.send({"killed": child})


@cache
def warm_up() -> Registry:
    """What handlers import and read when they first need it: half a second, which no worker has to spend again."""
    import httpx

    from lib.giftcards.mail import giftcard_mail
    from lib.giftcards.orders import Order
    from lib.giftcards.personal_codes import candidates

    registry = stages.load()
    for name in ("certifi", *_CRYPTOGRAPHY, "smtplib"):
        importlib.import_module(name)
    httpx.Client().close()
    order = Order.model_validate(_SAMPLE)
    candidates(order.customer.given_name, None, attempt=1, rng=random.Random())
    sender = order.customer.email
    names = {"message_id": "<a@b>", "personal_code": "ZOE0001", "card_number": "0" * 16}
    sent: dict[str, Any] = names | {"sender": sender}
    giftcard_mail(**sent, sent_at=datetime.now(UTC), order=order)
    return registry


def _work(registry: Registry, folder: Path, orders: Connection, answers: Connection) -> None:
    shutdown = Shutdown()
    shutdown.on_sigterm()
    events.configure(readable=False, level="debug")  # each start, to compare them with the history
    chosen = load()
    assert chosen.database_url is not None
    store = Store(DoomedWire(chosen.database_url.get_secret_value(), Appointments(folder)))
    answers.send({"ready": os.getpid()})
    for number, options in _read(orders):
        with shutdown.tick() as stop:
            answers.send({"tick": number} | _tick(store, registry, chosen, stop, options))
        if stop.is_set():
            break
    store.close()


def _tick(
    store: Store, registry: Registry, chosen: Settings, stop: threading.Event, options: dict[str, Any]
) -> dict[str, Any]:
    try:
        report = run_tick(store, registry, chosen, source="crash test", stop=stop, **options)
    except StoreError as error:
        return {"failed": str(error)}
    return {"report": report.as_json()}


def _read(orders: Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """In whole reads: a process that is killed leaves no half of an order to the next one."""
    while lines := os.read(orders.fileno(), 65536):
        yield from map(json.loads, lines.splitlines())
