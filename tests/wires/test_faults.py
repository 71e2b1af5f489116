"""Lines that break: a call that may be repeated is, on every wire. Any other is Unavailable, and carried out once."""

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from lib.errors import Unavailable
from lib.store import connections
from lib.store import supabase as supabase_wire
from lib.store import wire as wires
from lib.store.supabase import SupabaseWire
from lib.store.wire import Wire
from tests.support.factory import World
from tests.support.postgrest.caller import SECRET_KEY
from tests.support.postgrest.server import stand_in
from tests.wires.proxy import Proxy, proxy


def notes(world: World) -> int:
    (row,) = world.rows("select count(*) as notes from wire_notes")
    return int(row["notes"])


def test_an_answer_that_breaks_off_is_asked_for_again(line: tuple[Wire, Proxy], world: World) -> None:
    wire, between = line
    between.cut(1)
    assert wire.call("wire_note", repeat=True, name="é") == 2
    assert (between.cuts, notes(world)) == (1, 2)


def test_one_that_may_not_be_repeated_is_told_and_carried_out_once(line: tuple[Wire, Proxy], world: World) -> None:
    wire, between = line
    between.cut(1)
    with pytest.raises(Unavailable, match="wire_note"):
        wire.call("wire_note", name="é")
    assert (between.cuts, notes(world)) == (1, 1)
    assert wire.call("wire_note", name="the next one") == 2


def test_it_is_asked_three_times_at_most(line: tuple[Wire, Proxy], world: World) -> None:
    wire, between = line
    between.cut(99)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        wire.call("wire_note", repeat=True, name="é")
    assert 1 <= notes(world) <= 3
    assert 0.5 < time.monotonic() - began < 5


def test_an_idle_connection_that_ended_meanwhile_is_not_noticed(line: tuple[Wire, Proxy], world: World) -> None:
    wire, between = line
    between.drop()
    assert wire.call("wire_note", repeat=True, name="é") == 1
    assert notes(world) == 1


def test_nobody_there_is_unavailable(line: tuple[Wire, Proxy]) -> None:
    wire, between = line
    between.hang_up()
    for repeat in (True, False):
        with pytest.raises(Unavailable, match="cannot be reached or gave up during wire_note"):
            wire.call("wire_note", repeat=repeat, name="é")


def test_a_statement_that_takes_too_long_is_unavailable_and_undone(
    line: tuple[Wire, Proxy], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own limit on a direct connection, by that of the role on the others."""
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 0.15)
    wire, _ = line
    (database,) = world.rows("select current_database() as name")
    for role in ("postgres", "authenticator"):
        world.run(f"alter role {role} in database {database['name']} set statement_timeout = '150ms'")
    world.run(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    _wait(lambda: wire.call("wire_integer", repeat=True, value=1) == 1)
    with pytest.raises(Unavailable, match="statement timeout"):
        wire.call("wire_sleep", seconds=5)
    assert wire.call("wire_integer", value=1) == 1


def _wait(until: Callable[[], bool]) -> None:
    for _ in range(100):
        try:
            if until():
                return
        except Unavailable:
            time.sleep(0.05)
    raise AssertionError("it did not come back")


def test_many_threads_call_at_once_and_each_gets_its_own_answer(line: tuple[Wire, Proxy]) -> None:
    wire, _ = line
    answers: dict[int, list[int]] = {}
    barrier = threading.Barrier(20)

    def call(number: int) -> None:
        barrier.wait(10)
        answers[number] = [wire.call("wire_big", value=number * 1_000 + turn) for turn in range(20)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {number: [number * 1_000 + turn for turn in range(20)] for number in range(20)}


def test_connections_are_used_again(line: tuple[Wire, Proxy]) -> None:
    """Also after void, refusals and errors of arguments."""
    wire, between = line
    for _ in range(3):
        assert wire.call("wire_void") is None
        for state in ("GC404", "23505", "57014"):
            with pytest.raises(Exception, match="no"):
                wire.call("wire_fail", state=state)
        with pytest.raises(Exception, match="wire_nothing"):
            wire.call("wire_nothing")
    assert between.lines == 1


def test_no_try_begins_when_patience_has_ended(
    line: tuple[Wire, Proxy], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, between = line
    monkeypatch.setattr(wires, "_RETRY_WINDOW", 0.01)
    between.cut(99)
    with pytest.raises(Unavailable):
        wire.call("wire_note", repeat=True, name="é")
    assert (between.cuts, notes(world)) == (1, 1)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_server_that_does_not_answer_is_unavailable_in_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch, repeat: bool
) -> None:
    """Over Supabase. A connection of Postgres has no such limit: there the database ends the statement."""
    monkeypatch.setattr(supabase_wire, "_TIMEOUT", httpx.Timeout(0.3))
    with stand_in(database_url) as server, proxy(("127.0.0.1", urlsplit(server.url).port or 0)) as between:
        wire = SupabaseWire(f"http://127.0.0.1:{between.port}", SECRET_KEY, key_variable="SUPABASE_SECRET_KEY")
        between.stall()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="ReadTimeout"):
            wire.call("wire_note", repeat=repeat, name="é")
        assert time.monotonic() - began < (3 if repeat else 1)
        wire.close()
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from wire_notes").fetchone() == (3 if repeat else 1,)
