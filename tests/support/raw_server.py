"""A real HTTP(S) server on this machine that answers as it is told, and keeps what it was asked."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Asked"], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the way to answer it. `address`: that of ours which it was sent to. Headers by lower-case name."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    address: str
    wire: BaseHTTPRequestHandler
    closing: threading.Event

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """A proper answer; underscores in the names of headers stand for hyphens."""
        self.wire.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.wire.send_header(name.replace("_", "-"), value)
        self.wire.end_headers()
        if self.method != "HEAD":
            self.wire.wfile.write(body)

    def raw(self, *parts: bytes, pause: float = 0) -> None:
        """These bytes and no others, with a pause (seconds) after each part; then the connection is closed."""
        for part in parts:
            self.wire.wfile.write(part)
            if self.closing.wait(pause):
                return


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle: that is what they are here for."""


class Server:
    """`answers` are given one after the other, `answer` when there are none left."""

    def __init__(self, *, address: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.answer: Answer = lambda asked: asked.answer(200, b"yes")
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self._server = _Quiet((address, 0), _handler_of(self))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def then(self, *answers: Answer | int) -> None:
        """How the next requests are answered; a number is a status."""
        self.answers += [_status(answer) if isinstance(answer, int) else answer for answer in answers]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def _status(status: int) -> Answer:
    return lambda asked: asked.answer(status, b"" if status in (204, 304) else f"status {status}".encode())


def _handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.take
            raise AttributeError(name)

        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            address = self.connection.getsockname()[0]
            asked = Asked(self.command, self.path, headers, body, address, self, server.closing)
            server.asked.append(asked)
            (server.answers.pop(0) if server.answers else server.answer)(asked)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    return Handler


@contextmanager
def a_server(**options: Any) -> Iterator[Server]:
    """A server that is up."""
    server = Server(**options)
    try:
        yield server
    finally:
        server.close()


def hang_up(asked: Asked) -> None:
    """Closes the connection without a word."""
    asked.wire.connection.shutdown(socket.SHUT_RDWR)


def never(asked: Asked) -> None:
    """Says nothing until the test is over."""
    asked.closing.wait(30)


def dripping(asked: Asked) -> None:
    """A byte of its header each twentieth of a second: each comes in time, all of them do not."""
    asked.raw(*[bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"." * 600], pause=0.05)


def cut(asked: Asked) -> None:
    asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def nonsense(asked: Asked) -> None:
    asked.raw(b"\x00\x01\x02 not HTTP\r\n\r\n")


def endless_header(asked: Asked) -> None:
    asked.raw(b"HTTP/1.1 200 OK\r\n", *[b"X-More: " + b"." * 60_000 + b"\r\n"] * 100)


def early_hints_for_ever(asked: Asked) -> None:
    asked.raw(*[b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"] * 1_000, pause=0.05)


def redirect(status: int, location: str) -> Answer:
    return lambda asked: asked.answer(status, Location=location)
