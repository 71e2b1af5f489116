"""A payment service over HTTP with proper idempotency: the same key always gets the same response."""

import hmac
import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from demo.scenario import BUSY_TIMES, Behavior

_MAX_WAIT = 20.0  # seconds; longer than any client waits
_POLL_INTERVAL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A charge; `reference` is its order, `amount` is in minor units."""

    id: str
    key: str
    reference: str
    amount: int
    currency: str


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    body: dict[str, Any]
    order: dict[str, Any] = field(default_factory=dict)
    silent: bool = False


_UNAUTHORIZED = _Response(401, {"error": "unauthorized"})


class PaymentService:
    """The service and its charges. `broken_times`: how many 500 responses a broken order gets."""

    def __init__(self, behaviors: Mapping[str, Behavior], *, token: str, broken_times: int) -> None:
        self.charges: list[Charge] = []
        self.requests: Counter[str] = Counter()
        """The number of requests by order."""
        self.without_response: list[str] = []
        """Orders that were charged without a response, in sequence."""
        self.declined: set[str] = set()
        self.waiting = 0
        """Requests that currently wait for a response."""
        self.token = token
        self._behaviors = behaviors
        self._broken_times = broken_times
        self._responses: dict[str, _Response] = {}
        self._lock = threading.Lock()
        self._withholding = False
        self._wake = threading.Event()
        self._server = _Server(self)

    @property
    def url(self) -> str:
        """The URL of charges."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/charges"

    def __enter__(self) -> "PaymentService":
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="payments", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wake.set()
        self._server.shutdown()
        self._server.server_close()

    def withhold_responses(self) -> None:
        """Charge without responding from now on."""
        self._withholding = True

    def resume_responses(self) -> None:
        """Respond again; waiting requests get no response, their connections are closed."""
        self._withholding = False
        self._wake.set()
        self._wake = threading.Event()

    def charge(self, key: str, order: dict[str, Any]) -> _Response:
        """Charge an order and return the response. The charge stands even if the response does not arrive."""
        with self._lock:
            reference = str(order["reference"])
            self.requests[reference] += 1
            known = self._responses.get(key)
            if known is not None:
                return (
                    known if known.order == order else _Response(422, {"error": "this key was used for another charge"})
                )
            behavior = self._behaviors.get(reference)
            if behavior == "busy" and self.requests[reference] <= BUSY_TIMES:
                return _Response(503, {"error": "too many requests"})
            if behavior == "broken" and self.requests[reference] <= self._broken_times:
                return _Response(500, {"error": "internal error"})
            self._responses[key] = self._decide(key, order, reference, behavior)
            silent = behavior == "silent" or self._withholding
            if silent and behavior != "declined":
                self.without_response.append(reference)
                return _Response(201, {}, silent=True)
            return self._responses[key]

    def _decide(self, key: str, order: dict[str, Any], reference: str, behavior: Behavior | None) -> _Response:
        if behavior == "declined":
            self.declined.add(reference)
            return _Response(402, {"error": "declined"}, order)
        charge = Charge(
            id=f"ch_{len(self.charges) + 1:04}",
            key=key,
            reference=reference,
            amount=order["amount"],
            currency=order["currency"],
        )
        self.charges.append(charge)
        return _Response(201, {"id": charge.id, "status": "succeeded"}, order)

    def find(self, key: str) -> _Response:
        """Return the response stored under a key."""
        with self._lock:
            return self._responses.get(key) or _Response(404, {"error": "unknown key"})

    def hold(self, disconnected: Callable[[], bool]) -> None:
        """Hold a request until responses are resumed or its client disconnects."""
        with self._lock:
            wake = self._wake
            self.waiting += 1
        end = time.monotonic() + _MAX_WAIT
        while not wake.wait(_POLL_INTERVAL) and not disconnected() and time.monotonic() < end:
            pass
        with self._lock:
            self.waiting -= 1


class _Server(ThreadingHTTPServer):
    def __init__(self, service: PaymentService) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients disconnect or are killed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("Idempotency-Key")
        if not self._is_known():
            self._send(_UNAUTHORIZED)
        elif not key:
            self._send(_Response(400, {"error": "Idempotency-Key is missing"}))
        else:
            self._send(self.server.service.charge(key, json.loads(body)))

    def do_GET(self) -> None:
        keys = parse_qs(urlsplit(self.path).query).get("idempotency_key", [""])
        self._send(self.server.service.find(keys[0]) if self._is_known() else _UNAUTHORIZED)

    def _is_known(self) -> bool:
        return hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.server.service.token}")

    def _send(self, response: _Response) -> None:
        if response.silent:
            self.server.service.hold(self._disconnected)
            self.close_connection = True
            return
        content = json.dumps(response.body).encode()
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if response.status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(content)

    def _disconnected(self) -> bool:
        try:
            readable = select.select([self.connection], [], [], 0)[0]
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
