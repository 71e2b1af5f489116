"""One statement over a connection: libpq sends it and reads the reply, psycopg waits. No cursor, no adaptation.

A cursor costs more than everything else that the client does for a call. A statement that a connection runs again is
prepared, where `Connection.prepares` allows it, within the same round trip.
"""

from collections.abc import Sequence
from itertools import chain

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from lib.store.connections import Connection

Values = Sequence[bytes | None]

_FINE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
# Statements that one connection prepares at most.
_MOST = 100
# A prepared statement is gone, or its name is taken: another session has our place.
_GONE = frozenset({"26000", "42P05"})
# It no longer fits, since a migration: its result, its function, the types of its arguments.
_STALE = _GONE | {"0A000", "42725", "42804", "42846", "42883", "42P18"}
# Results of a pipeline: at most so many.
_RESULTS = 10

_PID = b", pg_catalog.pg_backend_pid()"
_PROBE = b"giftcard_probe"
# PgBouncer that keeps track of prepared statements gives them names of its own.
_IS_RENAMED = (
    b"select exists (select from pg_catalog.pg_prepared_statements where pg_catalog.starts_with(name, 'PGBOUNCER_'))"
)


def ask(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    """Run a statement that returns one row; return its first column as text. None: NULL, or there is no row.

    Raises:
        psycopg.Error: the server refused it, or the connection failed; also beyond the connection's deadline.
    """
    if connection.prepares is None:
        learn = _learn_from_pooler if connection.by_pgbouncer else _learn
        return learn(connection, statement, values)
    names = connection.names
    if not connection.prepares or statement not in names:
        if len(names) < _MOST:
            names[statement] = b""
        return ask_unprepared(connection, statement, values)
    try:
        return _ask_prepared(connection, statement, values)
    except psycopg.Error as error:
        # An ERROR ends the statement's transaction, so nothing was carried out.
        if error.sqlstate not in _STALE or error.diag.severity_nonlocalized != "ERROR":
            raise
        del names[statement]
        connection.prepares = error.sqlstate not in _GONE
    return ask_unprepared(connection, statement, values)


def ask_unprepared(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    """Run a statement as `ask` does, also in a transaction: there a prepared one that is gone would end it."""
    pgconn = connection.pgconn
    pgconn.send_query_params(statement, values)
    return _first(_checked(connection.wait(generators.execute(pgconn))))


def _ask_prepared(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    pgconn, name = connection.pgconn, connection.names[statement]
    if name:
        pgconn.send_query_prepared(name, values)
        return _first(_checked(connection.wait(generators.execute(pgconn))))
    name = connection.new_name(statement)
    pgconn.enter_pipeline_mode()
    pgconn.send_prepare(name, statement)
    pgconn.send_query_prepared(name, values)
    prepared, *rest = connection.wait(_pipeline(pgconn))
    _checked(prepared)
    connection.names[statement] = name
    return _first(_checked(list(chain(*rest))))


def _learn(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    """Run the first statement of a connection, and learn if it leads to the server itself.

    A pooler invents the process id that it gives to a client, so that cancelling goes through it. So it is found even
    if it looks like a server, and costs no round trip.
    """
    pgconn = connection.pgconn
    pgconn.send_query_params(statement + _PID, values)
    results = _checked(connection.wait(generators.execute(pgconn)))
    connection.prepares = results[0].get_value(0, 1) == b"%d" % pgconn.backend_pid
    return _first(results)


def _learn_from_pooler(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    """Run the first statement of a connection to PgBouncer, and learn if it keeps track of prepared statements.

    One is prepared, looked up by the name that the server has for it, and closed: before the statement, so that nothing
    remains if that fails, and in the same transaction, so that all goes to the same server.
    """
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    pgconn.send_prepare(_PROBE, _IS_RENAMED)
    pgconn.send_query_prepared(_PROBE, None)
    pgconn.send_close_prepared(_PROBE)
    pgconn.send_query_params(statement, values)
    probes = connection.wait(_pipeline(pgconn))
    found, rest = list(chain(*probes[:3])), list(chain(*probes[3:]))
    try:
        _checked(found)
    except psycopg.Error as error:
        if error.diag.severity_nonlocalized != "ERROR":
            raise
        connection.prepares = False
        return ask_unprepared(connection, statement, values)  # the statement was passed over
    connection.prepares = found[1].get_value(0, 0) == b"t"
    return _first(_checked(rest))


def _pipeline(pgconn: PGconn) -> PQGen[list[list[PGresult]]]:
    """Send what is in the pipeline, and leave it. Return the results of each part, also of the commit if it fails."""
    pgconn.pipeline_sync()
    yield from generators.send(pgconn)
    parts: list[list[PGresult]] = []
    try:
        while len(parts) < _RESULTS:
            results = yield from generators.fetch_many(pgconn)
            if results and results[0].status == ExecStatus.PIPELINE_SYNC:
                pgconn.exit_pipeline_mode()
                break
            parts.append(results)
    except psycopg.DatabaseError:
        # The server's last word before it hung up is the better reason.
        if not any(result.status == ExecStatus.FATAL_ERROR for result in chain(*parts)):
            raise
    return parts


def _checked(results: list[PGresult]) -> list[PGresult]:
    """Return the results, none of which is an error. One may follow the rows: of constraints checked at the commit."""
    for result in results:
        if result.status not in _FINE:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
            raise psycopg.InternalError(f"the server replied with {ExecStatus(result.status).name}")
    if not results:
        raise psycopg.InternalError("the server did not reply")
    return results


def _first(results: list[PGresult]) -> bytes | None:
    result = results[0]
    return result.get_value(0, 0) if result.ntuples else None
