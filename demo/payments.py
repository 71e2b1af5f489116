"""A payment service over HTTP, as good ones are: what an Idempotency-Key was answered, it is answered again."""

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

from demo.scenario import BUSY_TIMES, Fate

_LONGEST_SILENCE = 20.0  # seconds; longer than any client waits
_LISTEN_EVERY = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Money that was taken; `reference` is the order it was taken for, `amount` is in minor units."""

    id: str
    key: str
    reference: str
    amount: int
    currency: str


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: dict[str, Any]
    order: dict[str, Any] = field(default_factory=dict)
    silent: bool = False


_STRANGER = _Answer(401, {"error": "who are you?"})


class PaymentService:
    """The service and its books. `broken_times`: how often a broken order is answered 500."""

    def __init__(self, fates: Mapping[str, Fate], *, token: str, broken_times: int) -> None:
        self.charges: list[Charge] = []
        self.asked: Counter[str] = Counter()
        """Requests by order."""
        self.silences: list[str] = []
        """Orders whose money was taken while the answer was not given, in their order."""
        self.declined: set[str] = set()
        self.held = 0
        """Requests that wait for an answer right now."""
        self.token = token
        self._fates = fates
        self._broken_times = broken_times
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.Lock()
        self._frozen = False
        self._wake = threading.Event()
        self._server = _Server(self)

    @property
    def url(self) -> str:
        """Where charges are made."""
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

    def freeze(self) -> None:
        """From now on money is taken and no answer given."""
        self._frozen = True

    def thaw(self) -> None:
        """Answers again; those who wait still get none, for their connections are dropped."""
        self._frozen = False
        self._wake.set()
        self._wake = threading.Event()

    def charge(self, key: str, order: dict[str, Any]) -> _Answer:
        """What a request is answered. The money is taken here, whether the answer arrives or not."""
        with self._lock:
            reference = str(order["reference"])
            self.asked[reference] += 1
            known = self._answers.get(key)
            if known is not None:
                return (
                    known if known.order == order else _Answer(422, {"error": "this key was used for another charge"})
                )
            fate = self._fates.get(reference)
            if fate == "busy" and self.asked[reference] <= BUSY_TIMES:
                return _Answer(503, {"error": "too many requests at once"})
            if fate == "broken" and self.asked[reference] <= self._broken_times:
                return _Answer(500, {"error": "internal error"})
            self._answers[key] = self._decide(key, order, reference, fate)
            silent = fate == "silent" or self._frozen
            if silent and fate != "declined":
                self.silences.append(reference)
                return _Answer(201, {}, silent=True)
            return self._answers[key]

    def _decide(self, key: str, order: dict[str, Any], reference: str, fate: Fate | None) -> _Answer:
        if fate == "declined":
            self.declined.add(reference)
            return _Answer(402, {"error": "declined"}, order)
        taken = Charge(
            id=f"ch_{len(self.charges) + 1:04}",
            key=key,
            reference=reference,
            amount=order["amount"],
            currency=order["currency"],
        )
        self.charges.append(taken)
        return _Answer(201, {"id": taken.id, "status": "succeeded"}, order)

    def find(self, key: str) -> _Answer:
        """What was answered under a key."""
        with self._lock:
            return self._answers.get(key) or _Answer(404, {"error": "nothing was asked under this key"})

    def keep_waiting(self, hung_up: Callable[[], bool]) -> None:
        """Holds a request back until the service thaws or its client has given up."""
        with self._lock:
            wake = self._wake
            self.held += 1
        end = time.monotonic() + _LONGEST_SILENCE
        while not wake.wait(_LISTEN_EVERY) and not hung_up() and time.monotonic() < end:
            pass
        with self._lock:
            self.held -= 1


class _Server(ThreadingHTTPServer):
    def __init__(self, service: PaymentService) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or is killed, is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("Idempotency-Key")
        if not self._is_known():
            self._send(_STRANGER)
        elif not key:
            self._send(_Answer(400, {"error": "an Idempotency-Key is missing"}))
        else:
            self._send(self.server.service.charge(key, json.loads(body)))

    def do_GET(self) -> None:
        keys = parse_qs(urlsplit(self.path).query).get("idempotency_key", [""])
        self._send(self.server.service.find(keys[0]) if self._is_known() else _STRANGER)

    def _is_known(self) -> bool:
        return hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.server.service.token}")

    def _send(self, answer: _Answer) -> None:
        if answer.silent:
            self.server.service.keep_waiting(self._hung_up)
            self.close_connection = True
            return
        content = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if answer.status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(content)

    def _hung_up(self) -> bool:
        try:
            readable = select.select([self.connection], [], [], 0)[0]
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def log_message(self, format: str, *args: Any) -> None:
        """The display is for the story."""
