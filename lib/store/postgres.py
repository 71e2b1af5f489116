"""The wire over psycopg: direct to Postgres, or through a pooler in transaction mode."""

import functools
import queue
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from lib.errors import GiftcardError, Refused, Unavailable
from lib.store.sqlstate import from_sqlstate
from lib.store.wire import with_retries

_CONNECT: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 5,
    # Poolers in transaction mode do not support prepared statements; the functions cache their plans themselves.
    "prepare_threshold": None,
    "application_name": "giftcard-jobs",
    # A dead peer is detected within a tick.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# The result of to_json for void.
_VOID = ("",)


class PostgresWire:
    """Thread-safe: each call takes an idle connection or opens one, and puts it back.

    Not a pool with its own threads: a function is frozen between requests, and a connection error belongs to the call.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: queue.LifoQueue[psycopg.Connection[Any]] = queue.LifoQueue()

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        return with_retries(lambda: self._once(function, arguments), repeat=repeat)

    def close(self) -> None:
        """Close the idle connections."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _once(self, function: str, arguments: dict[str, Any]) -> Any:
        try:
            connection = self._take()
            try:
                cursor = psycopg.RawCursor(connection)
                row = cursor.execute(_statement(function, tuple(arguments)), _adapt(arguments)).fetchone()
            finally:
                # A broken connection is closed by now and is not put back.
                if not connection.closed:
                    self._idle.put(connection)
        except psycopg.Error as error:
            raise _translated(error, function) from error
        except UnicodeEncodeError:
            raise Refused("text with an unpaired surrogate cannot be stored", sqlstate="22P02") from None
        return None if row in (None, _VOID) else row[0]

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
    """Return whether an idle connection is alive, without a round trip: a server that hung up leaves an end of file."""
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed and connection.pgconn.status == psycopg.pq.ConnStatus.OK


@functools.cache
def _statement(function: str, names: tuple[str, ...]) -> bytes:
    """Return the statement for a function and its argument names."""
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.SQL(f"${position}"))
        for position, name in enumerate(names, 1)
    )
    return sql.SQL("select to_json(public.{}({}))").format(sql.Identifier(function), arguments).as_bytes()


def _adapt(arguments: dict[str, Any]) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, dict | list):
            return Jsonb(value)
        if isinstance(value, int | float):
            return str(value)  # text takes the argument's type; a large number would select another overload
        return list(value) if isinstance(value, tuple) else value

    return [one(value) for value in arguments.values()]


def _translated(error: psycopg.Error, function: str) -> GiftcardError:
    """Return the exception of `lib.errors`. Its message never holds the connection string."""
    message = (error.diag.message_primary or str(error)).strip()
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return Refused(message, sqlstate="22P05")  # not sent: text with a NUL, which Postgres cannot hold
    if error.sqlstate is None:
        return Unavailable(f"the database cannot be reached or gave up during {function}: {message.splitlines()[0]}")
    return from_sqlstate(
        error.sqlstate,
        message,
        detail=error.diag.message_detail,
        function=function,
        check="the role and password in DATABASE_URL",
        constraint=error.diag.constraint_name,
    )
