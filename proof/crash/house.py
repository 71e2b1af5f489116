"""The house of a night: it outlives its server."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.crash.house import House

T = TypeVar("T")
_PAUSE_SECONDS = 0.1


class PatientHouse(House):
    """Asks again, on a new connection, while the database is away: for `patience` seconds, then the error is raised."""

    patience = 30.0

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        super().__init__(url, folder, **environment)
        self._url = url
        self._lock = threading.Lock()

    def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return all that a query answers."""
        return self._patiently(lambda: self._connection.execute(query.encode(), arguments or None).fetchall())

    def execute(self, statement: str, *arguments: Any) -> None:
        """Change something behind the workers' backs."""
        self._patiently(lambda: self._connection.execute(statement.encode(), arguments or None))

    def jobs_done(self) -> int | None:
        """Return how many jobs are completed; None: the database does not answer now."""
        query = b"select count(*) from giftcard_jobs where status = 'completed'"
        try:
            row = self._patiently(lambda: self._connection.execute(query).fetchone(), patience=0.0)
        except psycopg.OperationalError:
            return None
        return int(row[0]) if row else 0

    def _patiently(self, act: Callable[[], T], *, patience: float | None = None) -> T:
        until = time.monotonic() + (self.patience if patience is None else patience)
        while True:
            try:
                with self._lock:
                    if self._connection.closed:
                        self._connection = psycopg.connect(self._url, autocommit=True)
                    return act()
            except psycopg.OperationalError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_SECONDS)
