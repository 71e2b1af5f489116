"""The wire over psycopg: direct to Postgres, or through a pooler in transaction mode."""

import functools
import time
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from lib.errors import GiftcardError, Misconfigured, Refused, Unavailable
from lib.store.connections import Connection, Connections
from lib.store.deadline import CALL_SECONDS
from lib.store.libpq import secrets_in
from lib.store.sqlstate import from_sqlstate
from lib.store.wire import with_retries

# The result of to_json for void.
_VOID = ("",)


class PostgresWire:
    """Thread-safe: each call takes an idle connection or opens one, and gives it back unless the database failed.

    `url`: as `DatabaseUrl` makes it ready for libpq.
    """

    def __init__(self, url: str) -> None:
        self._connections = Connections(url)
        self._secrets = secrets_in(url)

    def call(self, function: str, /, *, repeat: bool = False, within: float | None = None, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        return with_retries(lambda: self._once(function, arguments, within), repeat=repeat, secrets=self._secrets)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _once(self, function: str, arguments: dict[str, Any], within: float | None) -> Any:
        try:
            connection = self._connections.take(until=time.monotonic() + CALL_SECONDS)
        except psycopg.Error as error:
            raise Unavailable(_away(function, str(error)), undone=True) from None
        is_good = False
        try:
            row = _execute(connection, function, arguments, within)
            is_good = True
        except GiftcardError as error:
            is_good = not isinstance(error, Unavailable | Misconfigured)
            raise
        finally:
            (self._connections.give_back if is_good else self._connections.discard)(connection)
        return None if row in (None, _VOID) else row[0]


def _execute(connection: Connection, function: str, arguments: dict[str, Any], within: float | None) -> Any:
    cursor = psycopg.RawCursor(connection)
    try:
        if within is None:
            return cursor.execute(_statement(function, tuple(arguments)), _adapt(arguments)).fetchone()
        with connection.transaction():
            # A statement's time-out begins with it: it has to be set before.
            cursor.execute("select set_config('statement_timeout', $1, true)", [f"{within * 1000:.0f}"])
            return cursor.execute(_statement(function, tuple(arguments)), _adapt(arguments)).fetchone()
    except psycopg.Error as error:
        if error.sqlstate is None and time.monotonic() >= connection.until:
            raise Unavailable(_away(function, f"no response within {CALL_SECONDS:g} s")) from None
        # `from None`, here and above: libpq's own words may repeat what it was given.
        raise _translated(error, function) from None
    except UnicodeEncodeError:
        raise Refused("text with an unpaired surrogate cannot be stored", sqlstate="22P02") from None


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
        return Unavailable(_away(function, message))
    return from_sqlstate(
        error.sqlstate,
        message,
        detail=error.diag.message_detail,
        function=function,
        check="the role and password in DATABASE_URL",
        constraint=error.diag.constraint_name,
        table=error.diag.table_name,
        fatal=error.diag.severity_nonlocalized != "ERROR",
    )


def _away(function: str, reason: str) -> str:
    reason = next(iter(reason.strip().splitlines()), "")
    return f"the database cannot be reached or gave up during {function}: {reason}"
