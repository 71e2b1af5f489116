"""Connections to the database are encrypted, to the right server, and never give a password away."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from dev.postgres import Embedded
from lib.config.database_url import DatabaseUrl
from lib.errors import Unavailable
from lib.store.postgres import PostgresWire
from tests.support.certificates import Authority
from tests.support.optional import lacks
from tests.wires.pgbouncer import PgBouncer, pgbouncer, program

HOST, PASSWORD = "db.example.com", "sesame-open-42"
CLEARTEXT, MD5 = struct.pack("!cii", b"R", 8, 3), struct.pack("!cii4s", b"R", 12, 5, b"salt")


def a_wire(port: int, *, parameters: str = "", environment: str = "production") -> PostgresWire:
    """Over the URL of a server elsewhere, whose name leads to this machine, which no rule knows."""
    url = DatabaseUrl(f"postgresql://kim:{PASSWORD}@{HOST}:{port}/shop{parameters}", environment=environment)
    return PostgresWire(make_conninfo(url.get_secret_value(), hostaddr="127.0.0.1"))


class Listening:
    """A server that replies to the request for TLS, asks for the password in some way, and keeps what it gets."""

    def __init__(self, *, tls: ssl.SSLContext | None, asks: bytes) -> None:
        self.seen = bytearray()
        self._tls, self._asks = tls, asks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            first = connection.recv(8)
            if first[4:8] == struct.pack("!i", 80877103):  # the request for TLS
                connection.sendall(b"S" if self._tls else b"N")
                if self._tls:
                    connection = self._tls.wrap_socket(connection, server_side=True)
            else:
                self.seen.extend(first)
            with connection:
                self.seen.extend(connection.recv(4_096))
                connection.sendall(self._asks)
                self.seen.extend(connection.recv(4_096))


@contextmanager
def listening(*, tls: ssl.SSLContext | None = None, asks: bytes = CLEARTEXT) -> Iterator[Listening]:
    with closing(Listening(tls=tls, asks=asks)) as server:
        yield server


def fails(wire: PostgresWire, said: str) -> None:
    with closing(wire), pytest.raises(Unavailable) as failed:
        wire.call("giftcard_health")
    assert said in str(failed.value)
    assert PASSWORD not in str(failed.value)
    assert failed.value.__cause__ is None


def test_server_that_strips_tls_gets_nothing() -> None:
    with listening() as server:
        fails(a_wire(server.port), "does not support SSL")
        assert bytes(server.seen) == b""


@pytest.mark.parametrize("asks", [CLEARTEXT, MD5], ids=["cleartext", "md5"])
def test_server_that_asks_for_the_password_itself_gets_none(tmp_path: Path, asks: bytes) -> None:
    tls = Authority(tmp_path).issue(HOST).context()
    with listening(tls=tls, asks=asks) as server:
        fails(a_wire(server.port), "authentication method requirement")
        assert b"kim" in server.seen, "the connection was encrypted"
        assert PASSWORD.encode() not in server.seen
        assert b"md5" not in server.seen


def test_development_may_be_in_clear() -> None:
    with listening() as server:
        with closing(a_wire(server.port, environment="development")) as wire, pytest.raises(Unavailable):
            wire.call("giftcard_health")
        assert PASSWORD.encode() in server.seen


# A real pooler with TLS and SCRAM

POOLER = """
auth_type = scram-sha-256
auth_file = {files}/users
client_tls_sslmode = require
client_tls_cert_file = {files}/crt
client_tls_key_file = {files}/key
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def encrypting(postgres: Embedded, template: str, authority: Authority) -> Iterator[tuple[PgBouncer, str]]:
    """The pooler, and the name of a database."""
    if program() is None:
        lacks("pgbouncer is not installed (Debian, Ubuntu: apt install pgbouncer)")
    issued = authority.issue(HOST)
    files = {
        "users": f'"kim" "{PASSWORD}"\n',
        "crt": issued.certificate.read_text(),
        "key": issued.key.read_text(),
    }
    with pgbouncer(postgres.url_of(template), more=POOLER, files=files) as pooler:
        yield pooler, template


def through(encrypting: tuple[PgBouncer, str], parameters: str = "") -> PostgresWire:
    pooler, name = encrypting
    wire: Any = DatabaseUrl(f"postgresql://kim:{PASSWORD}@{HOST}:{pooler.port}/{name}{parameters}").get_secret_value()
    return PostgresWire(make_conninfo(wire, hostaddr="127.0.0.1"))


def test_pooler_with_tls_and_scram_works(encrypting: tuple[PgBouncer, str]) -> None:
    with closing(through(encrypting)) as wire:
        assert wire.call("wire_integer", value=7) == 7


def test_certificate_is_verified(encrypting: tuple[PgBouncer, str], authority: Authority, tmp_path: Path) -> None:
    verified = f"?sslmode=verify-full&sslrootcert={authority.root}"
    with closing(through(encrypting, verified)) as wire:
        assert wire.call("wire_integer", value=7) == 7
    fails(
        through(encrypting, f"?sslmode=verify-full&sslrootcert={Authority(tmp_path).root}"), "certificate verify failed"
    )


def test_server_of_another_name_gets_nothing(authority: Authority) -> None:
    tls = authority.issue("other.example.com").context()
    with listening(tls=tls) as server:
        fails(a_wire(server.port, parameters=f"?sslrootcert={authority.root}"), "does not match host name")
        assert bytes(server.seen) == b""
