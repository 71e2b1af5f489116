"""The benchmark's own Postgres server, and databases in it."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from dev import LOCAL
from dev.postgres import Embedded, embedded

# Required for meaningful figures: no contender may risk committed data.
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on"}


@contextmanager
def bench_server() -> Iterator[Embedded]:
    """Yield a new server with Postgres' defaults, on the disk of `make dev`; it is deleted afterwards."""
    folder = LOCAL / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with embedded(folder / "postgres") as running:
            check(running)
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh(server: Embedded) -> str:
    """Create an empty database and return its URL."""
    return server.create_database(f"bench_{uuid.uuid4().hex[:12]}")


def drop(server: Embedded, url: str) -> None:
    """Drop a database."""
    server.drop_database(str(conninfo_to_dict(url)["dbname"]))


def tidy(url: str) -> None:
    """Vacuum and analyze, as before every measured drain."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def check(running: Embedded) -> None:
    """Raise RuntimeError if the server could lose committed data."""
    with psycopg.connect(running.url, autocommit=True) as connection:
        for name, expected in _DURABLE.items():
            row = connection.execute("select current_setting(%s)", [name]).fetchone()
            if row is None or row[0] != expected:
                raise RuntimeError(f"{name} is not {expected}: the figures would be meaningless")
