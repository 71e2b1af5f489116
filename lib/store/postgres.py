"""The wire over psycopg: direct to Postgres, or through a pooler in transaction mode."""

import json
import time
from typing import Any

import psycopg
from pydantic_core import from_json

from lib.errors import GiftcardError, Misconfigured, Unavailable
from lib.store.connections import Connection, Connections
from lib.store.deadline import CALL_SECONDS
from lib.store.exchange import Values, ask, ask_unprepared
from lib.store.libpq import secrets_in
from lib.store.sqlstate import from_sqlstate
from lib.store.statements import encode, statement
from lib.store.wire import with_retries

# A statement's time-out begins with it: it has to be set before, in its transaction.
_TIMEOUT = b"select set_config('statement_timeout', $1, true)"
# The result of to_json for void.
_VOID = b'""'


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
        text, values = statement(function, tuple(arguments)), encode(arguments.values())
        try:
            connection = self._connections.take(until=time.monotonic() + CALL_SECONDS)
        except psycopg.Error as error:
            raise Unavailable(_away(function, str(error)), undone=True) from None
        is_good = False
        try:
            reply = _call(connection, function, text, values, within)
            is_good = True
        except GiftcardError as error:
            is_good = not isinstance(error, Unavailable | Misconfigured)
            raise
        finally:
            (self._connections.give_back if is_good else self._connections.discard)(connection)
        return None if reply is None or reply == _VOID else _parsed(reply)


def _call(connection: Connection, function: str, text: bytes, values: Values, within: float | None) -> bytes | None:
    try:
        if within is None:
            return ask(connection, text, values)
        with connection.transaction():
            ask_unprepared(connection, _TIMEOUT, [b"%.0f" % (within * 1000)])
            return ask_unprepared(connection, text, values)
    except psycopg.Error as error:
        if error.sqlstate is None and time.monotonic() >= connection.until:
            raise Unavailable(_away(function, f"no response within {CALL_SECONDS:g} s")) from None
        # `from None`, here and above: libpq's own words may repeat what it was given.
        raise _translated(error, function) from None


def _parsed(reply: bytes) -> Any:
    """Parse a reply. What the fast parser refuses (deep nesting, half a surrogate pair), the one of json accepts."""
    try:
        return from_json(reply, cache_strings="keys")
    except ValueError:
        return json.loads(reply)


def _translated(error: psycopg.Error, function: str) -> GiftcardError:
    """Return the exception of `lib.errors`. Its message never holds the connection string."""
    message = (error.diag.message_primary or str(error)).strip()
    if error.sqlstate is None:
        return Unavailable(_away(function, message))
    if error.sqlstate == "08P01" and "prepared statement" in message:
        # PgBouncer has forgotten it, and hangs up instead of carrying it out.
        return Unavailable(_away(function, message), sqlstate=error.sqlstate, undone=True)
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
