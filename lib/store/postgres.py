"""The wire over psycopg: direct to Postgres, or through a pooler in transaction mode."""

import queue
import time
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from lib.errors import Conflict, GiftcardError, LeaseLost, Misconfigured, Refused, Unavailable

# A call that is harmless to repeat is tried this often, with these pauses (seconds) between.
_PAUSES = (0.05, 0.5)

_CONNECT: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 5,
    # Poolers in transaction mode know no prepared statements; the functions keep their plans themselves.
    "prepare_threshold": None,
    "application_name": "giftcard-jobs",
    # A peer that vanished is noticed within a tick.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class PostgresWire:
    """Safe across threads: each call takes an idle connection or opens one, and puts it back.

    No pool with threads of its own: a function is frozen between requests, and an error to connect belongs to the call.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: queue.LifoQueue[psycopg.Connection[Any]] = queue.LifoQueue()

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        for pause in (*_PAUSES, None) if repeat else (None,):
            try:
                return self._once(function, arguments)
            except Unavailable:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Closes what is idle."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _once(self, function: str, arguments: dict[str, Any]) -> Any:
        try:
            connection = self._take()
            try:
                row = connection.execute(_statement(function, tuple(arguments)), _adapt(arguments)).fetchone()
            finally:
                # One that broke says so here; it is not put back.
                if not connection.closed:
                    self._idle.put(connection)
        except psycopg.Error as error:
            raise _translated(error, function) from error
        return row[0] if row else None

    def _take(self) -> psycopg.Connection[Any]:
        while True:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                return psycopg.connect(self._url, **_CONNECT)
            if _is_alive(connection):
                return connection
            connection.close()


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Whether an idle connection still is one, without a round trip: a server that hung up has left an end of file."""
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed and connection.pgconn.status == psycopg.pq.ConnStatus.OK


def _statement(function: str, names: tuple[str, ...]) -> sql.Composed:
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.Placeholder(name)) for name in names
    )
    return sql.SQL("select to_json(public.{}({}))").format(sql.Identifier(function), arguments)


def _adapt(arguments: dict[str, Any]) -> dict[str, Any]:
    def one(value: Any) -> Any:
        if isinstance(value, dict | list):
            return Jsonb(value)
        return list(value) if isinstance(value, tuple) else value

    return {name: one(value) for name, value in arguments.items()}


def _translated(error: psycopg.Error, function: str) -> GiftcardError:
    """The same few exceptions as on every wire. A message never carries the connection string."""
    state = error.sqlstate
    said = (error.diag.message_primary or str(error)).strip()
    if state is None and isinstance(error, psycopg.DataError):
        return Refused(said, sqlstate="22021")  # never sent: text with a NUL, which no Postgres text can hold
    if state is None or state[:2] in ("08", "57", "53", "40") or state == "55P03":
        return Unavailable(f"the database cannot be reached or gave up during {function}: {said.splitlines()[0]}")
    if state in ("42883", "42P01", "3F000"):
        return Misconfigured(f"{function} is missing: run the migrations (make migrate). {said}")
    if state in ("42501", "28000", "28P01", "3D000"):
        return Misconfigured(
            f"the database does not let us call {function}: check the role and password in DATABASE_URL. {said}"
        )
    if state == "GC426":
        return Misconfigured(said)
    if state == "GC410":
        return LeaseLost(said)
    if state == "23505":
        return Conflict(said, constraint=error.diag.constraint_name or "")
    return Refused(said, sqlstate=state, field=error.diag.message_detail or error.diag.column_name or None)
