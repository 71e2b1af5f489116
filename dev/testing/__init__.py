"""For tests of stages of your own: a real Postgres, real ticks, time that moves, a vendor at the wire.

    pytest_plugins = ["dev.testing"]      # in conftest.py

    lab, make_lab           the application over a database of this test's own (`dev.testing.labs`)
    vendor                  somebody to call over HTTP, who answers as the test says (`dev.testing.vendors`)
    database_url            the address of that database; connection: an open one to it
    empty_database_url      the address of a database with nothing in it
    postgres, template      the server of the session, and the database that others are copied from

docs/testing.md builds a stage with it, step by step. Nothing here is installed in production.
"""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from dev.keys import secrets_file
from dev.migrate import migrate
from dev.postgres import Embedded, embedded
from dev.testing.labs import Lab
from dev.testing.vendors import Vendor, a_vendor


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


@pytest.fixture
def make_lab(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Makes labs over this test's database: `make_lab(GIFTCARD_MAX_ATTEMPTS=2)`. Mails become files of this test."""
    own = secrets_file(tmp_path / "secrets.json") | {"GIFTCARD_MAIL_DIR": str(tmp_path / "mails")}
    with ExitStack() as made:
        yield lambda **environ: made.enter_context(closing(Lab(database_url, **(own | environ))))


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """The application as it comes."""
    return make_lab()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """Somebody to call; `with a_vendor() as another` for one more."""
    with a_vendor() as one:
        yield one
