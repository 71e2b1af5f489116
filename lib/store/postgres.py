"""The wire over psycopg: direct to Postgres, or through a pooler in transaction mode."""

import functools
import queue
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from lib.errors import GiftcardError, Refused, Unavailable
from lib.store.sqlstate import from_sqlstate
from lib.store.wire import repeated

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
# What to_json makes of void.
_VOID = ("",)


class PostgresWire:
    """Safe across threads: each call takes an idle connection or opens one, and puts it back.

    No pool with threads of its own: a function is frozen between requests, and an error to connect belongs to the call.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: queue.LifoQueue[psycopg.Connection[Any]] = queue.LifoQueue()

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        return repeated(lambda: self._once(function, arguments), repeat=repeat)

    def close(self) -> None:
        """Closes what is idle."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _once(self, function: str, arguments: dict[str, Any]) -> Any:
        try:
            connection = self._take()
            try:
                cursor = psycopg.RawCursor(connection)
                row = cursor.execute(_statement(function, tuple(arguments)), _adapt(arguments)).fetchone()
            finally:
                # One that broke says so here; it is not put back.
                if not connection.closed:
                    self._idle.put(connection)
        except psycopg.Error as error:
            raise _translated(error, function) from error
        except UnicodeEncodeError:
            raise Refused("text with half a surrogate pair in it cannot be stored", sqlstate="22P02") from None
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
    """Whether an idle connection still is one, without a round trip: a server that hung up has left an end of file."""
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed and connection.pgconn.status == psycopg.pq.ConnStatus.OK


@functools.cache
def _statement(function: str, names: tuple[str, ...]) -> bytes:
    """Put together once for each way in which a function is called."""
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.SQL(f"${place}"))
        for place, name in enumerate(names, 1)
    )
    return sql.SQL("select to_json(public.{}({}))").format(sql.Identifier(function), arguments).as_bytes()


def _adapt(arguments: dict[str, Any]) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, dict | list):
            return Jsonb(value)
        if isinstance(value, int | float):
            return str(value)  # as text it takes the argument's type; else a large id looks like another function's
        return list(value) if isinstance(value, tuple) else value

    return [one(value) for value in arguments.values()]


def _translated(error: psycopg.Error, function: str) -> GiftcardError:
    """The same few exceptions as on every wire. A message never carries the connection string."""
    said = (error.diag.message_primary or str(error)).strip()
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return Refused(said, sqlstate="22P05")  # never sent: text with a NUL, which no Postgres text can hold
    if error.sqlstate is None:
        return Unavailable(f"the database cannot be reached or gave up during {function}: {said.splitlines()[0]}")
    return from_sqlstate(
        error.sqlstate,
        said,
        detail=error.diag.message_detail,
        function=function,
        check="the role and password in DATABASE_URL",
        constraint=error.diag.constraint_name,
    )
