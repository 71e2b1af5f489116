"""A vendor at the wire: a real little HTTP server that answers as a test says, and keeps what it was asked."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

# 503; or (200, {"id": "x"}); or (429, {}, {"Retry-After": "7"}); or "cut": the connection is dropped without an answer.
Answer = int | tuple[int, Any] | tuple[int, Any, dict[str, str]] | Literal["cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request. `headers` are found in any case; `body` is JSON as a value, anything else as text."""

    method: str
    path: str
    headers: Message
    body: Any


@dataclass(slots=True, kw_only=True)
class Vendor:
    """Answers `usually` (200 and an empty object) when the script is empty. `url` is its address, without a path."""

    url: str
    usually: Answer = (200, {})
    asked: list[Asked] = field(default_factory=list)
    _script: deque[Answer] = field(default_factory=deque)

    def answers(self, *script: Answer) -> None:
        """What the next requests get, in this order."""
        self._script.extend(script)

    def answer_to(self, asked: Asked) -> Answer:
        """The answer to a request, which is kept."""
        self.asked.append(asked)
        return self._script.popleft() if self._script else self.usually


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    vendor: Vendor

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: clients give up in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode(errors="replace")
        asked = Asked(method=self.command, path=self.path, headers=self.headers, body=_read(text))
        answer = self.server.vendor.answer_to(asked)
        if isinstance(answer, str):
            self.close_connection = True
            return
        status, body, headers = (*answer, {}, {})[:3] if isinstance(answer, tuple) else (answer, {}, {})
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - called by the name of the method

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def a_vendor() -> Iterator[Vendor]:
    """A vendor on a free port of this machine."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.vendor = Vendor(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.vendor
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
