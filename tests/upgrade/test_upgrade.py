"""Jobs flow through an upgrade: the schema first, then the code. Nothing stops in between, nothing happens twice."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dev.migrate import migrate
from lib.store import store
from tests.support.world import ADMIN, CRON, World, a_world, an_order, bearer
from tests.upgrade.conftest import NEXT, with_next


@pytest.fixture
def world(database_url: str, tmp_path: Path) -> Iterator[World]:
    """The code of today, with connections that it keeps through the upgrade."""
    with a_world(database_url, GIFTCARD_MAIL_DIR=tmp_path / "mails") as world:
        yield world


def submit(world: World, *names: str) -> None:
    for name in names:
        assert world.submit(an_order(correlation_id=name)).status_code == 202


def run_dry(world: World) -> None:
    """Ticks until nothing is left to start."""
    while world.tick()["started"]:
        pass


def check_books(world: World, orders: int) -> None:
    """Each order has all its jobs completed, one payment and one card; each run has its line of history."""
    assert world.statuses() == {"completed": 5 * orders}
    assert world.value("select count(*) from giftcard_payments") == orders
    assert world.value("select count(*) from giftcard_cards") == orders
    runs = "select count(*) from giftcard_job_history where result = 'SUCCESS'"
    assert world.value(runs) == 5 * orders
    kept = "select count(*) from giftcard_job_history h where h.job_id = j.id"
    assert world.sql(f"select id from giftcard_jobs j where run_no <> ({kept})") == []


# The schema first


def test_orders_begun_before_the_migration_end_after_it(world: World, database_url: str, next_release: Path) -> None:
    submit(world, "order-1", "order-2", "order-3")
    world.run(limit=4)
    assert migrate(database_url, directory=next_release) == [NEXT]
    world.run(limit=3)
    run_dry(world)
    check_books(world, 3)


def test_a_killed_run_is_taken_over_on_the_new_schema(world: World, database_url: str, next_release: Path) -> None:
    submit(world, "order-1")
    world.sql(
        """update giftcard_jobs set status = 'running', attempts = 1, run_no = 1, lease_id = gen_random_uuid(),
                  locked_at = now(), lease_expires_at = now() + interval '70 seconds', lock_owner = 'killed'"""
    )
    migrate(database_url, directory=next_release)
    world.tick()
    assert world.statuses() == {"running": 1}, "its lease has not ended"
    world.move(71)
    world.tick()
    world.move(10)
    run_dry(world)
    assert [run["result"] for run in world.history(1)] == ["INTERRUPTED", "SUCCESS"]
    assert world.statuses() == {"completed": 5}


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_migration_waits_for_a_settle_under_way_and_the_settle_counts(
    world: World, database_url: str, next_release: Path, ends: str
) -> None:
    submit(world, "order-1")
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with ThreadPoolExecutor() as pool, psycopg.connect(database_url) as worker:
        worker.execute("update giftcard_jobs set last_error = 'a change under way'")
        migration = pool.submit(migrate, database_url, directory=next_release)
        until = time.monotonic() + 10
        while not world.value(waiting):
            assert time.monotonic() < until, "the migration never waited"
        worker.execute(ends.encode())
        assert migration.result(20) == [NEXT]
    assert world.value("select last_error from giftcard_jobs") == ("a change under way" if ends == "commit" else None)
    run_dry(world)
    check_books(world, 1)


def test_a_field_that_the_next_code_adds_is_in_no_payload_of_an_order_without_it(world: World) -> None:
    submit(world, "order-1")
    assert set(world.value("select payload from giftcard_jobs")) == {"customer", "amount"}, "not even as a null"


def test_a_field_that_the_next_code_adds_is_in_no_order_that_a_stage_takes_in(world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, payload) values ('order-1', 'customer_ingest', %s)",
        json.dumps({name: value for name, value in an_order().items() if name in ("customer", "amount")}),
    )
    world.tick()
    assert world.value("select details from giftcard_orders").keys() == {"customer"}, "not even as a null"


def test_the_doctor_says_that_the_schema_is_newer(world: World, database_url: str, next_release: Path) -> None:
    migrate(database_url, directory=next_release)
    world.tick()
    line = schema_line(world)
    assert (line["level"], line["fix"]) == ("yellow", "deploy the code that the migrations came with")


# Where the two do not fit: nothing is claimed, and the tick is recorded as failed

FAILED = {"stopped_because": "failed", "started": 0}


def test_a_schema_that_serves_only_newer_code_lets_no_tick_begin(
    world: World, database_url: str, tmp_path: Path
) -> None:
    submit(world, "order-1")
    migrate(database_url, directory=with_next(tmp_path / "strict", oldest_code=2))
    answer = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    assert (answer.status_code, "deploy newer code" in answer.text) == (503, True)
    assert world.statuses() == {"queued": 1}
    assert world.sql("select stopped_because, started from giftcard_ticks") == [FAILED]


def test_code_that_needs_a_newer_schema_lets_no_tick_begin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(world, "order-1")
    monkeypatch.setattr(store, "OLDEST_SCHEMA", 2)
    answer = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    assert (answer.status_code, "run the migrations" in answer.text) == (503, True)
    assert world.statuses() == {"queued": 1}
    assert world.sql("select stopped_because, started from giftcard_ticks") == [FAILED]


def schema_line(world: World) -> dict[str, Any]:
    lines = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
    return next(line for line in lines if line["check"] == "schema")
