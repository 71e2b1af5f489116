"""A database with a clock that stands still until a test moves it.

Most tests share one database and one connection, whose functions have their plans, and are rolled back: that is ten
times as fast as a database each. A test that opens a second connection, or is slow, has a database of its own.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from dev.migrate import migrate
from dev.postgres import Embedded
from tests.support.factory import World
from tests.support.postgrest.roles import make_like_supabase
from tests.support.race import Race


class Shared:
    """The database, and a connection to it that outlives a restart of the server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def begin(self) -> psycopg.Connection[Any]:
        """The connection, in a transaction."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._url)
            self._connection.execute("select 1")
        except psycopg.OperationalError:
            self._connection = psycopg.connect(self._url)
            self._connection.execute("select 1")
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


@pytest.fixture(scope="session")
def shared(postgres: Embedded, template: str) -> Iterator[Shared]:
    shared = Shared(postgres.create_database("shared", template=template))
    yield shared
    shared.close()


@pytest.fixture
def world(request: pytest.FixtureRequest, postgres: Embedded) -> Iterator[World]:
    if "database_url" in request.fixturenames or request.node.get_closest_marker("slow"):
        yield World(request.getfixturevalue("connection"))
        return
    postgres.start()
    shared = request.getfixturevalue("shared")
    connection = shared.begin()
    yield World(connection, undo=True)
    connection.rollback()


@pytest.fixture(scope="module")
def supabase(postgres: Embedded) -> Iterator[str]:
    """A database migrated where Supabase's roles and default grants were there first."""
    url = postgres.create_database("doors")
    make_like_supabase(url)
    migrate(url)
    yield url
    postgres.drop_database("doors")


@pytest.fixture
def owner(supabase: str) -> Iterator[World]:
    """The role that migrated. What a test does is rolled back."""
    with psycopg.connect(supabase) as connection:
        yield World(connection)
        connection.rollback()


@pytest.fixture
def race(world: World, database_url: str) -> Iterator[Race]:
    with (
        psycopg.connect(database_url) as first,
        psycopg.connect(database_url, autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        yield Race(World(first, now=world.now), World(second, now=world.now), world, pool)
