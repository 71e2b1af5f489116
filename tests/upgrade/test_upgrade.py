"""Jobs flow through an upgrade, first the schema, then the code: nothing stops in between, nothing happens twice."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lib.local.migrate import migrate
from lib.store.store import CODE_VERSION
from tests.upgrade.conftest import MIGRATIONS, at_schema, holds
from tests.upgrade.version_1 import Version1, result
from tests.world import ADMIN, World, a_world, an_order, bearer


@pytest.fixture
def old(earlier_url: str) -> Iterator[Version1]:
    """Version 1's code on an earlier schema."""
    with psycopg.connect(earlier_url, autocommit=True) as connection:
        yield Version1(connection)


@contextmanager
def present_code(url: str, folder: Path) -> Iterator[World]:
    with a_world(url, GIFTCARD_MAIL_DIR=folder / "mails") as world:
        yield world


def submit(old: Version1, *names: str) -> None:
    for name in names:
        who = {"tenant_id": "default", "correlation_id": name}
        old.call("submit_order", **who, body_hash=name, payload=an_order(), trigger_type="api")


def run_dry(world: World) -> None:
    """Ticks until nothing is left to start."""
    while world.tick()["started"]:
        pass


def check_books(world: World, orders: int) -> None:
    """Each order has all its jobs completed, one payment, one card; each run is told once, and all are."""
    assert world.statuses() == {"completed": 5 * orders}
    assert world.value("select count(*) from giftcard_payments") == orders
    assert world.value("select count(*) from giftcard_cards") == orders
    runs = "select count(*) from giftcard_job_history where result = 'SUCCESS'"
    assert world.value(runs) == 5 * orders
    told = "select count(*) from giftcard_job_history h where h.job_id = j.id"
    assert world.sql(f"select id from giftcard_jobs j where run_no <> ({told})") == []


# In the right order: the schema, then the code


def test_an_order_begun_before_goes_on_in_between_and_ends_after(
    old: Version1, earlier_url: str, tmp_path: Path
) -> None:
    submit(old, "order-1", "order-2", "order-3")
    running, abandoned = old.begin(limit=2)
    effect = old.effect(running, "charge")
    assert migrate(earlier_url)[-1] == MIGRATIONS[-1].name
    # Begun on the old schema, settled on the new one, by the old code, over its old connection with its old plans.
    old.call("finish_effect", vendor_key=effect["vendor_key"], result={"reference": "r"})
    following = {"stage": "personal_code", "dedup_key": "", "payload": None, "circuit": None, "scheduled_at": None}
    done = old.advance(result(running, "complete", context={"customer_id": customer(old)}, next=[following]), limit=1)
    assert [settled["settled"] for settled in done["settled"]] == ["settled"]
    (another,) = done["jobs"]
    old.advance(result(another, "retry", delay=0, error="TransientError: no"), stop="shutdown")
    with present_code(earlier_url, tmp_path) as world:
        run_dry(world)
        assert world.job(abandoned["id"])["status"] == "running", "its lease has not ended"
        world.move(71)
        world.tick()
        world.move(10)
        run_dry(world)
        assert [run["result"] for run in world.history(abandoned["id"])] == ["INTERRUPTED", "SUCCESS"]
        check_books(world, 3)


def customer(old: Version1) -> int:
    kate = {"external_id": "CUST-1520", "email": "kate@example.com", "given_name": "Kate", "family_name": "Rodgers"}
    made: int = old.call("save_customer", tenant_id="default", **kate, correlation_id="order-1")["id"]
    return made


def test_old_and_new_code_take_turns_on_the_new_schema(old: Version1, earlier_url: str, tmp_path: Path) -> None:
    migrate(earlier_url)
    submit(old, "order-1", "order-2")
    with present_code(earlier_url, tmp_path) as world:
        (job,) = old.begin(limit=1)
        assert world.tick()["completed"] >= 5, "the other order goes its way"
        old.advance(result(job, "release"))
        run_dry(world)
        check_books(world, 2)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_migration_waits_for_a_settle_under_way_and_the_settle_counts(
    old: Version1, earlier_url: str, tmp_path: Path, ends: str
) -> None:
    submit(old, "order-1")
    (job,) = old.begin()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with ThreadPoolExecutor() as pool, present_code(earlier_url, tmp_path) as world:
        old.connection.execute("begin")
        old.advance(result(job, "release"))
        migration = pool.submit(migrate, earlier_url)
        until = time.monotonic() + 10
        while not world.value(waiting):
            assert time.monotonic() < until, "the migration never waited"
        old.connection.execute(ends.encode())
        assert migration.result(20)[-1] == MIGRATIONS[-1].name
        assert world.job(job["id"])["status"] == ("queued" if ends == "commit" else "running")
        if ends == "rollback":
            old.advance(result(job, "release"))
        run_dry(world)
        check_books(world, 1)


def test_what_was_written_by_the_old_code_reads_the_same_after(old: Version1, earlier_url: str) -> None:
    """Dead letters, open circuits, pauses: nobody has to do anything again."""
    jobs = [{"stage": "email", "correlation_id": f"mail-{n}", "payload": {"n": n}} for n in range(3)]
    old.call("enqueue", jobs=jobs, replace=False)
    dead, cancelled, _ = old.begin(limit=3)
    old.advance(result(dead, "error", error="TransientError: no", revive=3600, trips=1), busy=2)
    old.advance(result(cancelled, "retry", delay=60, error="TransientError: no"), busy=1)
    old.call("cancel", job_id=cancelled["id"])
    old.call("pause", stage="payment", by="kim", reason="lunch")
    before = rows(old)
    migrate(earlier_url)
    after = rows(old)
    assert all(before.values()), "there is something in each"
    assert [table for table in before if not holds(after[table], before[table])] == []


def rows(old: Version1) -> dict[str, Any]:
    """What is in the tables that it has written to."""
    tables = ("jobs", "job_history", "circuits", "circuit_changes", "stages", "ticks")
    query = "select jsonb_agg(to_jsonb(t) order by t::text) from public.giftcard_{} t"
    return {table: old.connection.execute(query.format(table).encode()).fetchall()[0][0] for table in tables}


# In the wrong order: the code first


def test_the_present_code_works_on_an_earlier_schema(earlier_url: str, tmp_path: Path) -> None:
    with present_code(earlier_url, tmp_path) as world:
        assert world.submit().status_code == 202
        run_dry(world)
        check_books(world, 1)


def test_the_present_code_says_that_the_schema_is_older(earlier_url: str, tmp_path: Path) -> None:
    with present_code(earlier_url, tmp_path) as world:
        world.tick()
        answer = world.client.get("/api/status", headers=bearer(ADMIN))
        assert answer.status_code == 200, "the rest of the status is there"
        lines = {line["check"]: line for line in answer.json["doctor"]}
    assert lines["schema"]["level"] == "yellow"
    assert f"this code is {CODE_VERSION}" in lines["schema"]["says"]
    assert lines["schema"]["mend"] == "run the migrations: make migrate"


def test_what_the_first_schema_does_not_tell_is_left_out(empty_database_url: str, tmp_path: Path) -> None:
    url = at_schema(empty_database_url, 1, tmp_path / "migrations")
    with present_code(url, tmp_path) as world:
        world.tick()
        checks = {line["check"] for line in world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]}
    assert "schema" in checks
    assert "ticks" not in checks


def test_what_the_present_code_began_on_an_earlier_schema_ends_on_the_present_one(
    earlier_url: str, tmp_path: Path
) -> None:
    with present_code(earlier_url, tmp_path) as world:
        world.submit()
        world.run(limit=2)
        assert world.statuses() == {"completed": 2, "queued": 1}
        migrate(earlier_url)
        run_dry(world)
        check_books(world, 1)
