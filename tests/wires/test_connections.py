"""Which connections of the psycopg wire are used again: neither old ones, nor any that has met a failing database."""

import time
from collections.abc import Iterator

import pytest

from lib.errors import Misconfigured, StoreError, Unavailable
from lib.store import connections
from lib.store import wire as wires
from lib.store.connections import Connection, Connections
from lib.store.postgres import PostgresWire
from tests.support.factory import World


@pytest.fixture
def pool(database_url: str) -> Iterator[Connections]:
    pool = Connections(database_url)
    yield pool
    pool.close()


def take(pool: Connections, count: int = 1) -> list[Connection]:
    return [pool.take(until=time.monotonic() + 10) for _ in range(count)]


def test_the_last_one_that_was_given_back_is_used_again(pool: Connections) -> None:
    first, second = take(pool, 2)
    pool.give_back(first)
    pool.give_back(second)
    assert take(pool, 2) == [second, first]


def test_one_that_is_too_old_is_closed(pool: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    idle, busy = take(pool, 2)
    pool.give_back(idle)
    monkeypatch.setattr(connections, "_LONGEST_AGE", 0)
    pool.give_back(busy)
    (fresh,) = take(pool)
    assert fresh not in (idle, busy)
    assert (idle.closed, busy.closed) == (True, True)


def test_one_that_failed_takes_all_others_with_it(pool: Connections) -> None:
    failed, idle, busy = take(pool, 3)
    pool.give_back(idle)
    pool.discard(failed)
    assert (failed.closed, idle.closed, busy.closed) == (True, True, False)
    pool.give_back(busy)
    assert busy.closed


def test_what_a_dying_server_leaves_to_read_is_the_end_of_a_connection(pool: Connections, world: World) -> None:
    """Its last message, before the end of the file: a connection that has it is dead, though it looks open."""
    (idle,) = take(pool)
    pool.give_back(idle)
    world.run("select pg_terminate_backend(%s, 5000)", idle.info.backend_pid)
    (fresh,) = take(pool)
    assert fresh is not idle
    assert idle.closed


def test_a_refusal_keeps_the_connection_and_a_failure_does_not(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wires, "_PAUSES", ())
    wire = PostgresWire(database_url)
    wire.call("wire_void")
    (first,) = wire._connections._idle
    for state in ("GC404", "23505", "22P02"):
        with pytest.raises(StoreError, match="no"):
            wire.call("wire_fail", state=state)
        assert wire._connections._idle == [first]
    for state in ("25006", "P0001", "XX000", "42501"):
        wire.call("wire_void")
        with pytest.raises((Unavailable, Misconfigured)):
            wire.call("wire_fail", state=state)
        assert wire._connections._idle == []
    assert first.closed
    wire.close()
