"""The database behind the stand-in: a pool of connections, the schema cache, and how a transaction begins."""

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL

from tests.support.postgrest.caller import Caller
from tests.support.postgrest.problems import Problem
from tests.support.postgrest.requests import Request
from tests.support.postgrest.routines import Routine, SchemaCache

SCHEMAS = ["public"]
_SEARCH_PATH = '"public", "extensions"'
_ISOLATION = {"read committed", "repeatable read", "serializable"}


class Database:
    """Logs in as `authenticator`. `url` is any role's address of the database."""

    def __init__(self, url: str) -> None:
        self._url = make_conninfo(url, user="authenticator", application_name="postgrest")
        self._idle: queue.LifoQueue[psycopg.Connection[Any]] = queue.LifoQueue()
        self._role_settings: dict[str, list[tuple[str, str]]] = {}
        self._cache: SchemaCache | None = None
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="stand-in-listener", daemon=True)
        self._listener.start()
        self._ready.wait(10)

    def close(self) -> None:
        self._closing.set()
        self._listener.join()
        while not self._idle.empty():
            self._idle.get_nowait().close()

    @property
    def cache(self) -> SchemaCache:
        if self._cache is None:
            raise Problem(503, "PGRST002", "Could not query the database for the schema cache. Retrying.")
        return self._cache

    def reload(self) -> None:
        """Reads the schema, and the roles' settings."""
        with self._connection() as connection, connection.transaction():
            self._cache = SchemaCache(connection, SCHEMAS)
            rows = connection.execute(
                "select rolname, unnest(rolconfig) from pg_roles where rolname !~ '^pg_'"
            ).fetchall()
        self._role_settings = {}
        for role, setting in rows:
            name, _, value = setting.partition("=")
            self._role_settings.setdefault(role, []).append((name, value))

    @contextlib.contextmanager
    def transaction(
        self, request: Request, caller: Caller, routine: Routine | None
    ) -> Iterator[psycopg.Connection[Any]]:
        """Isolation, then settings that last as long as the transaction: those of the role before the role itself."""
        own = routine.settings if routine else {}
        writes = request.method == "POST" and routine is not None and routine.volatile
        isolation = own.get("default_transaction_isolation", "read committed")
        assert isolation in _ISOLATION
        settings = [
            ("search_path", _SEARCH_PATH),
            *self._role_settings.get(caller.role, []),
            ("role", caller.role),
            ("request.jwt.claims", json.dumps(caller.claims)),
            ("request.method", request.method),
            ("request.path", request.path),
            ("request.headers", json.dumps(dict(request.headers))),
            *([("timezone", request.prefer.timezone)] if request.prefer.timezone else []),
            *own.items(),
        ]
        calls = SQL(", ").join([SQL("set_config(%s, %s, true)")] * len(settings))
        with self._connection() as connection, connection.transaction():
            mode = f"set transaction isolation level {isolation}, read {'write' if writes else 'only'}"
            connection.execute(mode.encode())
            connection.execute(SQL("select {}").format(calls), [part for setting in settings for part in setting])
            yield connection

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            try:
                connection = psycopg.connect(self._url, autocommit=True)
            except psycopg.OperationalError as error:
                raise Problem(503, "PGRST000", "Database connection error.", details=str(error)) from None
        try:
            yield connection
        finally:
            if not connection.closed:
                self._idle.put(connection)

    def _listen(self) -> None:
        """Reads the schema now, and at each `notify pgrst, 'reload schema'`. Tries again while the database is away."""
        while not self._closing.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    connection.execute("listen pgrst")
                    self.reload()
                    self._ready.set()
                    while not self._closing.is_set():
                        if [n for n in connection.notifies(timeout=0.1) if n.payload in ("", "reload schema")]:
                            self.reload()
            except (psycopg.Error, Problem):
                self._closing.wait(0.2)
