"""An HTTP vendor for tests: a real server that responds as a test defines and records its requests."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

# 503; or (200, {"id": "x"}); or (429, {}, {"Retry-After": "7"}); or "cut": the connection is closed without a response;
# or "silent": it stays open without one.
Response = int | tuple[int, Any] | tuple[int, Any, dict[str, str]] | Literal["cut", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A received request. `headers` are case-insensitive; `body` is parsed JSON, or text."""

    method: str
    path: str
    headers: Message
    body: Any


@dataclass(slots=True, kw_only=True)
class Vendor:
    """A vendor. It returns `default` (200 and an empty object) after the scripted responses. `url` has no path."""

    url: str
    default: Response = (200, {})
    requests: list[Request] = field(default_factory=list)
    _responses: deque[Response] = field(default_factory=deque)

    def respond(self, *responses: Response) -> None:
        """Set the responses to the next requests, in this order."""
        self._responses.extend(responses)

    def response_to(self, request: Request) -> Response:
        """Record a request and return its response."""
        self.requests.append(request)
        return self._responses.popleft() if self._responses else self.default


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    vendor: Vendor
    closing: threading.Event

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients may disconnect early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _respond(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode(errors="replace")
        request = Request(method=self.command, path=self.path, headers=self.headers, body=_read(text))
        response = self.server.vendor.response_to(request)
        if isinstance(response, str):
            if response == "silent":
                self.server.closing.wait()
            self.close_connection = True
            return
        status, body, headers = (*response, {}, {})[:3] if isinstance(response, tuple) else (response, {}, {})
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815 - the names that the base class calls

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def a_vendor() -> Iterator[Vendor]:
    """Start a vendor on a free local port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.closing = threading.Event()
    server.vendor = Vendor(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.vendor
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
