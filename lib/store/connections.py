"""Connections of the psycopg wire: idle ones to use again, each with the deadline of the call that it is used for."""

import math
import os
import re
import select
import threading
import time
import zlib
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from lib.store.deadline import CONNECT_SECONDS, STATEMENT_SECONDS, run_within

# Seconds after which a connection is not used again.
_LONGEST_AGE = 300.0
# Seconds for the request to cancel a statement whose deadline is over.
_CANCEL_SECONDS = 1.0
_CONNECT: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": CONNECT_SECONDS,
    # `lib.store.exchange` prepares statements itself, where the connection can.
    "prepare_threshold": None,
    "application_name": "giftcard-jobs",
    "client_encoding": "UTF8",
    # A dead peer is detected within a tick.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# How poolers refuse the parameter `options`: PgBouncer with SQLSTATE 08P01, which libpq does not hand on.
_OPTIONS_REFUSED = re.compile(r"startup parameter|options|statement_timeout")
# These are the words of PgBouncer from 1.20 on: whether it keeps track of prepared statements can be asked (1.21).
_IS_PGBOUNCER = re.compile(r"unsupported startup parameter in options")
# The first libpq that can close a prepared statement, as asking does.
_CLOSES = 17_00_00


class Connection(psycopg.Connection[Any]):
    """A connection that waits for no response beyond `until`, a `time.monotonic()` value.

    `prepares`: whether statements may be prepared; None: unknown before the first one. `names`: those that it has run,
    with the name that each is prepared as, or none yet; `named`: how many names were given. `by_pgbouncer`: it leads to
    a PgBouncer that can prepare.
    """

    until = math.inf
    opened_at = math.inf
    generation = 0
    prepares: bool | None = None
    by_pgbouncer = False
    names: dict[bytes, bytes]
    named = 0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait as psycopg does, up to the deadline."""
        return super().wait(gen, interval, max(0.0, self.until - time.monotonic()))

    def new_name(self, statement: bytes) -> bytes:
        """Return a name to prepare a statement as: no earlier one of this connection, and of no other statement.

        So a session that a pooler hands on by mistake has no name of ours that leads to another function.
        """
        self.named += 1
        return b"giftcard_%d_%08x" % (self.named, zlib.crc32(statement))


class Connections:
    """Thread-safe. All connections have the same `url`.

    Not a pool with its own threads: a function is frozen between requests, and a connection error belongs to the call.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        # Connections of an earlier generation are not used again.
        self._generation = 0
        self._refuses_options = self._by_pgbouncer = False

    def take(self, *, until: float) -> Connection:
        """Return an idle connection, or a new one, for a call that ends at `until`.

        Raises:
            psycopg.Error: none can be opened.
        """
        while (connection := self._pop()) is not None:
            if _is_alive(connection):
                connection.until = until
                return connection
            self.discard(connection)
        return self._open(until)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next call, unless it is too old or broken."""
        with self._lock:
            if connection.generation == self._generation and not connection.closed and not _is_old(connection):
                self._idle.append(connection)
                return
        connection.close()

    def discard(self, connection: Connection) -> None:
        """Close a connection that failed, and all others: what ended or spoiled it has met them, too.

        A server that restarts ends all; one that was read-only for a while leaves it on all that were opened then.
        """
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(Exception):
                connection.cancel_safe(timeout=_CANCEL_SECONDS)
        connection.close()
        self.close()

    def close(self) -> None:
        """Close the idle connections now, and the busy ones when they are given back."""
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _pop(self) -> Connection | None:
        with self._lock:
            old = [connection for connection in self._idle if _is_old(connection)]
            self._idle = [connection for connection in self._idle if connection not in old]
            newest = self._idle.pop() if self._idle else None
        for connection in old:
            connection.close()
        return newest

    def _open(self, until: float) -> Connection:
        generation = self._generation
        try:
            connection = run_within(until - time.monotonic(), self._connect, drop=Connection.close)
        except TimeoutError as error:
            raise psycopg.OperationalError(str(error)) from None
        connection.until, connection.opened_at, connection.generation = until, time.monotonic(), generation
        connection.names, connection.by_pgbouncer = {}, self._by_pgbouncer
        return connection

    def _connect(self) -> Connection:
        if not self._refuses_options:
            try:
                return Connection.connect(self._url, **_CONNECT, options=_options(self._url))
            except psycopg.OperationalError as error:
                if not _OPTIONS_REFUSED.search(str(error)):
                    raise
                self._by_pgbouncer = bool(_IS_PGBOUNCER.search(str(error))) and pq.version() >= _CLOSES
        connection = Connection.connect(self._url, **_CONNECT)
        self._refuses_options = True
        return connection


def _options(url: str) -> str:
    """Return the startup parameter `options`: a time limit for statements, and what the URL already has there.

    Its own come later and win. What is no option of Postgres is for a pooler, which would not find it beside ours.
    """
    own = str(conninfo_to_dict(url).get("options") or os.environ.get("PGOPTIONS") or "").strip()
    if own and not own.startswith("-"):
        return own
    return f"-c statement_timeout={STATEMENT_SECONDS * 1000:.0f} {own}".strip()


def _is_old(connection: Connection) -> bool:
    return time.monotonic() - connection.opened_at > _LONGEST_AGE


def _is_alive(connection: Connection) -> bool:
    """Return whether an idle connection is alive, without a round trip.

    A server that hung up has left an end of file to read, perhaps behind a last message. Nothing else is to be read
    between two calls.
    """
    if connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)
