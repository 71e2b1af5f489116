"""A database for each test: a copy of a template, made and dropped over one connection to the server."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from dev.postgres import Embedded


class Databases:
    """The databases of a session's tests. A connection for each statement would take as long as half a copy."""

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self._connection: psycopg.Connection | None = None
        self._used: list[str] = []

    @contextmanager
    def fresh(self, template: str) -> Iterator[str]:
        """Yield the URL of a new copy of the template, which must have no connections."""
        # Dropped one test later: a drop waits 100 ms for a connection that has just been closed.
        while self._used:
            self._execute(SQL("drop database if exists {} with (force)").format(Identifier(self._used.pop())))
        name = f"test_{uuid.uuid4().hex[:12]}"
        copy = SQL("create database {} template {} strategy file_copy")
        self._execute(copy.format(Identifier(name), Identifier(template)))
        yield self._server.url_of(name)
        self._used.append(name)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _execute(self, statement: Composed) -> None:
        """Execute a statement; if a test has stopped the server meanwhile, start it first."""
        if self._connection is not None:
            try:
                self._connection.execute("select")
            except psycopg.OperationalError:
                self._connection = None
        if self._connection is None:
            self._server.start()
            self._connection = psycopg.connect(self._server.url, autocommit=True)
        self._connection.execute(statement)
