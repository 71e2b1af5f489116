"""Ticks carry out operations on many jobs: in steps, whatever dies in the middle; none costs nothing."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from dev import ROOT
from lib.caller import Caller
from lib.job import Complete, Outcome
from lib.jobs.bulk import BulkOperations
from lib.jobs.schemas import OperationRequest
from lib.tick import operations
from tests.support.world import World

Make = Callable[..., World]
Row = dict[str, Any]

KIM = Caller("kim")
# Its stages are none of the jobs': what is requeued stays queued.
TICKING = """
import sys
from dev.testing.labs import Lab
from lib.jobs.registry import Registry
lab = Lab(sys.argv[1], registry=Registry({}))
while True:
    lab.run()
"""


def complete(payload: Any, context: Any) -> Outcome:
    return Complete()


def fail(payload: Any, context: Any) -> Outcome:
    raise ValueError("no")


def create(world: World, **request: Any) -> Row:
    wanted = OperationRequest(**({"action": "requeue", "all": True, "reason": "the vendor is back"} | request))
    return BulkOperations(world.store, caller=KIM).create(wanted)


def shown(world: World, operation: Row) -> Row:
    return BulkOperations(world.store, caller=KIM).find(operation["id"])


def dead(world: World, count: int, stage: str = "work") -> list[int]:
    rows = world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " select %s || i, %s, 'error', 'E: no', now() from generate_series(1, %s) i returning id",
        *("flow-", stage, count),
    )
    return [row["id"] for row in rows]


def test_a_tick_carries_it_out_and_the_next_runs_the_jobs(make_world: Make) -> None:
    world = make_world(handlers={"work": complete})
    dead(world, 3)
    assert "operations" not in world.tick()["maintenance"]
    operation = create(world)
    assert world.tick()["maintenance"]["operations"] == {"steps": 1, "ended": 1}
    assert (shown(world, operation)["state"], world.statuses()) == ("completed", {"queued": 3})
    assert "operations" not in world.tick()["maintenance"]
    assert world.statuses() == {"completed": 3}


def test_a_tick_ends_in_its_budget_and_the_next_goes_on(make_world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(handlers={})
    dead(world, 1200)
    operation = create(world)
    for changed in (500, 1000, 1200):
        assert operations.carry_out(world.store, budget=0)["steps"] == 1
        assert shown(world, operation)["changed"] == changed
    assert shown(world, operation)["state"] == "completed"


def test_slowly_in_ticks(make_world: Make) -> None:
    world = make_world(handlers={"work": complete})
    ids = dead(world, 4)
    operation = create(world, action="requeue_slowly", per_minute=60)
    world.tick()
    assert world.statuses() == {"queued": 1, "error": 3}
    world.tick()
    assert world.statuses() == {"completed": 1, "queued": 3}
    done = shown(world, operation)
    assert (done["first_job_id"], done["state"], done["changed"]) == (ids[0], "completed", 4)


def test_slowly_stops_where_the_first_fails(make_world: Make) -> None:
    world = make_world(handlers={"work": fail})
    dead(world, 4)
    operation = create(world, action="requeue_slowly")
    for _ in range(3):
        world.tick()
    assert shown(world, operation)["state"] == "stopped"
    assert world.statuses() == {"queued": 1, "error": 3}


def test_slowly_waits_while_its_stage_is_paused(make_world: Make) -> None:
    world = make_world(handlers={"work": complete})
    dead(world, 2)
    world.store.pause("work", paused_by="kim", reason=None, caller=KIM)
    operation = create(world, action="requeue_slowly")
    for _ in range(3):
        world.tick()
    assert (shown(world, operation)["state"], world.statuses()) == ("running", {"queued": 1, "error": 1})
    world.store.resume("work", resumed_by="kim", caller=KIM)
    world.tick()
    assert (shown(world, operation)["state"], world.statuses()) == ("completed", {"completed": 1, "queued": 1})


def test_two_creations_at_once_are_one_operation(make_world: Make) -> None:
    world = make_world(handlers={})
    dead(world, 2)
    both = threading.Barrier(2)
    made: list[Row] = []

    def click() -> None:
        wanted = OperationRequest(action="requeue", all=True, reason="r")
        both.wait(10)
        made.append(BulkOperations(world.store, caller=KIM).create(wanted, idempotency_key="one click"))

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert made[0]["id"] == made[1]["id"]
    assert sorted(row["created"] for row in made) == [False, True]


def test_10_000_jobs_whose_tick_is_killed_in_the_middle_and_two_ticks_that_go_on(make_world: Make) -> None:
    """A row of the eighth step is locked: SIGKILL comes while the step waits for it."""
    world = make_world(handlers={})
    ids = dead(world, 10_000)
    operation = create(world)
    assert (operation["total"], operation["capped"]) == (10_000, False)
    with psycopg.connect(world.url) as holder:
        holder.execute("select from public.giftcard_jobs where id = %s for update", (ids[3_700],))
        child = subprocess.Popen([sys.executable, "-c", TICKING, world.url], cwd=ROOT)
        try:
            until = time.monotonic() + 60
            while not (shown(world, operation)["changed"] == 3_500 and waits_for_a_lock(world)):
                assert time.monotonic() < until
                assert child.poll() is None
                time.sleep(0.02)
        finally:
            child.kill()
            child.wait(10)
        assert shown(world, operation)["changed"] == 3_500
    ticks = [threading.Thread(target=until_it_ends, args=(world, operation)) for _ in range(2)]
    for tick in ticks:
        tick.start()
    for tick in ticks:
        tick.join(120)
    done = shown(world, operation)
    assert (done["state"], done["matched"], done["changed"]) == ("completed", 10_000, 10_000)
    assert world.statuses() == {"queued": 10_000}
    # Each job is in one act of the audit.
    acts = world.sql("select (details ->> 'jobs')::int as jobs from giftcard_audit where action = 'requeue'")
    assert sum(act["jobs"] for act in acts) == 10_000


def waits_for_a_lock(world: World) -> bool:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    return bool(world.value(query) > 0)


def until_it_ends(world: World, operation: Row) -> None:
    until = time.monotonic() + 100
    while shown(world, operation)["state"] == "running" and time.monotonic() < until:
        operations.carry_out(world.store, budget=0.2)
