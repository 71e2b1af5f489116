"""Each wire, over a fresh database as Supabase makes them: roles, default grants, migrations."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from dev.migrate import migrate
from dev.postgres import Embedded
from lib.store.store import Store
from lib.store.wire import Wire
from tests.support.factory import World
from tests.support.optional import lacks
from tests.support.postgrest.roles import make_like_supabase
from tests.support.postgrest.server import Server, stand_in
from tests.wires.kinds import WIRES, a_wire, a_wire_by_proxy
from tests.wires.pgbouncer import PgBouncer, pgbouncer, program
from tests.wires.proxy import Proxy


@pytest.fixture(scope="session")
def template(postgres: Embedded) -> str:
    """The name of a database that nobody uses: roles, migrations after them, and the functions of `values.sql`."""
    url = postgres.create_database("like_supabase")
    make_like_supabase(url)
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((Path(__file__).parent / "values.sql").read_bytes())
    return "like_supabase"


@pytest.fixture(scope="session")
def pooler(postgres: Embedded) -> Iterator[PgBouncer]:
    """One for all databases of this session's server."""
    if program() is None:
        lacks("pgbouncer is not installed (Debian, Ubuntu: apt install pgbouncer)")
    with pgbouncer(postgres.url) as running:
        yield running


@pytest.fixture
def supabase(database_url: str) -> Iterator[Server]:
    """The stand-in over this test's database."""
    with stand_in(database_url) as server:
        yield server


@pytest.fixture(scope="session")
def open_pooler(request: pytest.FixtureRequest) -> Callable[[], PgBouncer]:
    """The session's pooler, started by the first that needs it."""
    return lambda: request.getfixturevalue("pooler")  # type: ignore[no-any-return]


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, database_url: str, open_pooler: Callable[[], PgBouncer]) -> Iterator[Wire]:
    """Each wire, to this test's database."""
    with ExitStack() as closing:
        yield a_wire(request.param, database_url, pooler=open_pooler, closing=closing)


@pytest.fixture(params=WIRES)
def line(
    request: pytest.FixtureRequest, database_url: str, open_pooler: Callable[[], PgBouncer]
) -> Iterator[tuple[Wire, Proxy]]:
    """Each wire, and the proxy that it goes through."""
    with ExitStack() as closing:
        yield a_wire_by_proxy(request.param, database_url, pooler=open_pooler, closing=closing)


@pytest.fixture(params=WIRES, scope="module")
def lasting_wire(
    request: pytest.FixtureRequest, postgres: Embedded, template: str, open_pooler: Callable[[], PgBouncer]
) -> Iterator[Wire]:
    """Each wire, to one database for all tests of a module: they write nothing, or nothing that matters to another."""
    name = f"lasting_{uuid.uuid4().hex[:12]}"
    with ExitStack() as closing:
        url = postgres.create_database(name, template=template)
        closing.callback(postgres.drop_database, name)
        yield a_wire(request.param, url, pooler=open_pooler, closing=closing)


@pytest.fixture
def store(wire: Wire) -> Store:
    return Store(wire)


@pytest.fixture
def world(connection: psycopg.Connection) -> World:
    """What tests put into the database, at its own time: the owner's connection."""
    return World(connection, now=None)
