"""A real server for tests: a vendor over HTTP that keeps its promises about idempotency keys."""

import itertools
import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lib.giftcards.cards import has_valid_check_digit
from lib.safe_http.tls import tls

_SILENCE = 30  # seconds: longer than any client of a test waits


@dataclass(frozen=True, slots=True)
class Taken:
    """One thing that the vendor really did: money taken, or a card made."""

    key: str
    amount: int
    currency: str
    reference: str


@dataclass(slots=True)
class Vendor:
    """Takes money (or makes cards, which answer with a number), once for each Idempotency-Key.

    The first answer to a key is stored and repeated, also a decline, also if nobody heard it. `then`: the next POSTs go
        "ok"          as they should (what comes when nothing was told)
        "silent"      takes it, then does not answer
        "cut"         takes it, then drops the connection
        "gone"        drops the connection before it has looked
        "decline"     402, stored under the key
        "garbage"     takes it, then answers 200 with something that is not JSON
        "nameless"    takes it, then answers 200 with a JSON object whose id is null
        503 or (429, {"Retry-After": "7"})    that status, nothing taken, nothing stored
    """

    url: str
    makes_cards: bool = False
    taken: list[Taken] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    numbers: Iterator[str] = field(default_factory=lambda: _card_numbers())
    _moods: deque[Any] = field(default_factory=deque)
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def then(self, *moods: Any) -> None:
        """How the next requests go, in this order."""
        self._moods.extend(moods)

    def calm(self) -> None:
        """The next requests go as they should."""
        self._moods.clear()

    def forget(self) -> None:
        """The keys are no longer alive here; what was taken stays taken."""
        self.answers.clear()

    def mood(self) -> Any:
        return self._moods.popleft() if self._moods else "ok"

    def do(self, key: str, body: dict[str, Any], *, decline: bool) -> tuple[int, dict[str, Any]]:
        """The answer that is stored under the key; made now if there is none."""
        with self._lock:
            if key not in self.answers:
                self.answers[key] = (402, {"error": "declined"}) if decline else (201, self._take(key, body))
            return self.answers[key]

    def _take(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        reference = f"{'card' if self.makes_cards else 'ch'}_{len(self.taken) + 1}"
        self.taken.append(Taken(key, body["amount"], body["currency"], reference))
        return {"id": reference} | ({"number": next(self.numbers)} if self.makes_cards else {})


def _card_numbers() -> Iterator[str]:
    """Of a range that ours are not in."""
    return filter(has_valid_check_digit, map(str, itertools.count(9911_0000_0000_0000)))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        vendor = self.server.vendor
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        mood = vendor.mood()
        vendor.keys.append(key)
        vendor.bodies.append(body)
        vendor.tokens.append(self.headers["Authorization"])
        if mood == "gone":
            return self._drop()
        if isinstance(mood, int | tuple):
            status, headers = mood if isinstance(mood, tuple) else (mood, {})
            return self._answer(status, '{"error": "not now"}', **headers)
        status, answer = vendor.do(key, body, decline=mood == "decline")
        if mood == "silent":
            vendor.closing.wait(_SILENCE)
            return self._drop()
        if mood == "cut":
            return self._drop()
        text = {"garbage": "<html>Bad gateway</html>", "nameless": '{"id": null}'}.get(mood, json.dumps(answer))
        return self._answer(status, text)

    def do_GET(self) -> None:
        vendor = self.server.vendor
        key = parse_qs(urlsplit(self.path).query)["idempotency_key"][0]
        vendor.looked_up.append(key)
        status, answer = vendor.answers.get(key, (404, {}))
        self._answer(200 if status == 201 else 404, json.dumps(answer))

    def _answer(self, status: int, text: str, **headers: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    vendor: Vendor

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: clients give up in the middle."""


@contextmanager
def a_vendor(*, makes_cards: bool = False) -> Iterator[Vendor]:
    """A vendor on a free port of this machine."""
    tls()  # costs the first request of a process more than a test lets it wait
    server = _Server(("127.0.0.1", 0), _Handler)
    server.vendor = Vendor(url=f"http://127.0.0.1:{server.server_port}/v1/things", makes_cards=makes_cards)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.vendor
    finally:
        server.vendor.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
