"""A compressed response costs no more memory than its reader takes, whoever sends it."""

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from lib.api_client.transport import Transport
from lib.errors import TransientError, Unavailable
from lib.jobs.clients import Http
from lib.safe_http.tls import tls
from lib.store.supabase import SupabaseWire
from tests.support.raw_server import Server

# Bytes of memory that a client may take for a response: a vendor's may have 1 MB, those of our own servers 64 MB, which
# are in memory twice when the pieces are put together.
MEMORY = {"vendor": 10_000_000, "api": 200_000_000, "supabase": 200_000_000}


def _http(server: Server) -> Any:
    return Http(until=time.monotonic() + 60).request("GET", server.url).json()


def _api(server: Server) -> Any:
    transport = Transport(server.url.rstrip("/"), token=SecretStr("token"))
    try:
        return transport.get("/api/status")
    finally:
        transport.close()


def _supabase(server: Server) -> Any:
    wire = SupabaseWire(server.url.rstrip("/"), "sb_secret_x", key_variable="SUPABASE_SECRET_KEY")
    try:
        return wire.call("giftcard_status")
    finally:
        wire.close()


CLIENTS: dict[str, Callable[[Server], Any]] = {"vendor": _http, "api": _api, "supabase": _supabase}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    tls()
    yield server
    server.close()


def answers(server: Server, body: bytes, coding: str) -> None:
    server.answer = lambda asked: asked.answer(200, body, Content_Encoding=coding, Content_Type="application/json")


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_bomb_is_not_unpacked(server: Server, client: str) -> None:
    answers(server, gzip.compress(bytes(400_000_000), 1), "gzip")
    tracemalloc.start()
    try:
        with pytest.raises((TransientError, Unavailable)):
            CLIENTS[client](server)
        assert tracemalloc.get_traced_memory()[1] < MEMORY[client]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress)]
)
def test_a_compressed_response_is_read(
    server: Server, client: str, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    answers(server, pack(b'{"a": "' + b"b" * 200_000 + b'"}'), coding)
    assert CLIENTS[client](server) == {"a": "b" * 200_000}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b'{"a": 1}'),
        ("gzip", gzip.compress(b'{"a": 1}')[:-4]),
        ("gzip, gzip", gzip.compress(gzip.compress(b'{"a": 1}'))),
        ("br", b'{"a": 1}'),
    ],
    ids=["plain", "cut", "twice", "brotli"],
)
def test_what_cannot_be_unpacked_is_no_response(server: Server, client: str, coding: str, body: bytes) -> None:
    answers(server, body, coding)
    with pytest.raises((TransientError, Unavailable)):
        CLIENTS[client](server)


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_else_is_asked_for(server: Server, client: str) -> None:
    answers(server, b'{"a": 1}', "identity")
    assert CLIENTS[client](server) == {"a": 1}
    assert server.asked[0].headers["accept-encoding"] == "gzip"
