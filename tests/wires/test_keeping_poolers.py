"""A real PgBouncer that can keep track of prepared statements (1.21 or newer), set to do so, and not to."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from dev.postgres import Embedded
from lib.store import wire as wires
from lib.store.postgres import PostgresWire
from tests.wires.pgbouncer import PgBouncer, keeping_program, pgbouncer


@contextmanager
def keeping(postgres: Embedded, most: int) -> Iterator[PgBouncer]:
    found = keeping_program()
    if found is None:
        pytest.skip("no pgbouncer 1.21 or newer: name one in PGBOUNCER (Debian 12 and Ubuntu 24.04 have older ones)")
    with pgbouncer(postgres.url, more=f"auth_type = any\nmax_prepared_statements = {most}", found=found) as running:
        yield running


def of_the_server(url: str) -> list[str]:
    """The names on one of the pooler's connections."""
    with psycopg.connect(url, prepare_threshold=None, autocommit=True) as connection:
        rows = connection.execute("select name from pg_prepared_statements").fetchall()
    return [name for (name,) in rows]


def prepares(wire: PostgresWire) -> list[bool | None]:
    return [connection.prepares for connection in wire._connections._idle]


def test_one_that_keeps_none_gets_none(postgres: Embedded, database_url: str) -> None:
    with keeping(postgres, 0) as pooler:
        url = pooler.url_of(database_url)
        for _ in range(3):
            with closing(PostgresWire(url)) as wire:
                assert [wire.call("wire_integer", value=n) for n in range(6)] == list(range(6))
                assert prepares(wire) == [False]
        assert of_the_server(url) == []


@pytest.mark.parametrize("most", [1, 2, 200])
def test_one_that_keeps_them_gets_them_and_shares_them_out(postgres: Embedded, database_url: str, most: int) -> None:
    with keeping(postgres, most) as pooler:
        url = pooler.url_of(database_url)
        for _ in range(3):
            with closing(PostgresWire(url)) as wire:
                for n in range(6):
                    assert wire.call("wire_integer", value=n) == n
                    assert wire.call("wire_text", value=str(n)) == str(n)
                assert prepares(wire) == [True]
        names = of_the_server(url)
        assert names
        assert all(name.startswith("PGBOUNCER_") for name in names)


def test_many_threads_get_their_own_answers_whatever_server_they_meet(postgres: Embedded, database_url: str) -> None:
    """Twelve connections of clients share three of the server."""
    with keeping(postgres, 200) as pooler, closing(PostgresWire(pooler.url_of(database_url))) as wire:
        answers: dict[int, list[int]] = {}
        barrier = threading.Barrier(12)

        def call(number: int) -> None:
            barrier.wait(10)
            answers[number] = [wire.call("wire_big", value=number * 1_000 + turn) for turn in range(20)]

        threads = [threading.Thread(target=call, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert answers == {number: [number * 1_000 + turn for turn in range(20)] for number in range(12)}
        assert set(prepares(wire)) == {True}


@pytest.mark.parametrize("most", [0, 200])
def test_servers_that_end_behind_the_pooler_are_bridged(
    postgres: Embedded, database_url: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wires, "_PAUSES", (0.05, 0.1))
    with keeping(postgres, most) as pooler, closing(PostgresWire(pooler.url_of(database_url))) as wire:
        numbers = [wire.call("wire_note", name="é") for _ in range(4)]
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        numbers += [wire.call("wire_note", repeat=True, name="é") for _ in range(4)]
        assert numbers == list(range(1, 9))
