"""A real Postgres for every test that asks for one: a server for the session, a fresh database for each test."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lib.local.migrate import migrate
from lib.local.postgres import Embedded, embedded


def _quick_folder() -> str | None:
    """Memory, where it can be had: a database costs 25 ms there and up to 150 ms on a disk. None: the usual place."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3 else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Embedded]:
    """The server of this session (of this worker under xdist). A test may stop it: the next one starts it again."""
    careless = {"fsync": "off", "full_page_writes": "off"}  # survives a killed server, not a killed machine
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-", dir=_quick_folder()) as folder,
        embedded(Path(folder) / "postgres", settings=careless) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def template(postgres: Embedded) -> str:
    """The name of a database that has had all migrations and that nobody uses."""
    migrate(postgres.create_database("migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def worn_out() -> list[str]:
    """Databases whose tests are over."""
    return []


def _fresh(postgres: Embedded, worn_out: list[str], *, template: str | None) -> Iterator[str]:
    postgres.start()
    # Dropped one test later: dropping waits 100 ms for a connection that has only just been closed.
    while worn_out:
        postgres.drop_database(worn_out.pop())
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name, template=template)
    worn_out.append(name)


@pytest.fixture
def database_url(postgres: Embedded, template: str, worn_out: list[str]) -> Iterator[str]:
    """The address of a fresh, migrated database."""
    yield from _fresh(postgres, worn_out, template=template)


@pytest.fixture
def empty_database_url(postgres: Embedded, worn_out: list[str]) -> Iterator[str]:
    """The address of a fresh database with nothing in it."""
    yield from _fresh(postgres, worn_out, template=None)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to this test's database; every statement commits by itself."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
