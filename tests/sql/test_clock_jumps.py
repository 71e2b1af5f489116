"""The database's clock jumps forward by hours, and back: nothing waits for longer than its own delay from then on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.job import Error, Retry, Snooze
from tests.support.factory import World, done

HOURS = 5 * 3600.0


def back(world: World) -> None:
    """The clock is right again, a minute after the jump began."""
    world.later(-HOURS + 60)


def jumped(world: World, what: Callable[[], Any]) -> Any:
    """Something happens while the clock is hours ahead; a tick ran before, one during it."""
    world.begin(limit=0).advance(stop="drained")
    world.later(HOURS)
    found = what()
    world.begin(limit=0).advance(stop="drained")
    back(world)
    return found


@pytest.mark.parametrize("outcome", [Retry(delay=10, error="E: no"), Snooze(delay=10, waiting_for="the night")])
def test_retry_comes_after_its_delay(world: World, outcome: Any) -> None:
    job_id = jumped(world, lambda: world.settled(outcome))
    assert [job.id for job in world.claim(limit=5)] == []
    world.later(11)
    assert [job.id for job in world.claim(limit=5)] == [job_id]


def test_new_jobs_are_due_at_once_and_flows_go_on(world: World) -> None:
    job_id = jumped(world, world.enqueue)
    assert [job.id for job in world.claim(limit=5)] == [job_id]


def test_a_time_that_was_asked_for_stays(world: World) -> None:
    asked = world.now.replace(month=3)
    job_id = jumped(world, lambda: world.enqueue(scheduled_at=asked.isoformat()))
    assert world.claim(limit=5) == []
    assert world.job(job_id)["scheduled_at"] == asked


def test_a_killed_run_is_taken_over_after_its_lease(world: World) -> None:
    job = jumped(world, world.claimed)
    assert world.claim(limit=5) == []
    world.later(71)
    (taken,) = world.claim(limit=5)
    assert (taken.id, taken.interrupted) == (job.id, True)


def test_a_lease_that_no_run_can_have_ends_at_once(world: World) -> None:
    job = world.claimed()
    world.run("update giftcard_jobs set lease_expires_at = 'infinity' where id = %s", job.id)
    (taken,) = world.claim(limit=5)
    assert (taken.id, taken.interrupted) == (job.id, True)


def test_a_circuit_is_tried_after_its_cooldown(world: World) -> None:
    jumped(world, lambda: (world.open_circuit(), world.enqueue()))
    assert world.claim(limit=5) == []
    world.later(61)
    assert len(world.claim(limit=5)) == 1
    assert world.circuit("email")["state"] == "half_open"


def test_a_circuit_stays_open_for_a_day_of_24_hours_in_each_time_zone(world: World) -> None:
    world.now = datetime(2026, 3, 28, 12, tzinfo=UTC)  # in Berlin the clock is changed in the night
    world.run("set timezone to 'Europe/Berlin'")
    world.open_circuit()
    world.run("update giftcard_circuits set open_until = %s", world.now + timedelta(hours=24))
    world.begin(limit=0).advance(stop="drained")
    assert world.circuit("email")["open_until"] == world.now + timedelta(hours=24)


def test_results_count_for_a_circuit_that_closed_in_the_future(world: World) -> None:
    jumped(world, lambda: world.open_circuit() or world.ask("reset_circuit", circuit="email", now=world.now))
    world.open_circuit()


def test_a_dead_letter_revives_after_its_time(world: World) -> None:
    job_id = jumped(world, lambda: world.dead_letter(revive=600))
    world.begin(limit=0)
    assert world.job(job_id)["status"] == "error"
    world.later(601)
    assert [job.id for job in world.claim(limit=5)] == [job_id]


def test_schedules_are_planned_from_now_on(world: World) -> None:
    world.run("insert into giftcard_schedules (id, schedule, stage, check_at) values (7, '* * * * *', 'email', now())")

    def plan() -> None:
        (due,) = world.call("due_schedules")
        later = (world.now.replace(microsecond=0)).isoformat()
        changes = {"id": 7, "version": due["version"], "next_at": "2035-01-01T17:01:00Z", "last_at": later}
        world.call("enqueue_occurrences", planned=[changes])

    jumped(world, plan)
    assert world.call("due_schedules") == []
    tick = world.begin(limit=0)
    assert [due["id"] for due in tick.step.schedules] == [7]


def test_maintenance_and_counters_go_on(world: World) -> None:
    jumped(world, lambda: (world.call("begin_maintenance", task="prune"), world.call("update_counters")))
    assert "prune" in world.begin(limit=0).step.maintenance
    assert world.call("begin_maintenance", task="prune") is True
    world.later(-700)
    ahead = "select until > %s as ahead from giftcard_counter_watermarks"
    world.later(700)
    assert [row["ahead"] for row in world.rows(ahead, world.now)] == [False, False]


def test_ticks_of_the_future_do_not_hide_that_none_comes(world: World) -> None:
    jumped(world, lambda: None)
    world.later(600)
    (silence,) = world.rows("select silent from giftcard_newest_silence(%s)", world.now)
    assert silence["silent"] is True


def test_two_jumps_and_a_crowd_cost_no_job(world: World) -> None:
    jobs = [jumped(world, lambda: world.settled(Error(error="E: no", revive=60))) for _ in range(2)]
    world.begin(limit=0)
    world.later(61)
    claimed = world.claim(limit=5)
    assert sorted(job.id for job in claimed) == jobs
    for job in claimed:
        assert world.settle_all(done(job))["sums"]["completed"] == 1
