"""The HTTP client of handlers: it never waits past its time, and every way to get no answer is one failure."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lib.errors import TransientError
from lib.jobs.clients import Http

Answer = Callable[[BaseHTTPRequestHandler], None]


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up in the middle: that is what they are here for."""


class Server:
    """Answers each request as it is told, and keeps the paths it was asked for."""

    def __init__(self) -> None:
        self.answer: Answer = plain
        self.paths: list[str] = []
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told.paths.append(self.path)
                told.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def plain(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(b"yes")


def silent(request: BaseHTTPRequestHandler) -> None:
    time.sleep(1)


def dripping(request: BaseHTTPRequestHandler) -> None:
    """A byte each twentieth of a second: each comes in time, all of them do not."""
    request.send_response(200)
    request.end_headers()
    for _ in range(40):
        request.wfile.write(b".")
        request.wfile.flush()
        time.sleep(0.05)


def dripping_headers(request: BaseHTTPRequestHandler) -> None:
    """The same before the body."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(40):
        request.wfile.write(b".")
        request.wfile.flush()
        time.sleep(0.05)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(100):
        request.wfile.write(b"." * 100_000)


def moved(request: BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "/elsewhere")
    request.end_headers()


def cut(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    request.wfile.write(b"half")


def nonsense(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"\x00\x01\x02\r\n\r\n")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def http(seconds: float = 5) -> Http:
    return Http(until=time.monotonic() + seconds)


def test_answer_is_read_whole(server: Server) -> None:
    answer = http().request("GET", server.url, params={"a": "b c"}, headers={"X": "y"})
    assert (answer.status_code, answer.text, server.paths) == (200, "yes", ["/?a=b+c"])


@pytest.mark.parametrize("way", [silent, dripping, dripping_headers])
def test_answer_that_takes_too_long_is_given_up_in_time(server: Server, way: Answer) -> None:
    server.answer = way
    began = time.monotonic()
    with pytest.raises(TransientError):
        http(0.3).request("GET", server.url)
    assert time.monotonic() - began < 0.8


@pytest.mark.parametrize("way", [cut, nonsense])
def test_broken_answer_is_no_answer(server: Server, way: Answer) -> None:
    server.answer = way
    with pytest.raises(TransientError, match=r"^127\.0\.0\.1: "):
        http().request("GET", server.url)


def test_answer_of_more_than_a_megabyte_is_not_read_on(server: Server) -> None:
    server.answer = endless
    with pytest.raises(TransientError, match="more than 1000000 bytes"):
        http().request("GET", server.url)


def test_redirects_are_not_followed(server: Server) -> None:
    server.answer = moved
    assert http().request("GET", server.url).status_code == 302
    assert server.paths == ["/"]


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransientError, match="ConnectError"):
        http().request("GET", f"http://127.0.0.1:{port}/")


def test_name_of_nobody_is_no_answer() -> None:
    with pytest.raises(TransientError, match=r"^nobody\.invalid: "):
        http().request("GET", "http://nobody.invalid/")


def test_without_time_left_nothing_is_asked(server: Server) -> None:
    with pytest.raises(TransientError, match="no time left"):
        http(-1).request("GET", server.url)
    assert server.paths == []


def test_failure_never_repeats_the_address_with_its_secrets() -> None:
    with pytest.raises(TransientError) as failure:
        http().request("GET", "http://user:hunter2-secret@127.0.0.1:9/path?token=hunter3-secret")
    assert "hunter" not in str(failure.value)
