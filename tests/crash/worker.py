"""A worker of the crash tests: a process of its own, which ticks when it is told to.

    python -m tests.crash.worker orders|tasks FOLDER      the appointments lie in the folder; settings: environment

It imports everything once and then only waits: the process that works is its child, and a killed child has a successor
at once. Lines on standard output (JSON) tell of it: {"ready": pid}, {"killed": pid}. Each line on standard input is the
arguments of a tick and a number; the answer is {"tick": number, "report": …}. Log lines go to standard error. It ends,
with its child's exit code, when its input does and after the tick in which SIGTERM came.
"""

import importlib
import json
import os
import random
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lib import stages
from lib.config.load import load
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


def main(kind: str, folder: str) -> int:
    """One child after another, as long as they are killed."""
    registry = Registry({task.name: task})
    if kind == "orders":
        registry = stages.load()
        _warm_up()
    while True:
        child = os.fork()
        if child == 0:
            _work(registry, Path(folder))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            return code
        _say({"killed": child})


def _warm_up() -> None:
    """What handlers import and read when they first need it: half a second, which no child has to spend again."""
    import httpx

    from lib.giftcards.mail import giftcard_mail
    from lib.giftcards.orders import Order
    from lib.giftcards.personal_codes import candidates

    for name in ("certifi", *_CRYPTOGRAPHY, "smtplib"):
        importlib.import_module(name)
    httpx.Client().close()
    order = Order.model_validate(_SAMPLE)
    candidates(order.customer.given_name, None, attempt=1, rng=random.Random())
    sender = order.customer.email
    names = {"sender": sender, "message_id": "<a@b>", "personal_code": "ZOE0001", "card_number": "0" * 16}
    giftcard_mail(**names, sent_at=datetime.now(UTC), order=order)


def _work(registry: Registry, folder: Path) -> None:
    shutdown = Shutdown()
    shutdown.on_sigterm()
    events.configure(readable=False, level="debug")  # each start, to compare them with the history
    chosen = load()
    assert chosen.database_url is not None
    store = Store(DoomedWire(chosen.database_url.get_secret_value(), Appointments(folder)))
    _say({"ready": os.getpid()})
    for line in sys.stdin:
        number, options = json.loads(line)
        with shutdown.tick() as stop:
            report = run_tick(store, registry, chosen, source="crash test", stop=stop, **options)
        _say({"tick": number, "report": report.as_json()})
        if stop.is_set():
            break
    store.close()


def _say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
