"""Every call of every wire ends in time, whatever does not answer: a proxy, a lock, a drip of bytes, a name."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lib.config.settings import MARGIN_SECONDS
from lib.errors import Unavailable
from lib.store import connections, deadline, postgres, supabase
from lib.store import wire as wires
from lib.store.postgres import PostgresWire
from lib.store.supabase import SupabaseWire
from lib.store.wire import Wire
from tests.support.factory import World
from tests.support.postgrest.caller import SECRET_KEY
from tests.support.world import CRON, a_world, bearer
from tests.wires.pgbouncer import PgBouncer
from tests.wires.proxy import Proxy


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes at most a second, a statement half of one."""
    monkeypatch.setattr(postgres, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(supabase, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr(wires, "_RETRY_WINDOW", 0.4)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_call_with_its_retries_fits_into_the_margin_of_a_tick() -> None:
    longest = wires._RETRY_WINDOW + deadline.CALL_SECONDS + connections._CANCEL_SECONDS
    assert longest < MARGIN_SECONDS
    assert deadline.STATEMENT_SECONDS < deadline.CALL_SECONDS


def test_a_reply_that_is_held_is_not_waited_for(line: tuple[Wire, Proxy], short: None) -> None:
    wire, between = line
    between.stall()
    with within(4), pytest.raises(Unavailable, match="may have been carried out"):
        wire.call("wire_note", name="é")


def test_the_connection_of_a_held_reply_is_not_used_again(line: tuple[Wire, Proxy], short: None) -> None:
    wire, between = line
    between.stall()
    with pytest.raises(Unavailable):
        wire.call("wire_integer", value=1)
    between.resume()
    assert wire.call("wire_integer", value=2) == 2


def test_a_table_that_is_locked_is_not_waited_for(
    line: tuple[Wire, Proxy], short: None, world: World, database_url: str
) -> None:
    wire, _ = line
    name = world.rows("select current_database() as name")[0]["name"]
    world.run(f"alter role authenticator in database {name} set statement_timeout = '500ms'")
    world.run(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'authenticator'"
        " and datname = current_database() and query not ilike 'listen%%'"
    )
    with psycopg.connect(database_url) as other:
        other.execute("lock table wire_notes in access exclusive mode")
        with within(4), pytest.raises(Unavailable):
            wire.call("wire_note", name="é")
        _wait(lambda: _waiting(world) == 0)
    assert wire.call("wire_integer", value=1) == 1
    assert world.rows("select count(*) as notes from wire_notes")[0]["notes"] == 0


def _waiting(world: World) -> int:
    """How many sessions still wait for the table: the server ends their statements, too."""
    waiting = "select count(*) as n from pg_stat_activity where query like '%%wire_note%%' and wait_event_type = 'Lock'"
    return int(world.rows(waiting + " and datname = current_database()")[0]["n"])


def _wait(until: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(100):
        if until():
            return
        pause.wait(0.05)
    raise AssertionError("it did not end")


@contextmanager
def a_listener(answer: Callable[[socket.socket], Any]) -> Iterator[int]:
    """A server that does this with each connection; its port."""
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            held.append(client)
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for client in held:
        client.close()


def _drip(client: socket.socket) -> None:
    """A byte now and then, each within the limit of a read."""
    pause = threading.Event()
    try:
        for _ in range(100):
            client.sendall(b"H")
            pause.wait(0.1)
    except OSError:
        pass


def a_wire_to(kind: str, port: int, *, host: str = "127.0.0.1") -> Wire:
    if kind == "supabase":
        return SupabaseWire(f"http://{host}:{port}", SECRET_KEY, key_variable="SUPABASE_SECRET_KEY")
    return PostgresWire(f"postgresql://kate@{host}:{port}/x?sslmode=disable")


@pytest.mark.parametrize("kind", ["psycopg", "supabase"])
def test_a_server_that_drips_is_not_waited_for(kind: str, short: None) -> None:
    with a_listener(_drip) as port, within(3), pytest.raises(Unavailable):
        a_wire_to(kind, port).call("wire_note", name="é")


@pytest.mark.parametrize("kind", ["psycopg", "supabase"])
def test_a_server_that_says_nothing_is_not_waited_for(kind: str, short: None) -> None:
    with a_listener(lambda client: None) as port, within(3), pytest.raises(Unavailable):
        a_wire_to(kind, port).call("wire_note", name="é")


def test_several_addresses_share_the_time_of_one_call(short: None) -> None:
    with a_listener(lambda client: None) as port, within(3):
        hosts, ports = ",".join(["127.0.0.1"] * 5), ",".join([str(port)] * 5)
        wire = PostgresWire(f"host={hosts} port={ports} user=kate sslmode=disable")
        with pytest.raises(Unavailable) as failed:
            wire.call("wire_note", name="é")
    assert failed.value.undone


@pytest.mark.parametrize("kind", ["psycopg", "supabase"])
def test_a_name_that_does_not_resolve_is_not_waited_for(
    kind: str, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: threading.Event().wait(5))
    wire = a_wire_to(kind, 1, host="db.invalid")
    with within(3), pytest.raises(Unavailable) as failed:
        wire.call("wire_note", name="é")
    assert failed.value.undone


def test_the_time_limit_of_statements_is_ours_and_the_url_may_change_it(database_url: str) -> None:
    def limit(url: str) -> str:
        wire = PostgresWire(url)
        try:
            return str(wire.call("wire_setting", name="statement_timeout"))
        finally:
            wire.close()

    assert limit(database_url) == "10s"
    assert limit(make_conninfo(database_url, options="-c statement_timeout=3s -c work_mem=8MB")) == "3s"
    assert limit(make_conninfo(database_url, options="-c work_mem=8MB")) == "10s"


def test_what_a_pooler_reads_in_the_url_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connections._options("postgresql://db/x?options=reference%3Dabc") == "reference=abc"
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=8MB")
    assert connections._options("postgresql://db/x") == "-c statement_timeout=10000 -c work_mem=8MB"


def test_a_pooler_that_refuses_the_parameter_is_asked_once(pooler: PgBouncer, database_url: str) -> None:
    wire = PostgresWire(pooler.url_of(database_url))
    opened: list[dict[str, Any]] = []
    connect = connections.Connection.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            connections.Connection, "connect", lambda url, **more: (opened.append(more), connect(url, **more))[1]
        )
        assert wire.call("wire_integer", value=1) == 1
        wire.close()
        assert wire.call("wire_integer", value=2) == 2
    wire.close()
    assert ["options" in more for more in opened] == [True, False, False]


@pytest.mark.slow
def test_a_tick_whose_database_falls_silent_answers_503_in_time(line: tuple[Wire, Proxy]) -> None:
    """With the time limits as they are."""
    wire, between = line
    with a_world("postgresql://unused@127.0.0.1:9/x", wire=wire, GIFTCARD_TICK_BUDGET_SECONDS=1) as world:
        between.stall()
        with within(1 + MARGIN_SECONDS):
            answer = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
        assert answer.status_code == 503
        assert answer.json["title"] == "the database is away"
