"""HTTP in front of the service: a thread for each connection, which is kept open."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.postgrest.database import Database
from tests.support.postgrest.requests import Request
from tests.support.postgrest.service import Service


class Server(ThreadingHTTPServer):
    """Listens at once, on a free port; answers while `serve_forever` runs."""

    request_queue_size = 128

    def __init__(self, service: Service) -> None:
        self.service = service
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """What SUPABASE_URL has to be."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or is killed, is no news. A fault of the stand-in is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def _handle(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        content = self.rfile.read(int(headers.get("content-length") or 0))
        answer = self.server.service.answer(Request(self.command, self.path, headers, content))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.content is not None and self.command != "HEAD":
            self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content or b"")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the base's names

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def stand_in(url: str) -> Iterator[Server]:
    """A stand-in over the database at `url`, on a thread of this process."""
    database = Database(url)
    server = Server(Service(database))
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), name="stand-in", daemon=True)
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        database.close()
