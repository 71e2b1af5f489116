"""What others lost to their database, played again: ids, isolation, defaults, restores. docs/proof.md has the table."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dev.migrate import migrate
from dev.postgres import Embedded
from lib.caller import Caller
from lib.errors import Refused
from lib.store.sqlstate import gives_ids_again
from tests.support.world import ADMIN, CRON, World, an_order, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

# The collation of bytes, in every database.
C = 950

SEQUENCES = """
    select format('%%I.%%I', relnamespace::regnamespace, relname) as name from pg_class
     where relkind = 'S' and relname like 'giftcard%%' order by 1
"""


def set_sequences(world: World, number: int, *, pattern: str = "") -> None:
    """The next id of each table (whose sequence has this in its name) is this one."""
    for row in world.sql(SEQUENCES):
        if pattern in row["name"]:
            world.sql("select setval(%s::regclass, %s, false)", row["name"], number)


def set_default(world: World, setting: str, value: str) -> None:
    """A default of the whole database, for connections that are opened from now on."""
    name = world.value("select current_database()")
    parts = sql.Identifier(name), sql.Identifier(*setting.split(".")), sql.Literal(value)
    world.sql(sql.SQL("alter database {} set {} = {}").format(*parts).as_string())
    world.store.close()


def order(world: World, *keys: str) -> None:
    for key in keys:
        assert world.submit(an_order(correlation_id=key)).status_code == 202


def assert_delivered(world: World, *keys: str) -> None:
    """Each order has all of its jobs completed, one payment and one card, and nothing else is left."""
    assert world.sql("select id, stage, status, last_error from giftcard_jobs where status <> 'completed'") == []
    for table in ("giftcard_orders", "giftcard_payments", "giftcard_cards"):
        found = world.sql(f"select correlation_id from {table} order by correlation_id")
        assert [row["correlation_id"] for row in found] == sorted(keys), table


@pytest.mark.parametrize("start", [2**31 - 2, 2**53])
def test_ids_beyond_32_bits_and_beyond_what_a_float_holds(world: World, start: int) -> None:
    set_sequences(world, start)
    order(world, "order-1")
    world.drain()
    assert_delivered(world, "order-1")
    job_id: int = world.job(stage="payment")["id"]
    assert job_id > start
    shown = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN))
    assert shown.json is not None
    assert shown.json["id"] == job_id
    dead = world.add("email", {"x": "unknown"})
    world.drain()
    assert world.requeue(dead)["id"] == dead
    assert world.store.cancel(dead, caller=Caller("test"))["status"] == "cancelled"
    for path in ("/api/status", "/api/overview", "/api/v1/jobs", "/api/v1/audit", "/api/v1/reconciliation"):
        assert world.client.get(path, headers=bearer(ADMIN)).status_code == 200, path


@pytest.mark.slow
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_database_whose_transactions_are_isolated_more(make_world: Make, level: str) -> None:
    """Four ticks at once: what cannot be serialized is repeated, and nothing is lost or doubled."""
    world = make_world(GIFTCARD_JOBS_PER_CRON_RUN=20)
    set_default(world, "default_transaction_isolation", level)
    keys = [f"order-{n}" for n in range(8)]
    order(world, *keys)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            calls = pool.map(lambda _: world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)), range(4))
            assert {call.status_code for call in calls} <= {200, 503}
            world.move(100)
    world.drain()
    assert_delivered(world, *keys)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("timezone", "America/New_York"),
        ("datestyle", "SQL, DMY"),
        ("intervalstyle", "iso_8601"),
        ("search_path", ""),
        ("lock_timeout", "1ms"),
        ("idle_in_transaction_session_timeout", "1ms"),
        ("standard_conforming_strings", "off"),
        ("plpgsql.variable_conflict", "use_column"),
        ("quote_all_identifiers", "on"),
        ("transform_null_equals", "on"),
    ],
)
def test_a_database_with_defaults_of_its_own(world: World, setting: str, value: str) -> None:
    set_default(world, setting, value)
    order(world, "order-1")
    world.drain()
    assert_delivered(world, "order-1")


@pytest.mark.slow
def test_sequences_that_a_restore_left_behind_are_no_ones_fault(world: World, log: Log) -> None:
    """No order is blamed, no job ends by it, the log names the way out, and then all goes on."""
    order(world, "before")
    for _ in range(20):
        world.tick()
    set_sequences(world, 1)
    assert world.submit(an_order(correlation_id="after")).status_code == 503
    assert world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 503
    assert "sql/raise_ids.sql" in str([line for line in log() if line["event"] == "tick_failed"])

    behind = {row["table"] for row in world.value("select giftcard_raise_ids()")}
    assert {"giftcard_jobs", "giftcard_ticks", "giftcard_customers"} <= behind
    assert {row["table"] for row in world.value("select giftcard_raise_ids(false)")} == behind
    assert world.value("select giftcard_raise_ids()") == []
    order(world, "after")
    world.drain()
    assert_delivered(world, "after", "before")


def test_ids_go_on_above_those_that_have_left_the_table(world: World) -> None:
    order(world, "old")
    world.drain()
    highest: int = world.value("select max(id) from giftcard_jobs")
    world.sql("delete from giftcard_jobs")
    set_sequences(world, 1, pattern="giftcard_jobs_id")
    world.sql("select giftcard_raise_ids(false)")
    assert world.add("email") == highest + 1


def test_a_paid_order_outlives_a_sequence_that_is_behind(world: World) -> None:
    """The payment's settle cannot enqueue the card: its run counts as failed, not as wrong for ever."""
    order(world, "before", "after")
    world.run(only_job_id=world.value("select min(id) from giftcard_jobs"), limit=1)
    ids = world.sql("select id from giftcard_jobs order by id")
    set_sequences(world, ids[0]["id"], pattern="giftcard_jobs_id")
    for _ in range(3):
        world.run()
        world.move(10)
    assert world.sql("select last_error from giftcard_jobs where status = 'error'") == []
    world.sql("select giftcard_raise_ids(false)")
    for _ in range(3):
        world.move(400)
        world.drain()
    assert_delivered(world, "after", "before")


def test_no_index_depends_on_the_sort_order_of_the_operating_system(world: World) -> None:
    """After its upgrade, such an index no longer finds its rows, and a unique key admits a second one."""
    texts = world.sql(
        """
        select i.indexrelid::regclass::text as index, k.id as collation
          from pg_index i, unnest(i.indcollation::oid[]) k(id)
         where i.indrelid::regclass::text like 'giftcard%%' and k.id <> 0
        """
    )
    assert len(texts) > 100
    assert sorted({row["index"] for row in texts if row["collation"] != C}) == []


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_each_name_is_refused(postgres: Embedded, encoding: str) -> None:
    """Before anything is stored in it, and not by a 400 for each customer whose name has other letters."""
    name = sql.Identifier(f"encoded_in_{encoding.lower()}")
    text = "create database {} template template0 encoding {} lc_collate 'C' lc_ctype 'C'"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(sql.SQL(text).format(name, sql.Literal(encoding)))
    url = postgres.url_of(name.as_string().strip('"'))
    with pytest.raises(Refused, match=f"encoding {encoding}, which cannot hold each name: nothing was changed"):
        migrate(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("select to_regclass('public.giftcard_jobs')").fetchone() == (None,)


def test_tables_that_are_all_published_can_still_be_changed(world: World) -> None:
    """A publication refuses updates and deletes of tables without a primary key: none of ours is without."""
    world.sql("create publication everything for all tables")
    order(world, "order-1")
    world.drain()
    assert_delivered(world, "order-1")
    for days in (31, 400):
        world.move(days * 24 * 3600)
        world.run()
    assert world.row_counts()["giftcard_jobs_archive"] == 0
    keyless = "relkind = 'r' and relname like 'giftcard%%' and relreplident <> 'f' and not exists"
    keys = "select from pg_index i where i.indrelid = c.oid and i.indisprimary"
    assert world.sql(f"select relname from pg_class c where {keyless} ({keys})") == []


def test_the_ids_that_the_database_gives_are_those_that_the_code_knows(world: World) -> None:
    identity = "select from pg_attribute a where a.attrelid = c.oid and a.attname = 'id' and a.attidentity <> ''"
    found = world.sql(f"select relname as name, exists ({identity}) as given from pg_class c where relkind = 'r'")
    ours = {row["name"]: row["given"] for row in found if row["name"].startswith("giftcard_")}
    assert sum(ours.values()) >= 12
    message = 'duplicate key value violates unique constraint "{}_pkey"'
    assert {name: gives_ids_again("23505", message.format(name)) for name in ours} == ours
