"""The receivers of webhooks (a shop, a bookkeeper), of alerts and of scheduled calls: one HTTP server.

It records all requests.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from demo.scenario import CALL_FAILURES, SHOP_BUSY_TIMES

SHOP, BOOKKEEPER, ALERTS, PING, TRANSFER = "/shop", "/bookkeeper", "/alerts", "/ping", "/transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A received scheduled call. `at`: seconds of the monotonic clock; `status`: of the response."""

    path: str
    key: str
    attempt: int
    status: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A webhook with a valid signature; `id` is the event's. `status`: of the response."""

    path: str
    id: str
    type: str
    data: dict[str, Any]
    status: int


class Receiver:
    """The server and its records."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.messages: list[Message] = []
        self.forged: list[str] = []
        """Webhooks with an invalid signature."""
        self.alerts: list[dict[str, Any]] = []
        self._secrets: dict[str, str] = {}
        self._requests: Counter[str] = Counter()
        self._first_key: str | None = None
        self._lock = threading.Lock()
        self._server = _Server(self)

    def url(self, path: str) -> str:
        """Return the URL of a receiver."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def set_secret(self, path: str, *, secret: str) -> None:
        """Set the secret that signs the webhooks of a path."""
        self._secrets[path] = secret

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="receiver", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Record a request and return the status of the response."""
        with self._lock:
            self._requests[path] += 1
            if path in (SHOP, BOOKKEEPER):
                return self._webhook(path, headers, body)
            if path in (PING, TRANSFER):
                return self._call(path, headers)
            if path == ALERTS:
                self.alerts.append(json.loads(body))
                return 204
            return 404

    def _webhook(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        try:
            event = Webhook(self._secrets[path]).verify(body, dict(headers))
        except (KeyError, WebhookVerificationError) as error:
            self.forged.append(f"{path}: {error}")
            return 403
        busy = path == SHOP and self._requests[path] <= SHOP_BUSY_TIMES
        status = 410 if path == BOOKKEEPER else 503 if busy else 204
        self.messages.append(
            Message(path=path, id=headers["webhook-id"], type=event["type"], data=event["data"], status=status)
        )
        return status

    def _call(self, path: str, headers: Mapping[str, str]) -> int:
        key = headers["idempotency-key"]
        if path == PING:
            self._first_key = self._first_key or key
            failures = sum((call.path, call.key) == (path, key) for call in self.calls)
            status = 503 if key == self._first_key and failures < CALL_FAILURES else 200
        else:
            status = 500
        self.calls.append(
            Call(path=path, key=key, attempt=int(headers["x-attempt"]), status=status, at=time.monotonic())
        )
        return status


class _Server(ThreadingHTTPServer):
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(self.server.receiver.receive(self.path, headers, body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
