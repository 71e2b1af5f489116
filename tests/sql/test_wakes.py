"""When a tick is woken: the row that decides, and what pg_net is asked to call, on stand-ins for its extensions."""

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


# The row


def test_one_wake_a_second_is_taken(world: World) -> None:
    assert [world.call("take_wake") for _ in range(3)] == [True, False, False]
    world.later(0.99)
    assert not world.call("take_wake")
    world.later(0.01)
    assert world.call("take_wake")
    assert counts(world, "sent", "in_minute", "held_back") == [2, 2, 0]


def test_twenty_wakes_a_minute_are_taken_and_the_others_counted(world: World) -> None:
    taken = []
    for _ in range(30):
        taken.append(world.call("take_wake"))
        world.later(1)
    assert taken == [True] * 20 + [False] * 10
    assert world.from_now(row(world)["due_at"]) == 30
    world.later(30)
    assert world.call("take_wake")
    assert counts(world, "sent", "in_minute", "held_back") == [21, 1, 1]


def test_a_tick_that_leaves_work_wakes_without_the_limit_of_a_minute(world: World) -> None:
    for _ in range(20):
        world.call("take_wake")
        world.later(1)
    assert not world.call("take_wake")
    assert world.call("take_wake", catches_up=True)


def test_a_clock_that_was_ahead_holds_no_wake_up(world: World) -> None:
    assert world.call("take_wake")
    world.later(-3600)
    assert world.call("take_wake")


@pytest.mark.parametrize(
    ("begun", "woken"),
    [
        ({"wake": WAITS, "linger_seconds": 50}, False),
        ({"wake": WAITS | {"seconds": 0}, "linger_seconds": 50}, True),
        ({"wake": WAITS | {"limit": 1}, "linger_seconds": 50}, True),
        ({"linger_seconds": 50}, True),
        ({"wake": WAITS, "linger_seconds": 50, "live_seconds": 1}, True),
        ({"wake": WAITS, "linger_seconds": 50, "only_stage": "email"}, True),
        ({"wake": WAITS, "linger_seconds": 50, "paused": True}, True),
    ],
    ids=["it waits", "not for long", "at its limit", "waking is off there", "killed", "for one stage", "paused"],
)
def test_a_wake_is_spared_while_a_tick_waits_for_jobs(world: World, begun: dict[str, Any], woken: bool) -> None:
    world.enqueue()
    world.enqueue()
    world.begin(**{"limit": 1, "live_seconds": 130} | begun)
    world.later(2)
    assert world.call("take_wake") is woken


def test_a_wake_without_a_tick_counts_as_lost(world: World) -> None:
    world.call("take_wake")
    world.later(9)
    world.begin(source="wake")
    world.later(60)
    world.call("take_wake")
    assert world.call("waking")["lost"] == 0
    world.later(11)
    facts = world.call("waking")
    assert (facts["lost"], facts["followed"], facts["age"], facts["sent"]) == (1, False, 11, 2)
    world.call("take_wake")
    assert counts(world, "lost", "sent") == [1, 3]


def test_an_order_and_an_enqueue_tell_their_caller_to_wake(world: World) -> None:
    def job(**more: Any) -> dict[str, Any]:
        return {"stage": "email", "correlation_id": f"flow-{more}"} | more

    assert not world.call("enqueue_and_wake", jobs=[job(delay_seconds=61)])["wake"]
    answer = world.call("enqueue_and_wake", jobs=[job(delay_seconds=61), job(delay_seconds=30)])
    assert answer["wake"]
    assert [one["created"] for one in answer["jobs"]] == [False, True]
    world.later(1)
    order = {"tenant_id": "default", "payload": {"amount": {"amount": 1, "currency": "USD"}}, "body_hash": "x"}
    assert world.call("submit_order", correlation_id="o-1", wake=True, **order)["wake"]
    assert "wake" not in world.call("submit_order", correlation_id="o-1", wake=True, **order)
    assert "wake" not in world.call("submit_order", correlation_id="o-2", **order)


def test_a_decision_that_fails_fails_no_enqueue(world: World) -> None:
    world.run("alter table giftcard_wakes add constraint broken check (sent < 1)")
    answer = world.call("enqueue_and_wake", jobs=[{"stage": "email", "correlation_id": "a"}])
    assert (answer["wake"], answer["jobs"][0]["status"]) == (False, "queued")
    assert counts(world, "failed") == [1]
    assert "broken" in world.call("waking")["error"]


# pg_net


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
    seconds = waking.rows("select count(*) from giftcard_jobs")[0]["count"]
    assert seconds == 24
    assert 1 <= calls(waking) == row(waking)["sent"]
    times = waking.rows("select max(created_at) - min(created_at) as took from giftcard_jobs")
    assert calls(waking) <= 1 + times[0]["took"].total_seconds() // 1


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
