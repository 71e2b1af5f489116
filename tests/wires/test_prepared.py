"""Statements that are prepared: where, and that no call is lost or carried out twice when one is gone."""

import time
from collections.abc import Callable, Iterator
from unittest import mock

import psycopg
import pytest

from lib.errors import Conflict, Misconfigured, Refused, Unavailable
from lib.store import connections, postgres
from lib.store import wire as wires
from lib.store.connections import Connection
from lib.store.exchange import ask
from lib.store.postgres import PostgresWire
from lib.store.statements import statement
from tests.support.factory import World

# What may happen to a prepared statement comes at one of these calls: the first, the one that prepares, a later one.
CALLS = [1, 2, 3]


@pytest.fixture
def wire(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresWire]:
    monkeypatch.setattr(wires, "_PAUSES", ())
    wire = PostgresWire(database_url)
    yield wire
    wire.close()


def line_of(wire: PostgresWire) -> Connection:
    (connection,) = wire._connections._idle
    return connection


def prepared(wire: PostgresWire) -> list[str]:
    """The names that the server has, without those of this question, and without the sums of their statements."""
    query = "select regexp_replace(name, '_[0-9a-f]{8}$', '') from pg_prepared_statements order by name"
    names = line_of(wire).execute(query).fetchall()
    return [name for (name,) in names]


def test_a_statement_that_runs_again_is_prepared_and_one_that_does_not_is_not(wire: PostgresWire) -> None:
    names = []
    for number in range(4):
        assert wire.call("wire_integer", value=number) == number
        names.append(prepared(wire))
    assert wire.call("wire_text", value="é") == "é"
    assert names == [[], [], ["giftcard_1"], ["giftcard_1"]]
    assert prepared(wire) == ["giftcard_1"]


def test_statements_that_take_turns_are_all_prepared(wire: PostgresWire) -> None:
    """All run once before the first is prepared: no two get the same name."""
    for number in range(4):
        assert wire.call("wire_integer", value=number) == number
        assert [wire.call("wire_text", value="é"), wire.call("wire_flag", value=True)] == ["é", True]
        wire.call("wire_void")
    assert prepared(wire) == ["giftcard_1", "giftcard_2", "giftcard_3", "giftcard_4"]
    assert line_of(wire).prepares


def test_one_that_no_longer_fits_leaves_its_name_to_no_other(wire: PostgresWire, world: World) -> None:
    for number in range(3):
        assert (wire.call("wire_text", value="é"), wire.call("wire_big", value=number)) == ("é", number)
    world.run("drop function wire_big(bigint)")
    world.run("create function wire_big(p_value text) returns text return p_value")
    for number in range(4):
        assert wire.call("wire_big", value=number) == str(number)
        assert wire.call("wire_flag", value=True) is True
    assert prepared(wire) == ["giftcard_1", "giftcard_2", "giftcard_3", "giftcard_4"]
    assert line_of(wire).prepares


def test_a_name_is_of_one_statement_on_all_connections() -> None:
    """A pooler that stops to keep track hands on sessions with the statements of others: none runs for another."""
    names = {Connection.new_name(mock.Mock(named=0), text) for text in (b"select 1", b"select 2")}
    assert len(names) == 2


def test_no_more_than_a_bound_is_prepared(wire: PostgresWire) -> None:
    wire.call("wire_void")
    line_of(wire).names.update((b"%d" % number, b"") for number in range(100))
    assert [wire.call("wire_integer", value=number) for number in range(4)] == [0, 1, 2, 3]
    assert prepared(wire) == []


@pytest.mark.parametrize("spoil", ["deallocate all", "discard all"])
def test_one_that_is_gone_is_carried_out_once_and_none_is_prepared_again(wire: PostgresWire, spoil: str) -> None:
    for number in range(1, 4):
        assert wire.call("wire_note", name="é") == number
    assert prepared(wire) == ["giftcard_1"]
    line_of(wire).execute(spoil.encode())
    before = line_of(wire)
    assert [wire.call("wire_note", name="é") for _ in range(4)] == [4, 5, 6, 7]
    assert (prepared(wire), line_of(wire)) == ([], before)


def test_a_name_that_someone_else_has_taken_is_left_to_them(wire: PostgresWire) -> None:
    wire.call("wire_void")
    taken = Connection.new_name(mock.Mock(named=0), statement("wire_note", ("name",))).decode()
    line_of(wire).execute(f"prepare {taken} as select 1".encode())
    assert [wire.call("wire_note", name="é") for _ in range(4)] == [1, 2, 3, 4]
    assert prepared(wire) == ["giftcard_1"]


def test_a_migration_between_two_calls_is_not_noticed(wire: PostgresWire, world: World) -> None:
    assert [wire.call("wire_big", value=n) for n in range(4)] == [0, 1, 2, 3]
    world.run("drop function wire_big(bigint)")
    with pytest.raises(Misconfigured, match="wire_big is missing"):
        wire.call("wire_big", value=4)
    world.run("create function wire_big(p_value text, p_more text default '!') returns text return p_value || p_more")
    assert [wire.call("wire_big", value=n) for n in range(4)] == ["0!", "1!", "2!", "3!"]


def test_the_result_of_another_type_is_not_noticed(wire: PostgresWire, world: World) -> None:
    """As after an extension or a cast has changed to_json: cached plan must not change result type."""
    world.run("create function changing() returns text return 'a'")
    text = b"select changing(), 1 where $1::text is null or true"
    wire.call("wire_void")
    connection = line_of(wire)
    assert [ask(connection, text, [b"x"]) for _ in range(3)] == [b"a"] * 3
    assert connection.names[text]
    world.run("drop function changing()")
    world.run("create function changing() returns integer return 7")
    assert ask(connection, text, [b"x"]) == b"7"
    assert connection.prepares


@pytest.mark.parametrize("state", ["GC404", "23505", "22P02", "0A000", "42883", "26000"])
def test_what_a_function_refuses_is_the_same_error_at_each_call(wire: PostgresWire, state: str) -> None:
    errors = []
    for _ in CALLS:
        with pytest.raises((Refused, Conflict, Unavailable, Misconfigured)) as failed:
            wire.call("wire_fail", state=state)
        errors.append((type(failed.value), str(failed.value), vars(failed.value)))
    assert errors == errors[:1] * len(CALLS)


@pytest.mark.parametrize("calls", CALLS)
def test_what_the_commit_refuses_is_no_success(wire: PostgresWire, world: World, calls: int) -> None:
    world.run("create table late (id integer unique deferrable initially deferred)")
    world.run(
        "create function wire_late(p_id integer) returns integer language sql"
        " as 'insert into public.late values (p_id) returning id'"
    )
    assert [wire.call("wire_late", id=n) for n in range(1, calls)] == list(range(1, calls))
    world.run("insert into late values (99)")
    with pytest.raises(Unavailable, match="late_id_key"):  # of someone else's table
        wire.call("wire_late", id=99)
    assert world.rows("select count(*) as n from late") == [{"n": calls}]
    assert wire.call("wire_late", id=100) == 100


@pytest.mark.parametrize("calls", CALLS)
def test_a_server_that_ends_the_connection_names_the_reason(wire: PostgresWire, world: World, calls: int) -> None:
    world.run(
        "create function wire_end(p_end boolean) returns boolean language sql"
        " as 'select p_end and pg_terminate_backend(pg_backend_pid(), 1000)'"
    )
    assert [wire.call("wire_end", end=False) for _ in range(1, calls)] == [False] * (calls - 1)
    with pytest.raises(Unavailable, match="may have been carried out") as failed:
        wire.call("wire_end", end=True)
    assert failed.value.sqlstate == "57P01"
    assert wire.call("wire_end", end=False) is False


@pytest.mark.parametrize("calls", CALLS)
def test_a_call_that_takes_too_long_is_cancelled(
    wire: PostgresWire, world: World, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    for _ in range(1, calls):
        wire.call("wire_sleep", seconds=0)
    monkeypatch.setattr(postgres, "CALL_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no response within"):
        wire.call("wire_sleep", seconds=60)
    assert time.monotonic() - began < 5
    monkeypatch.undo()
    assert wire.call("wire_integer", value=1) == 1
    asleep = "select count(*) as n from pg_stat_activity where query like '%%wire_sleep%%' and state = 'active'"
    here = " and datname = current_database() and pid <> pg_backend_pid()"
    _wait(lambda: world.rows(asleep + here) == [{"n": 0}])


def _wait(until: Callable[[], bool]) -> None:
    for _ in range(100):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("it did not end")


@pytest.mark.parametrize("size", [10, 300_000, 5_000_000])
def test_arguments_and_replies_of_any_size_fit_into_each_call(wire: PostgresWire, size: int) -> None:
    for _ in CALLS:
        assert wire.call("wire_json", value={"a": "é" * size}) == {"a": "é" * size}


# What a PgBouncer that keeps track is asked, here of a server whose sessions look like one's


@pytest.fixture
def asking(wire: PostgresWire, monkeypatch: pytest.MonkeyPatch) -> PostgresWire:
    monkeypatch.setattr(wire._connections, "_by_pgbouncer", True)
    return wire


def test_a_pooler_that_renames_nothing_gets_no_prepared_statements(asking: PostgresWire) -> None:
    assert [asking.call("wire_integer", value=n) for n in range(4)] == [0, 1, 2, 3]
    assert (prepared(asking), line_of(asking).prepares) == ([], False)


@pytest.mark.parametrize("state", ["GC404", "26000"])
def test_the_probe_leaves_nothing_if_the_call_is_refused(asking: PostgresWire, state: str) -> None:
    with pytest.raises((Refused, Unavailable)):
        asking.call("wire_fail", state=state)
    if state == "GC404":
        assert (prepared(asking), line_of(asking).prepares) == ([], False)
    assert asking.call("wire_note", name="é") == 1


def test_a_pooler_that_renames_gets_them(asking: PostgresWire) -> None:
    connection = asking._connections.take(until=time.monotonic() + 10)
    connection.execute('prepare "PGBOUNCER_1" as select 1')
    asking._connections.give_back(connection)
    assert [asking.call("wire_note", name="é") for _ in range(4)] == [1, 2, 3, 4]
    assert prepared(asking) == ["PGBOUNCER_1", "giftcard_1"]


def test_a_probe_that_fails_costs_no_call(asking: PostgresWire) -> None:
    connection = asking._connections.take(until=time.monotonic() + 10)
    connection.execute("prepare giftcard_probe as select 1")
    asking._connections.give_back(connection)
    assert [asking.call("wire_note", name="é") for _ in range(3)] == [1, 2, 3]
    assert not connection.prepares


def test_only_the_words_of_a_pgbouncer_that_may_keep_track_lead_to_a_probe() -> None:
    old, new = "unsupported startup parameter: options", "unsupported startup parameter in options: statement_timeout"
    assert connections._OPTIONS_REFUSED.search(old)
    assert not connections._IS_PGBOUNCER.search(old)
    assert connections._IS_PGBOUNCER.search(new)


def test_a_pooler_that_has_forgotten_it_has_not_carried_it_out() -> None:
    gone = psycopg.errors.ProtocolViolation("prepared statement did not exist")
    error = postgres._translated(gone, "giftcard_health")
    assert isinstance(error, Unavailable)
    assert error.undone
