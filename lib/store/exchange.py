"""One statement over a connection: libpq sends it and reads the reply, psycopg waits. No cursor, no adaptation.

A cursor costs more than everything else that the client does for a call.
"""

from collections.abc import Sequence

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from lib.store.connections import Connection

_TUPLES = ExecStatus.TUPLES_OK
_FINE = (_TUPLES, ExecStatus.COMMAND_OK, ExecStatus.PIPELINE_SYNC)

Values = Sequence[bytes | None]


def ask(connection: Connection, statement: bytes, values: Values) -> bytes | None:
    """Run a statement that returns one row; return its first column as text. None: NULL, or there is no row.

    Raises:
        psycopg.Error: the server refused it, or the connection failed; also beyond the connection's deadline.
    """
    pgconn = connection.pgconn
    pgconn.send_query_params(statement, values)
    return _first(_checked(connection.wait(generators.execute(pgconn))))


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
