"""Schedules in a tick: due occurrences become jobs and run in it, and the tick ends when there are none."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Placeholder

from lib.errors import TransientError
from lib.job import Complete, Outcome
from lib.jobs.hooks import before_enqueue
from tests.support.world import World

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]


def nothing(payload: Any, context: Any) -> Outcome:
    return Complete()


def fails(payload: Any, context: Any) -> Outcome:
    raise TransientError("no")


def a_schedule(world: World, **columns: Any) -> int:
    """One with an occurrence that came due a second ago, and the next one in a year."""
    due = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    row = {"schedule": f"{due:%S %M %H %d %m} *", "stage": "work", "next_at": due, "check_at": due, **columns}
    statement = SQL("insert into giftcard_schedules ({}) values ({}) returning id").format(
        SQL(", ").join(map(Identifier, row)), SQL(", ").join([Placeholder()] * len(row))
    )
    with psycopg.connect(world.url, autocommit=True) as connection:
        (made,) = connection.execute(statement, list(row.values())).fetchone() or (0,)
    return int(made)


def test_due_occurrence_becomes_a_job_and_runs_in_the_same_tick(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing})
    schedule = a_schedule(world)
    report = world.tick()
    assert (report["scheduled"], report["completed"], report["stopped_because"]) == (1, 1, "drained")
    job = world.job(stage="work")
    assert job["correlation_id"].startswith(f"schedule:{schedule}:")
    assert world.tick()["scheduled"] == 0
    assert world.value("select next_at > now() from giftcard_schedules")


def test_tick_with_schedules_that_are_not_due_is_one_call(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing})
    a_schedule(world)
    world.tick()
    world.sql("update giftcard_maintenance_tasks set last_at = now()")
    assert (world.tick()["calls"], world.value("select count(*) from giftcard_schedules")) == (1, 1)


def test_tick_with_work_takes_schedules_in_beside_it(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing})
    world.enqueue("work", count=3)
    a_schedule(world)
    report = world.tick()
    assert (report["scheduled"], report["completed"]) == (1, 4)


def test_tick_for_one_stage_or_job_leaves_schedules_alone(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing, "other": nothing})
    a_schedule(world)
    (job_id,) = world.enqueue("other")
    assert world.run(only_stage="other", limit=1).scheduled == 0
    assert world.run(only_job_id=job_id, limit=1).duration_ms < 5000  # it does not wait for what it leaves alone
    assert world.run().scheduled == 1


@pytest.mark.slow
def test_schedule_of_every_second_is_served_while_a_tick_lingers(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=4)
    a_schedule(world, schedule="* * * * * *")
    report = world.tick()
    left = world.statuses().get("queued", 0)  # the last may come due as the budget ends
    assert report["scheduled"] == report["completed"] + left
    assert left <= 1
    assert 3 <= report["scheduled"] <= 5
    delays = "select max(extract(epoch from started_at - scheduled_at)) from giftcard_job_history where run_no = 1"
    assert world.value(f"{delays} and scheduled_at > (select min(started_at) from giftcard_ticks)") < 1


def test_occurrence_of_a_recurring_schedule_does_not_revive(make_world: Make) -> None:
    world = make_world(handlers={"work": fails}, GIFTCARD_STAGE_WORK_MAX_ATTEMPTS=1)
    a_schedule(world)
    world.tick()
    job = world.job(stage="work")
    assert (job["status"], job["revive_at"]) == ("error", None)
    (plain,) = world.enqueue("work")
    world.tick()
    assert world.job(plain)["revive_at"] is not None


def test_schedule_that_cannot_be_planned_is_paused_told_and_stops_no_other(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": nothing})
    bad = a_schedule(world, schedule="nonsense")
    a_schedule(world)
    report = world.tick()
    assert (report["scheduled"], report["completed"], report["stopped_because"]) == (1, 1, "drained")
    (line,) = [line for line in log() if line["event"] == "schedule_paused"]
    assert line["schedule_id"] == bad


def test_hook_sees_the_job_of_an_occurrence(make_world: Make) -> None:
    seen: list[str] = []

    def hook(draft: Any) -> None:
        seen.append(draft.trigger_type)
        draft.ttr_seconds = 90

    world = make_world(handlers={"work": nothing})
    a_schedule(world)
    with before_enqueue.connected_to(hook):
        world.tick()
    assert (seen, world.job(stage="work")["ttr_seconds"]) == (["schedule"], 90)


def test_two_clocks_make_one_job_of_one_occurrence(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing})
    a_schedule(world)
    threads = [threading.Thread(target=world.run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert world.statuses() == {"completed": 1}


def test_more_schedules_than_one_call_brings_are_all_planned(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_JOBS_PER_CRON_RUN=5)
    for _ in range(130):
        a_schedule(world)
    report = world.tick()
    assert (report["scheduled"], report["started"], report["stopped_because"]) == (130, 5, "limit")
