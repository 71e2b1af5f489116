"""Fixtures for tests of your own stages: a real Postgres, real ticks, time travel, an HTTP vendor.

    pytest_plugins = ["dev.testing"]      # in conftest.py

    lab, make_lab           the application with its own database (`dev.testing.labs`)
    vendor                  an HTTP server that responds as the test defines (`dev.testing.vendors`)
    database_url            the URL of that database; connection: an open connection to it
    empty_database_url      the URL of an empty database
    postgres, template      the server of the session, and the database that is copied for each test

If a test fails, its report lists the jobs that failed meanwhile, with file and line (`dev.testing.failures`).

docs/testing.md tests a stage with them, step by step. Not installed in production.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from dev.keys import secrets_file
from dev.migrate import migrate
from dev.postgres import Embedded, embedded
from dev.testing.databases import Databases
from dev.testing.failures import pytest_runtest_makereport, pytest_runtest_setup
from dev.testing.labs import Lab
from dev.testing.vendors import Vendor, a_vendor

__all__ = ["pytest_runtest_makereport", "pytest_runtest_setup"]


def _memory_folder() -> str | None:
    """Return a folder in memory if available, else None: a database takes 25 ms there and up to 150 ms on disk."""
    memory = Path("/dev/shm")  # noqa: S108 - our own folder is created in it
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3 else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Embedded]:
    """The server of this session (of this worker under xdist). If a test stops it, the next one starts it again."""
    fast = {"fsync": "off", "full_page_writes": "off"}  # survives a killed server, not a killed machine
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-", dir=_memory_folder()) as folder,
        embedded(Path(folder) / "postgres", settings=fast) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def template(postgres: Embedded) -> str:
    """The name of the migrated database, which has no connections."""
    migrate(postgres.create_database("migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def databases(postgres: Embedded) -> Iterator[Databases]:
    """The databases of tests."""
    with closing(Databases(postgres)) as databases:
        yield databases


@pytest.fixture
def database_url(databases: Databases, template: str) -> Iterator[str]:
    """The URL of a fresh, migrated database."""
    with databases.fresh(template) as url:
        yield url


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    with databases.fresh("template1") as url:
        yield url


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to this test's database, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make_lab(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Return a factory of labs on this test's database: `make_lab(GIFTCARD_MAX_ATTEMPTS=2)`. Mails become files."""
    own = secrets_file(tmp_path / "secrets.json") | {"GIFTCARD_MAIL_DIR": str(tmp_path / "mails")}
    with ExitStack() as labs:
        yield lambda **environ: labs.enter_context(closing(Lab(database_url, **(own | environ))))


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """The application with default settings."""
    return make_lab()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """An HTTP vendor; use `with a_vendor() as another` for one more."""
    with a_vendor() as one:
        yield one
