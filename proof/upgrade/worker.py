"""A process of one version, with the code of the folder it is started in: it takes orders and runs ticks until SIGTERM.

    python -m proof.upgrade.worker

Ticks come through the application, as the clock's calls do. A line of input is an order to take in, as JSON. Lines of
output are JSON: {"pid", "code_version"} once it is ready, {"status", "started", "problem", "calls"} after each tick,
{"order", "problem"} for an order that was not taken in. Calls are [function, when it began, seconds], by
CLOCK_MONOTONIC.
"""

import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any
from wsgiref.util import setup_testing_defaults

_IDLE_SECONDS = 0.02
_REFUSED_SECONDS = 0.2
_INPUT = 65536


class WatchedWire:
    """A wire that keeps how long each call took."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self.calls: list[tuple[str, float, float]] = []

    def call(self, function: str, /, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        began = time.monotonic()
        try:
            return self._wire.call(function, **arguments)
        finally:
            self.calls.append((function, began, time.monotonic() - began))

    def close(self) -> None:
        """Close the wire."""
        self._wire.close()


class Worker:
    """The application of this process, and what is asked of it."""

    def __init__(self) -> None:
        from api.index import app, services
        from lib.web.services import Services

        assert isinstance(services, Services), services
        self._app, self._services = app, services
        self._stopped = False
        self._rest = b""
        self._wire = WatchedWire(services.store._wire)
        services.store._wire = self._wire
        signal.signal(signal.SIGTERM, self._stop)

    def run(self) -> None:
        """Take orders and run ticks until SIGTERM."""
        from lib.store.store import CODE_VERSION

        _print(pid=os.getpid(), code_version=CODE_VERSION)
        while not self._stopped:
            self._take_orders()
            status, answer = self._tick()
            calls, self._wire.calls = self._wire.calls, []
            problem = " ".join(filter(None, [answer.get("title"), answer.get("detail")]))
            _print(status=status, started=answer.get("started", 0), problem=problem, calls=calls)
            if status != 200:
                time.sleep(_REFUSED_SECONDS)
            elif not answer["started"]:
                time.sleep(_IDLE_SECONDS)
        self._services.store.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True
        self._services.shutdown.asked.set()

    def _take_orders(self) -> None:
        while select.select([sys.stdin], [], [], 0)[0]:
            read = os.read(sys.stdin.fileno(), _INPUT)
            if not read:
                return
            *lines, self._rest = (self._rest + read).split(b"\n")
            for line in lines:
                order = json.loads(line)
                try:
                    self._submit(**order)
                except Exception as error:  # noqa: BLE001 - the caller gets it as a problem
                    _print(order=order["correlation_id"], problem=f"{type(error).__name__}: {error}")

    def _submit(self, correlation_id: str, **content: Any) -> None:
        from lib.giftcards.orders import Order, body_hash
        from lib.giftcards.submit import submit_order

        own = self._services
        order = Order.model_validate(content)
        submit_order(
            order,
            store=own.store,
            registry=own.registry(),
            settings=own.settings,
            tenant_id="default",
            correlation_id=correlation_id,
            body_hash=body_hash(order),
            trigger_type="api",
            idempotency_key=correlation_id,
        )

    def _tick(self) -> tuple[int, dict[str, Any]]:
        environ: dict[str, Any] = {
            "PATH_INFO": "/api/cron/giftcard-jobs",
            "HTTP_AUTHORIZATION": f"Bearer {os.environ['CRON_SECRET']}",
        }
        setup_testing_defaults(environ)
        status = 0

        def start_response(line: str, *_: Any) -> None:
            nonlocal status
            status = int(line.split()[0])

        body = b"".join(self._app(environ, start_response))
        answer: dict[str, Any] = json.loads(body)
        return status, answer


def _print(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    Worker().run()
