"""A pooler in transaction mode: nothing of a client may stay on a connection that the next client gets."""

from contextlib import closing

import psycopg

from lib.store.postgres import PostgresWire
from tests.support.factory import World
from tests.wires.pgbouncer import PgBouncer

CALLS = 12  # psycopg would prepare a statement at its sixth


def test_each_client_finds_the_connections_as_if_they_were_new(
    pooler: PgBouncer, database_url: str, world: World
) -> None:
    url = pooler.url_of(database_url)
    for _ in range(3):
        with closing(PostgresWire(url)) as wire:
            assert [wire.call("wire_integer", value=n) for n in range(CALLS)] == list(range(CALLS))
    with psycopg.connect(url, prepare_threshold=None, autocommit=True) as connection:
        assert connection.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
        assert connection.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone() == (0,)
        changed = (
            "select name from pg_settings where source = 'session' and name !~ '^(client_encoding|application_name)$'"
        )
        assert connection.execute(changed.encode()).fetchall() == []
    (row,) = world.rows("select count(*) as servers from pg_stat_activity where application_name = 'giftcard-jobs'")
    assert row["servers"] <= 3


def test_the_pooler_itself_would_not_forgive_a_prepared_statement(pooler: PgBouncer, database_url: str) -> None:
    """Or the test above would prove nothing."""
    failed = 0
    for _ in range(3):
        with psycopg.connect(pooler.url_of(database_url), prepare_threshold=0, autocommit=True) as connection:
            try:
                connection.execute("select wire_integer(%s)", [1])
            except psycopg.errors.DuplicatePreparedStatement:
                failed += 1
    assert failed == 2
