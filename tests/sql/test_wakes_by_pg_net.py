"""What pg_net is asked to call, and when: on stand-ins for Supabase's extensions."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from dev import ROOT
from tests.support.factory import World

SECRET = "a-secret-of-a-clock"
URL = "https://shop.vercel.app"
WAITS = {"mode": "pg_net", "ticks": 1, "seconds": 50, "limit": 10}
INSERT = "insert into giftcard_jobs (correlation_id, stage) values (%s, 'email')"


@pytest.fixture
def waking(database_url: str) -> Iterator[World]:
    """A database on its own clock that wakes by pg_net."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name in ("cron.sql", "net_and_vault.sql"):
            connection.execute((ROOT / "tests/sql/supabase_cron" / name).read_bytes())
        connection.execute("select vault.create_secret(%s, 'giftcard_cron_secret')", [SECRET])
        connection.execute("select giftcard_start_waking(p_url => %s)", [URL])
        yield World(connection, now=None)


def row(world: World) -> dict[str, Any]:
    (found,) = world.rows("select * from giftcard_wakes")
    return found


def calls(world: World) -> int:
    return int(world.rows("select count(*) from net.http_request_queue")[0]["count"])


def forget(world: World) -> None:
    """As if the last wake was long ago."""
    world.run("update giftcard_wakes set sent_at = sent_at - interval '1 hour', minute = minute - interval '1 hour'")


def counts(world: World, *names: str) -> list[int]:
    return [row(world)[name] for name in names]


def test_an_insert_calls_with_the_secret_of_the_vault(waking: World) -> None:
    waking.run(INSERT, "a")
    (request,) = waking.rows("select * from net.http_request_queue")
    assert (request["method"], request["url"]) == ("POST", f"{URL}/api/cron/giftcard-jobs")
    assert request["headers"]["Authorization"] == f"Bearer {SECRET}"
    assert request["headers"]["X-Giftcard-Wake"] == "1"
    assert SECRET not in str(row(waking))


def test_a_thousand_rows_of_one_transaction_are_one_wake_at_its_commit(waking: World) -> None:
    with waking.connection.transaction():
        waking.run(
            "insert into giftcard_jobs (correlation_id, stage) select n::text, 'email' from generate_series(1, 999) n"
        )
        waking.run(INSERT, "last")
        assert calls(waking) == 0
    assert calls(waking) == 1


def test_a_rollback_sends_none(waking: World) -> None:
    with waking.connection.transaction(force_rollback=True):
        waking.run(INSERT, "a")
    assert (calls(waking), row(waking)["sent_at"]) == (0, None)


def test_an_open_transaction_holds_no_other_enqueue_up(waking: World, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute(INSERT.encode(), ["slow"])
        waking.run("set lock_timeout = '100ms'")
        waking.run(INSERT, "a")
        assert calls(waking) == 1
        other.commit()
    assert (calls(waking), row(waking)["sent"]) == (1, 1)


def test_a_locked_row_is_passed_over(waking: World, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("select * from giftcard_wakes for update")
        waking.run("set lock_timeout = '100ms'")
        waking.run(INSERT, "a")
    assert (calls(waking), waking.rows("select status from giftcard_jobs")) == (0, [{"status": "queued"}])


def test_of_many_enqueuers_at_once_one_wakes(waking: World, database_url: str) -> None:
    def enqueue(number: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("select giftcard_enqueue(%s)", [f'[{{"stage": "email", "correlation_id": "{number}"}}]'])

    waking.run("update giftcard_wakes set sent_at = clock_timestamp() + interval '1 day'")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enqueue, range(24)))
    assert waking.rows("select count(*) from giftcard_jobs")[0]["count"] == 24
    took = waking.rows("select max(created_at) - min(created_at) as took from giftcard_jobs")[0]["took"]
    assert 1 <= calls(waking) == row(waking)["sent"] <= 1 + took.total_seconds() // 1


@pytest.mark.parametrize(
    "statement",
    [
        "drop schema net cascade",
        "delete from vault.secrets where name = 'giftcard_cron_secret'",
        "drop schema vault cascade",
        "delete from giftcard_wakes",
    ],
)
def test_what_is_missing_fails_no_enqueue(waking: World, statement: str) -> None:
    waking.run(statement)
    waking.run(INSERT, "a")
    assert waking.rows("select status from giftcard_jobs") == [{"status": "queued"}]
    if "giftcard_wakes" not in statement:
        assert counts(waking, "failed") == [1]
        assert waking.call("waking")["error"]


def test_a_role_that_may_only_insert_inserts(waking: World) -> None:
    with waking.connection.transaction(force_rollback=True):
        waking.run("create role shop_only; grant usage on schema public to shop_only")
        waking.run("grant insert on giftcard_jobs to shop_only")
        waking.run("grant execute on all functions in schema public to shop_only")
        waking.run("create policy open on giftcard_jobs for insert to shop_only with check (true)")
        waking.run("set local role shop_only")
        waking.run(INSERT, "a")
        waking.run("set constraints all immediate")
        waking.run("reset role")
        assert calls(waking) == 0
        assert waking.rows("select status from giftcard_jobs") == [{"status": "queued"}]


def test_a_requeue_wakes_and_a_change_of_nothing_due_does_not(waking: World) -> None:
    job_id = waking.enqueue(delay_seconds=3600)
    waking.run("update giftcard_jobs set scheduled_at = now() + interval '1 hour', attempts = 0")
    assert calls(waking) == 0
    waking.run("update giftcard_jobs set scheduled_at = now() where id = %s", job_id)
    assert calls(waking) == 1


def test_what_waking_stops_calls_no_more(waking: World) -> None:
    answer = waking.ask("stop_waking", dry_run=True)
    assert answer == {"dry_run": True, "jobs": 2}
    waking.ask("stop_waking")
    waking.run(INSERT, "a")
    assert (calls(waking), row(waking)["url"], waking.rows("select * from cron.job")) == (0, None, [])
    assert waking.ask("stop_waking") == {"dry_run": False, "jobs": 0}


def test_a_pg_cron_that_knows_no_seconds_calls_each_minute(waking: World) -> None:
    assert waking.rows("select schedule from cron.job where jobname = 'giftcard-wake'") == [{"schedule": "1 seconds"}]
    waking.ask("stop_waking")
    waking.run("alter table cron.job add check (schedule not like '%seconds')")
    assert waking.ask("start_waking", url=URL)["schedule"] == "* * * * *"


# What is due later


def test_a_tick_that_ends_plans_the_wake_of_the_next_job(waking: World) -> None:
    waking.run("insert into giftcard_jobs (correlation_id, stage, scheduled_at) values ('a', 'email', now() + '90 s')")
    assert calls(waking) == 0
    tick = waking.begin(wake=WAITS, linger_seconds=50)
    assert tick.step.stopped_because == "drained"
    assert 85 < waking.from_now(row(waking)["due_at"]) <= 90
    assert not waking.call("send_due_wake")
    waking.run("update giftcard_wakes set due_at = now()")
    assert waking.call("send_due_wake")
    assert (calls(waking), row(waking)["due_at"]) == (1, None)


def test_a_plan_ends_with_the_last_job(waking: World) -> None:
    waking.run("update giftcard_wakes set due_at = now() + interval '1 hour'")
    waking.begin(wake=WAITS, linger_seconds=50)
    assert row(waking)["due_at"] is None


def test_a_planned_wake_is_spared_while_a_tick_waits(waking: World) -> None:
    waking.run("insert into giftcard_jobs (correlation_id, stage, scheduled_at) values ('a', 'email', now() + '40 s')")
    forget(waking)
    waking.run("truncate net.http_request_queue")
    waking.begin(wake=WAITS, linger_seconds=50)
    waking.run("update giftcard_wakes set due_at = now()")
    assert not waking.call("send_due_wake")
    assert (calls(waking), row(waking)["due_at"]) == (0, None)


def test_a_wake_that_came_too_soon_is_planned(waking: World) -> None:
    waking.run(INSERT, "a")
    waking.run("delete from giftcard_jobs")
    waking.run("update giftcard_wakes set sent_at = clock_timestamp()")
    waking.run(INSERT, "b")
    assert calls(waking) == 1
    assert 0 < waking.from_now(row(waking)["due_at"]) <= 1
