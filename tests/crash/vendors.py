"""The other side, in the test's process: a payment and card service with true idempotency keys, and a mail server.

Both see who asks, and can kill it: before or after they have done what it asked for.
"""

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from lib.giftcards.cards import new_number
from tests.crash.house import House

_STAGES = {"/charges": "payment", "/cards": "issue_card"}

Reply = tuple[int, dict[str, Any]] | None
"""Status and body; None: the connection ends without a word."""


@dataclass(frozen=True)
class Made:
    """One charge or card: what a real customer would see."""

    stage: str
    order: str
    key: str
    asked: str
    answer: dict[str, Any]


class Vendor:
    """`POST /charges`, `POST /cards` under an Idempotency-Key, `GET …?idempotency_key=`.

    `trouble`: the share of requests that end badly, half of them after it was done. `late`: the share that is done at
    once and answered `late_seconds` later. `hold`: no answer before it. `fates`: how many requests ended in which way.
    `ignores_keys`: each request is a deed of its own.
    """

    def __init__(self, house: House) -> None:
        self.made: list[Made] = []
        self.trouble = self.late = 0.0
        self.late_seconds = 5.0
        self.ignores_keys = False
        self.fates: Counter[str] = Counter()
        self.hold = threading.Event()
        self.hold.set()
        self.asked = threading.Event()
        self.rng = random.Random(1)
        self._house = house
        self._remembered: dict[str, Made] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def forget_keys(self) -> None:
        """As vendors do after a day: the same key would be a new charge."""
        with self._lock:
            self._remembered.clear()

    def post(self, path: str, key: str, body: bytes) -> Reply:
        """Charges or makes a card, once for a key."""
        stage, order = _STAGES[path], str(json.loads(body)["reference"])
        self.asked.set()
        self.hold.wait(30)
        fate = self.rng.random()
        if fate < self.trouble:
            time.sleep(self.rng.random() / 20)
        if self._house.strike(order, stage, "before taking"):
            return self._ends("who asked was killed before the deed", None)
        if fate < self.trouble / 2:
            return self._ends("503 before the deed", (503, {"error": "come again"}))
        reply = self._take(stage, order, key, body.decode())
        if self._house.strike(order, stage, "after taking"):
            return self._ends("who asked was killed after the deed", None)
        if fate < self.trouble * 0.75:
            return self._ends("hung up after the deed", None)
        if fate < self.trouble:
            return self._ends("500 after the deed", (500, {"error": "lost in thought"}))
        if fate > 1 - self.late:
            time.sleep(self.late_seconds)
            return self._ends("no answer in time after the deed", reply)
        return self._ends("answered", reply)

    def _ends(self, fate: str, reply: Reply) -> Reply:
        with self._lock:
            self.fates[fate] += 1
        return reply

    def get(self, key: str) -> Reply:
        """What became of a key, remembered or not."""
        with self._lock:
            found = [made for made in self.made if made.key == key]
        return (200, found[0].answer) if found else (404, {"error": "nothing happened under this key"})

    def close(self) -> None:
        """Stops serving."""
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, stage: str, order: str, key: str, asked: str) -> Reply:
        with self._lock:
            before = None if self.ignores_keys else self._remembered.get(key)
            if before is not None and (before.stage, before.asked) != (stage, asked):
                return 422, {"error": "this key was used for another request"}
            if before is None:
                answer: dict[str, Any] = {"id": f"{stage}-{len(self.made) + 1}"}
                if stage == "issue_card":
                    answer["number"] = new_number(self.rng)
                before = Made(stage, order, key, asked, answer)
                self.made.append(before)
                self._remembered[key] = before
            return 201, before.answer


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # whoever asked is dead: nothing to tell
            super().handle_error(request, client_address)


def _handler(vendor: Vendor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            key, length = self.headers["Idempotency-Key"], int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:  # its sender died on the way
                return
            self._reply(vendor.post(self.path, key, body) if key else (400, {"error": "send an Idempotency-Key"}))

        def do_GET(self) -> None:
            self._reply(vendor.get(parse_qs(urlsplit(self.path).query)["idempotency_key"][0]))

        def _reply(self, reply: Reply) -> None:
            self.close_connection = True
            if reply is None:
                return
            body = json.dumps(reply[1]).encode()
            self.send_response(reply[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class Mailbox:
    """A real SMTP server. `mails`: the Message-IDs that came for each order, in the order they came."""

    def __init__(self, house: House) -> None:
        self.mails: dict[str, list[str]] = {}
        self._house = house
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._controller = Controller(self, hostname="127.0.0.1", port=port)
        self._controller.start()
        self.url = f"smtp://127.0.0.1:{port}"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """One message, to one recipient: the local part is the order."""
        order = envelope.rcpt_tos[0].partition("@")[0]
        if self._house.strike(order, "email", "before taking"):
            return "451 the line went dead"
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.setdefault(order, []).append(str(message_from_bytes(content)["Message-ID"]))
        self._house.strike(order, "email", "after taking")
        return "250 taken"

    def close(self) -> None:
        """Stops serving."""
        self._controller.stop()
