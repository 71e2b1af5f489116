"""Lateness counts from the commit of what queued the job: before it, no tick could have claimed it."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from lib.job import Complete
from lib.store.codec import Result
from tests.support.factory import STAGES, World

# Each queues a job, or several of one key, in a transaction that stays open.
ACTS = {
    "insert": "insert into giftcard_jobs (correlation_id, stage) values ('insert', 'email')",
    "insert_by_the_clock": "insert into giftcard_jobs (correlation_id, stage, scheduled_at)"
    " values ('insert_by_the_clock', 'email', clock_timestamp())",
    "insert_for_soon": "insert into giftcard_jobs (correlation_id, stage, scheduled_at)"
    " values ('insert_for_soon', 'email', clock_timestamp() + interval '0.2 seconds')",
    "select": "insert into giftcard_jobs (correlation_id, stage, dedup_key)"
    " select 'select', 'email', n from generate_series(1, 5) n",
    "enqueue": 'select giftcard_enqueue(\'[{"stage": "email", "correlation_id": "enqueue"}]\')',
    "requeue": "select giftcard_requeue(id) from giftcard_jobs where correlation_id = 'requeue'",
    "by_hand": "update giftcard_jobs set status = 'queued', scheduled_at = now() where correlation_id = 'by_hand'",
}
OPEN = timedelta(seconds=3)
LATE = timedelta(seconds=2)
DEAD = (
    "insert into giftcard_jobs (correlation_id, stage, status, scheduled_at)"
    " select k, 'email', 'error', now() - interval '1 day' from unnest(%s::text[]) k"
)


def committed(world: World) -> datetime:
    """When the transaction of all acts came to its end."""
    world.run(DEAD, ["requeue", "by_hand"])
    with world.connection.transaction():
        for act in ACTS.values():
            with world.connection.transaction():  # a savepoint changes nothing
                world.connection.execute(act)
        world.run("select pg_sleep(%s)", OPEN.total_seconds())
        (row,) = world.rows("select clock_timestamp() as ended")
    ended: datetime = row["ended"]
    return ended


@pytest.mark.slow
def test_no_reader_counts_the_time_before_the_commit(connection: psycopg.Connection[Any]) -> None:
    world = World(connection, now=None)
    ended = committed(world)
    times = {
        row["act"]: row["at"]
        for row in world.rows("select correlation_id as act, scheduled_at as at from giftcard_jobs")
    }
    assert set(times) == set(ACTS)
    assert {act: at for act, at in times.items() if at < ended} == {}
    assert len(set(times.values())) == 1  # their ids decide who starts first

    world.now = max(times.values())
    (queue,) = world.rows("select head_at from giftcard_queue_heads(null, %s)", world.now)
    assert queue["head_at"] == world.now
    assert world.rows("select * from giftcard_stuck_jobs(%s, p_now => %s)", LATE, world.now) == []
    assert world.rows("select * from giftcard_stuck_queues(%s, null, '{}', %s)", LATE, world.now) == []
    assert world.rows("select * from giftcard_late_conditions(null, %s, %s)", LATE, world.now) == []
    assert world.call("metrics", stages=STAGES)["due"] == {"email": 0}

    jobs = world.claim(100)
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    world.settle_all(*(Result(job=job, outcome=Complete()) for job in jobs))
    runs = world.rows("select giftcard_run_json(h) ->> 'start_delay_ms' as delay from giftcard_job_history h")
    assert {row["delay"] for row in runs} == {"0"}
    (row,) = world.call("precision", window_seconds=60)
    assert (row["runs"], row["max_ms"]) == (len(jobs), 0)
    world.later(60)
    counters = world.call("metrics", stages=STAGES)["counters"]
    assert [row["value"] for row in counters if row["name"] == "start_delay_seconds"] == [0]


def test_a_time_of_its_own_stays(world: World) -> None:
    """Given times count, past and future; so does that of a transaction which ends at once."""
    world.run("insert into giftcard_jobs (correlation_id, stage, scheduled_at) values ('past', 'email', '2020-01-01Z')")
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, scheduled_at) values ('later', 'email', '2120-01-01Z')"
    )
    world.run("set constraints all immediate")
    assert [
        row["y"]
        for row in world.rows(
            "select extract(year from scheduled_at at time zone 'UTC')::int as y from giftcard_jobs order by id"
        )
    ] == [2020, 2120]


@pytest.mark.slow
def test_a_role_that_may_only_insert_commits(connection: psycopg.Connection[Any]) -> None:
    connection.execute("create role only_inserts bypassrls")
    try:
        connection.execute("grant usage on schema public to only_inserts")
        connection.execute("grant insert on giftcard_jobs to only_inserts")
        connection.execute("grant execute on all functions in schema public to only_inserts")
        with connection.transaction():
            connection.execute("set local role only_inserts")
            connection.execute(ACTS["insert"])
            connection.execute("select pg_sleep(1.5)")
        assert connection.execute("select status from giftcard_jobs").fetchall() == [("queued",)]
    finally:
        connection.execute("drop owned by only_inserts")
        connection.execute("drop role only_inserts")
