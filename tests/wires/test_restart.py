"""The server restarts, with many connections idle: the first call of each kind finds it up and notices nothing."""

import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from dev.migrate import migrate
from dev.postgres import Embedded, embedded
from lib.store.wire import Wire
from tests.support.postgrest.roles import make_like_supabase
from tests.wires.kinds import WIRES, a_wire, a_wire_by_proxy
from tests.wires.pgbouncer import PgBouncer, pgbouncer
from tests.wires.proxy import Proxy

pytestmark = pytest.mark.slow

IDLE = 12


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    """A server of this module's own: its restarts disturb nobody."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    place = str(memory) if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="giftcards-", dir=place) as folder, embedded(Path(folder) / "pg") as server:
        url = server.create_database("like_supabase")
        make_like_supabase(url)
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute((Path(__file__).parent / "values.sql").read_bytes())
        yield server


@pytest.fixture
def url(server: Embedded) -> Iterator[str]:
    name = f"restarted_{uuid.uuid4().hex[:12]}"
    yield server.create_database(name, template="like_supabase")
    server.drop_database(name)


def fill(wire: Wire, count: int = IDLE) -> None:
    """Leaves so many connections idle."""
    barrier = threading.Barrier(count)

    def call() -> None:
        barrier.wait(10)
        wire.call("wire_sleep", seconds=0.3)

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def notes(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from wire_notes").fetchone()
    assert row
    return int(row[0])


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("repeat", [True, False], ids=["repeatable", "once only"])
def test_the_first_call_after_a_restart_works(server: Embedded, url: str, repeat: bool, mode: str) -> None:
    with ExitStack() as closing:
        wire = a_wire("psycopg", url, pooler=_no_pooler, closing=closing)
        fill(wire)
        server.stop(mode=mode)  # type: ignore[arg-type]
        server.start()
        assert wire.call("wire_note", repeat=repeat, name="é") == 1
        assert notes(url) == 1


@pytest.mark.parametrize("repeat", [True, False], ids=["repeatable", "once only"])
def test_many_threads_call_at_once_after_a_restart(server: Embedded, url: str, repeat: bool) -> None:
    with ExitStack() as closing:
        wire = a_wire("psycopg", url, pooler=_no_pooler, closing=closing)
        fill(wire)
        server.restart()
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(wire.call("wire_note", repeat=repeat, name="é")))
            for _ in range(IDLE)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answers) == list(range(1, IDLE + 1))


def test_a_restart_behind_the_pooler_is_bridged_for_what_may_be_repeated(server: Embedded, url: str) -> None:
    with pgbouncer(server.url) as pooler, ExitStack() as closing:
        wire = a_wire("pgbouncer", url, pooler=lambda: pooler, closing=closing)
        fill(wire, 3)
        server.restart()
        assert wire.call("wire_note", repeat=True, name="é") == 1


@pytest.mark.parametrize("kind", WIRES)
@pytest.mark.parametrize("repeat", [True, False], ids=["repeatable", "once only"])
def test_connections_that_ended_while_idle_are_not_noticed(
    database_url: str, open_pooler: Callable[[], PgBouncer], kind: str, repeat: bool
) -> None:
    """As after a pause of the function, or when a proxy drops what is idle."""
    with ExitStack() as closing:
        wire, between = a_wire_by_proxy(kind, database_url, pooler=open_pooler, closing=closing)
        fill(wire)
        assert between.lines >= IDLE
        between.drop()
        assert wire.call("wire_note", repeat=repeat, name="é") == 1
        _settled(between)
        assert between.lines == 1
    assert notes(database_url) == 1


def _settled(between: Proxy) -> None:
    pause = threading.Event()
    for _ in range(100):
        if between.lines <= 1:
            return
        pause.wait(0.02)


def _no_pooler() -> PgBouncer:
    raise AssertionError("there is no pooler in this test")
