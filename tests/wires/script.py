"""A server that says what it is told to say, and remembers what it was asked: gateways, proxies, error pages."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Script:
    """The answer to every request. The names of the headers of `asked` are in lower case."""

    url: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    body: bytes = b"null"
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        script = self.server.script
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        script.asked.append((self.command, self.path, headers, body))
        self.send_response(script.status)
        for name, value in script.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(script.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class _Server(ThreadingHTTPServer):
    script: Script


@contextmanager
def scripted() -> Iterator[Script]:
    """The server, on a thread of this process."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.script = Script(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    try:
        yield server.script
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
