"""The database of a soak: an embedded Postgres of its own, and what happens to servers."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from dev.migrate import migrate
from dev.postgres import Embedded, Settings, embedded
from proof.soak.plan import Plan

_NAME = "soak"
# Seconds that the server has for a start.
_STARTS = 60.0
# So that this harness writes in a read-only minute, too.
_OPTIONS = "-c default_transaction_read_only=off -c statement_timeout=30000"
_SETTINGS: Settings = {"max_connections": 100, "log_min_messages": "fatal"}
# What giftcard_prune hands to the function that prunes one kind.
_INTERVALS = "k.column2, p_dead_letters,"
_SHORT_INTERVALS = "k.column2 * {factor}, p_dead_letters * {factor},"


class Database:
    """The server and one connection to it, made again after it was lost. For one thread; `other()` for another."""

    def __init__(self, server: Embedded, url: str, folder: Path) -> None:
        self.url = url
        self.cuts = 0
        self._server = server
        self._folder = folder
        self._connection: psycopg.Connection[Any] | None = None

    def other(self) -> "Database":
        """Return the same database for another thread."""
        return Database(self._server, self.url, self._folder)

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raise psycopg.OperationalError while the server is away."""
        return self.connection().execute(query.encode(), arguments or None).fetchall()

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> None:
        """Execute a statement without an answer."""
        self.connection().execute(statement.encode(), arguments or None)

    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection: a new one if the last one was lost."""
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = psycopg.connect(
                self.url, autocommit=True, options=_OPTIONS, application_name="soak harness", connect_timeout=5
            )
        return self._connection

    def pid(self) -> int:
        """Return the server's process. Raise FileNotFoundError while it is away."""
        return int((self._folder / "postmaster.pid").read_text().split()[0])

    def restart(self, *, away: float) -> None:
        """End the server as a power failure does, and start it again, however long a busy machine takes for it."""
        self._server.stop(mode="immediate")
        time.sleep(away)
        end = time.monotonic() + _STARTS
        while True:
            try:
                self._server.start()
                return
            except Exception:  # pg_ctl waits for ten seconds only, and the package asserts that it is ready then
                if time.monotonic() > end:
                    raise
                time.sleep(1)

    def cut(self, share: float) -> None:
        """End a share of the application's connections."""
        ended = self.rows(
            """select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and application_name <> 'soak harness' and random() < %s""",
            [share],
        )
        self.cuts += ended[0][0]

    def read_only(self, *, is_on: bool) -> None:
        """Accept no writes of the application, as Supabase does when the disk is full; or accept them again."""
        self.execute(f"alter system set default_transaction_read_only = {'on' if is_on else 'off'}")
        self.execute("select pg_reload_conf()")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def shorten_days(database: Database, seconds: float) -> None:
    """Let a day of retention last `seconds`, and prune once a day. Nothing younger than a day is pruned otherwise.

    It changes one line of one function, in this database only: all that is pruned goes through it.
    """
    ((definition,),) = database.rows("select pg_get_functiondef('giftcard_prune'::regproc)")
    changed = definition.replace(_INTERVALS, _SHORT_INTERVALS.format(factor=seconds / 86400))
    assert changed != definition, f"giftcard_prune has no {_INTERVALS}"
    database.execute(changed)
    prune = "update giftcard_maintenance_tasks set every = make_interval(secs => %s) where task = 'prune'"
    database.execute(prune, [seconds])


@contextmanager
def soak_database(folder: Path, plan: Plan) -> Iterator[Database]:
    """Yield a new, migrated database in the folder, whose ticks prune once in a short day."""
    with embedded(folder, settings=_SETTINGS) as server:
        server.drop_database(_NAME)
        url = server.create_database(_NAME)
        migrate(url)
        database = Database(server, url, folder.resolve())
        database.read_only(is_on=False)
        shorten_days(database, plan.day)
        try:
            yield database
        finally:
            database.close()
