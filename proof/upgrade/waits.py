"""The locks that sessions wait for while the migrations are applied, as the server has them in pg_locks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

# Seconds between two looks.
_INTERVAL = 0.01
# The name of the migrator's sessions: libpq reads PGAPPNAME.
MIGRATOR = "migrator"
_WAITS = """
    select a.application_name = %s, l.locktype,
           extract(epoch from clock_timestamp() - l.waitstart)::float8
      from pg_locks l join pg_stat_activity a using (pid)
     where not l.granted and l.waitstart is not null and a.datname = current_database()"""


class Waits:
    """The longest that anyone waited, in seconds."""

    def __init__(self) -> None:
        self.looks = 0
        self.of_ticks = 0.0
        """For a table, or its like: what a migration locks. Waits of ticks for each other's rows do not count."""
        self.of_migrator = 0.0

    def look(self, connection: psycopg.Connection) -> None:
        """Look who waits now, and for how long already."""
        self.looks += 1
        for is_migrator, kind, seconds in connection.execute(_WAITS, [MIGRATOR]):
            if is_migrator:
                self.of_migrator = max(self.of_migrator, seconds)
            elif kind == "relation":
                self.of_ticks = max(self.of_ticks, seconds)


@contextmanager
def watched(url: str) -> Iterator[Waits]:
    """Look at the locks every ten milliseconds within the context."""
    waits, ended = Waits(), threading.Event()

    def watch() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not ended.wait(_INTERVAL):
                waits.look(connection)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join()
