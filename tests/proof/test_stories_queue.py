"""What others lost in their queues, played again: places, leases, connections, locks. docs/proof.md has the table."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import psycopg
import pytest

from lib.errors import TransientError
from lib.job import Complete, Outcome, Retry
from tests.support.factory import World as Rows
from tests.support.factory import ids
from tests.support.world import CRON, World, an_order, bearer

Make = Callable[..., World]

HOUR = 3600


@pytest.fixture
def rows(connection: psycopg.Connection[Any]) -> Rows:
    return Rows(connection)


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


def test_a_place_that_was_taken_back_is_not_given_back_a_second_time(rows: Rows) -> None:
    """A worker that counted as dead returns, again and again: one job of the key has the place, not two."""
    frozen = rows.claimed("payment", concurrency_key="customer-7")
    others = [rows.enqueue("payment", concurrency_key="customer-7") for _ in range(3)]
    rows.end_lease(frozen.id)
    taken_over, runs = rows.claim(10)
    assert (taken_over.id, runs.id) == (frozen.id, others[0])
    for _ in range(3):
        assert rows.settle(frozen, Complete())["settled"] == "lease_lost"
        assert rows.claim(10) == []
    assert rows.settle(taken_over, Retry(delay=0, error="Interrupted: killed"))["settled"] == "settled"
    assert rows.claim(10) == []
    for following in (frozen.id, *others[1:]):
        assert rows.settle(runs, Complete())["settled"] == "settled"
        assert rows.settle(frozen, Complete())["settled"] == "lease_lost"
        (runs,) = rows.claim(10)
        assert runs.id == following


def test_a_job_for_later_than_any_lease_runs_once(make_world: Make) -> None:
    """Thirteen hours ahead, with two ticks each hour."""
    ran: list[int] = []

    def work(payload: Any, context: Any) -> Outcome:
        ran.append(context.job.id)
        return Complete()

    world = make_world(handlers={"work": work})
    job_id = world.add("work", scheduled_at=world.value("select now() + interval '13 hours'"))
    for hour in range(16):
        world.run()
        world.run()
        assert ran == ([] if hour < 13 else [job_id])
        world.move(HOUR)
    assert world.job(job_id)["run_no"] == 1


def test_a_dead_worker_is_noticed_although_another_has_its_name(rows: Rows) -> None:
    """As where a restarted host keeps its name, and goes on to send signs of life."""
    killed = rows.claimed("email")
    rows.end_lease(killed.id)
    others = [rows.enqueue("email") for _ in range(3)]
    tick = rows.begin(owner=killed.lock_owner)
    assert sorted(ids(tick.jobs)) == sorted([killed.id, *others])
    assert rows.job(killed.id)["lease_id"] != killed.lease_id


def test_an_instance_keeps_no_more_connections_than_it_has_threads(make_world: Make) -> None:
    together = threading.Barrier(10, timeout=20)

    def work(payload: Any, context: Any) -> Outcome:
        def effect(key: str) -> dict[str, Any]:
            together.wait()
            return {}

        context.once("effect", effect)
        return Complete()

    world = make_world(handlers={"work": work}, GIFTCARD_CONCURRENCY=10, GIFTCARD_JOBS_PER_CRON_RUN=100)
    own = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    for _ in range(3):
        world.enqueue("work", count=20)
        assert world.run().completed == 20
        assert world.value(own) <= 10 + 1


def test_a_migration_that_waits_behind_a_dump_delays_ticks_and_loses_nothing(
    make_world: Make, database_url: str
) -> None:
    """The dump holds a weak lock, the migration waits for a strong one, and all else waits behind the migration."""
    world = make_world(handlers={"work": quick}, DATABASE_URL=f"{database_url}&options=-c%20statement_timeout%3D300ms")
    world.enqueue("work", count=3)
    world.run(limit=1)
    waiting = "select count(*) from pg_locks where not granted"
    with ThreadPoolExecutor() as pool, psycopg.connect(database_url) as dump, psycopg.connect(database_url) as other:
        dump.execute("lock table giftcard_jobs in access share mode")
        migration = pool.submit(other.execute, "alter table giftcard_jobs add column of_the_next_version int")
        until = time.monotonic() + 20
        while not world.value(waiting):
            assert time.monotonic() < until, "the migration never waited"
        assert world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 503
        dump.commit()
        migration.result(20)
        other.commit()
    world.drain()
    assert world.statuses() == {"completed": 3}


@pytest.mark.parametrize("hours", [-8, 8, 24 * 365 * 40])
def test_the_clock_of_the_host_decides_nothing(make_world: Make, hours: int) -> None:
    """Orders are delivered, and a failed run is retried after its delay, by the clock of the database."""

    def fails(payload: Any, context: Any) -> Outcome:
        raise TransientError("no")

    real = time.time
    with mock.patch("time.time", side_effect=lambda: real() + hours * HOUR):
        world = make_world()
        assert world.submit(an_order(correlation_id="order-1")).status_code == 202
        world.drain()
        assert world.statuses() == {"completed": 5}
        assert world.value("select max(finished_at) <= clock_timestamp() from giftcard_jobs")
        retried = make_world(handlers={"work": fails}).run_job("work")
    assert (retried["status"], retried["attempts"]) == ("queued", 1)
    wait = "select extract(epoch from scheduled_at - clock_timestamp())::float8 from giftcard_jobs where id = %s"
    assert 0 < world.value(wait, retried["id"]) <= 5
