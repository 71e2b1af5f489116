"""A Postgres server of the bench's own, and databases in it."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from dev import LOCAL
from dev.postgres import Embedded, embedded

# What must hold for the figures to mean anything: nothing is gained by risking what was committed.
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on"}


@contextmanager
def bench_server() -> Iterator[Embedded]:
    """A new server with Postgres' own settings, on the disk where `make dev` keeps its database; gone afterwards."""
    folder = LOCAL / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with embedded(folder / "postgres") as running:
            check(running)
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh(server: Embedded) -> str:
    """The address of an empty database that nobody has used."""
    return server.create_database(f"bench_{uuid.uuid4().hex[:12]}")


def drop(server: Embedded, url: str) -> None:
    """The database's end."""
    server.drop_database(str(conninfo_to_dict(url)["dbname"]))


def tidy(url: str) -> None:
    """Statistics as they should be, and no dead rows: every measured drain starts like this."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def check(running: Embedded) -> None:
    """Refuses a server that could lose what it has committed."""
    with psycopg.connect(running.url, autocommit=True) as connection:
        for name, wanted in _DURABLE.items():
            row = connection.execute("select current_setting(%s)", [name]).fetchone()
            if row is None or row[0] != wanted:
                raise RuntimeError(f"{name} is not {wanted}: figures of a careless server mean nothing")
