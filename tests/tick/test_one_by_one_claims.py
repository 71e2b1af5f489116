"""One row stops no other: errors at the commit, triggers without a word, circuits, records, crowds of culprits."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Outcome
from tests.support.triggers import allow, defer, refuse, rows_line, silence
from tests.support.world import World

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

PAST = "2020-01-01T00:00:00Z"
DEAD = {"status": "error", "attempts": 1, "run_no": 1, "revive_at": PAST, "finished_at": PAST}
KILLED = {"status": "running", "attempts": 1, "run_no": 1, "lease_expires_at": PAST}
HALF_OPEN = (
    "insert into giftcard_circuits (circuit, state, changed_at, open_until)"
    " values ('work', '{}', now() - interval '1 hour', now() - interval '1 min')"
)


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)


def one_by_one(log: Log, since: int = 0) -> int:
    return [line["event"] for line in log()[since:]].count("one_by_one")


@pytest.mark.parametrize(
    ("row", "condition"),
    [({}, "new.status = 'running'"), (DEAD, "new.status = 'queued'"), (KILLED, "new.status = 'running'")],
    ids=["claim", "revival", "takeover"],
)
def test_error_at_the_commit_is_the_rows_own(world: World, row: dict[str, Any], condition: str) -> None:
    culprit = world.add("work", **row)
    world.enqueue("work", count=3)
    defer(world, "giftcard_jobs", "update", f"new.id = {culprit} and {condition}")
    assert world.tick()["completed"] == 3
    job = world.job(culprit)
    assert (job["status"], job["revive_at"]) == ("error", None)
    assert job["last_error"] == "FaultyRow: not this row (SQLSTATE 23514)"


def test_result_that_is_refused_at_the_commit_leaves_its_neighbours_done(world: World) -> None:
    jobs = world.enqueue("work", count=4)
    defer(world, "giftcard_jobs", "update", f"new.id = {jobs[1]} and new.status = 'completed'")
    report = world.tick()
    assert (report["completed"], report["errored"]) == (3, 1)
    assert "its result cannot be stored: not this row" in world.job(jobs[1])["last_error"]


@pytest.mark.parametrize("row", [{}, DEAD, KILLED], ids=["claim", "revival", "takeover"])
def test_row_that_a_trigger_leaves_as_it_was_is_passed_over(make_world: Make, log: Log, row: dict[str, Any]) -> None:
    world = make_world(handlers={"work": good}, GIFTCARD_CONCURRENCY=1, GIFTCARD_TICK_BUDGET_SECONDS=6)
    culprit = world.add("work", **row)
    world.enqueue("work", count=3)
    silence(world, "giftcard_jobs", "update", f"new.id = {culprit}")
    report = world.tick()
    assert (report["completed"], report["revived"], report["interrupted"]) == (3, 0, 0)
    assert report["stopped_because"] == "drained"
    line = rows_line(world)["message"]
    assert f"job {culprit} (passed over): a trigger leaves the row as it was (SQLSTATE 27000)" in line
    world.enqueue("work", count=2)
    before = len(log())
    assert world.tick()["completed"] == 2
    assert one_by_one(log, before) == 0


@pytest.mark.parametrize("how", [refuse, silence])
@pytest.mark.parametrize("state", ["half_open", "open"])
def test_circuit_that_cannot_be_probed_costs_no_job(world: World, log: Log, state: str, how: Any) -> None:
    waiting = world.enqueue("work", count=8)
    world.enqueue("other", count=2)
    world.sql(HALF_OPEN.format(state))
    how(world, "giftcard_circuits", "update", "old.circuit = 'work'")
    assert world.tick()["completed"] == 2
    world.enqueue("other", count=2)
    before = len(log())
    assert world.tick()["completed"] == 2
    assert one_by_one(log, before) == 0, "it costs the next ticks nothing"
    assert [world.job(job)["status"] for job in waiting] == ["queued"] * 8
    assert "circuit work (passed over): " in rows_line(world)["message"]
    allow(world, "giftcard_circuits")
    world.move(601)
    world.sql("update giftcard_faulty_rows set skip_until = skip_until - interval '601 s'")
    world.tick()
    assert {world.job(job)["status"] for job in waiting} == {"completed"}


def test_circuit_that_cannot_be_probed_takes_no_other_circuits_turn(make_world: Make) -> None:
    world = make_world(handlers={"work": good, "other": good}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("work", count=2)
    world.enqueue("other", count=2)
    world.sql(HALF_OPEN.format("half_open"))
    refuse(world, "giftcard_circuits", "update", "old.circuit = 'work'")
    assert world.tick()["completed"] == 2
    assert world.statuses() == {"queued": 2, "completed": 2}


def test_job_at_fault_is_put_aside_although_it_is_a_probe(world: World) -> None:
    jobs = world.enqueue("work", count=3)
    world.sql(HALF_OPEN.format("half_open"))
    refuse(world, "giftcard_jobs", "update", f"new.id = {jobs[0]} and new.status = 'running'")
    assert world.tick()["completed"] == 2
    assert world.statuses() == {"error": 1, "completed": 2}
    assert f"job {jobs[0]}: not this row" in rows_line(world)["message"]


@pytest.mark.parametrize("concurrency", [1, 5])
def test_crowd_of_culprits_starves_no_circuit(make_world: Make, concurrency: int) -> None:
    world = make_world(handlers={"work": good, "other": good}, GIFTCARD_CONCURRENCY=concurrency)
    culprits = world.enqueue("work", count=60)
    world.enqueue("other", count=3)
    world.enqueue("work", count=2)
    refuse(world, "giftcard_jobs", "update", f"new.id <= {culprits[-1]} and new.status = 'running'")
    assert world.tick()["completed"] == 5
    assert world.statuses() == {"error": 60, "completed": 5}
    first = world.sql("select stage from giftcard_jobs where status = 'completed' order by locked_at, id limit 1")
    assert first == [{"stage": "other"}]


def test_ticks_row_that_refuses_a_count_stops_no_revival(world: World) -> None:
    dead = world.add("work", **DEAD)
    world.enqueue("work", count=2)
    refuse(world, "giftcard_ticks", "update", "true")
    report = world.tick()
    assert (report["completed"], report["revived"]) == (3, 1)
    assert world.job(dead)["status"] == "completed"
    assert "tick " in rows_line(world)["message"]


@pytest.mark.parametrize("condition", ["new.status = 'running'", "true"], ids=["put aside", "passed over"])
def test_fault_that_cannot_be_recorded_stops_nothing(world: World, condition: str) -> None:
    jobs = world.enqueue("work", count=3)
    refuse(world, "giftcard_jobs", "update", f"new.id = {jobs[0]} and {condition}")
    refuse(world, "giftcard_faulty_rows", "insert", "true")
    assert world.tick()["completed"] == 2


def test_revival_one_by_one_is_spread_too(world: World) -> None:
    dead = [world.add("work", **DEAD) for _ in range(30)]
    refuse(world, "giftcard_jobs", "update", f"new.id = {dead[3]} and new.status <> 'error'")
    assert world.tick()["revived"] == 29
    (spread,) = world.sql(
        "select count(*) filter (where scheduled_at <= now() + interval '5 s') as due, count(*) as jobs,"
        " extract(epoch from max(scheduled_at) - now())::int as last from giftcard_jobs where id <> %s",
        dead[3],
    )
    assert (spread["due"], spread["jobs"]) == (1, 29)
    assert 280 <= spread["last"] <= 300


@pytest.mark.parametrize("row", [DEAD, KILLED], ids=["revival", "takeover"])
def test_row_that_is_passed_over_keeps_no_tick_waiting(make_world: Make, row: dict[str, Any]) -> None:
    world = make_world(handlers={"work": good}, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=4)
    culprit = world.add("work", **row)
    refuse(world, "giftcard_jobs", "update", f"new.id = {culprit}")
    world.tick()
    report = world.tick()
    assert (report["calls"], report["stopped_because"], report["next_due_at"]) == (1, "drained", None)
