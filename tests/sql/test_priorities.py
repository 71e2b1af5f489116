"""Priorities: the due jobs with the highest start first, and a tenth of the starts keeps the lowest from starving."""

from collections import Counter
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Job, NextJob
from tests.sql.test_turns import tick
from tests.support.factory import World, done, each, ids


def add(world: World, priority: int, count: int, *, seconds_ago: float = 60) -> None:
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, priority, scheduled_at)"
        " select %s || n, 'email', %s, %s::timestamptz - make_interval(secs => %s) from generate_series(1, %s) n",
        f"priority-{priority}-{seconds_ago}-", priority, world.now, seconds_ago, count,
    )  # fmt: skip


def priorities(world: World, jobs: list[Job]) -> list[int]:
    return [world.job(job.id)["priority"] for job in jobs]


def test_the_highest_priority_starts_first(world: World) -> None:
    for priority in (0, -10, 10, 5):
        world.enqueue(priority=priority)
    assert priorities(world, world.claim(4)) == [10, 5, 0, -10]


def test_within_a_priority_the_oldest_starts_first(world: World) -> None:
    late = world.enqueue(priority=3, delay_seconds=-1)
    early = world.enqueue(priority=3, delay_seconds=-9)
    assert ids(world.claim(2)) == [early, late]


def test_priority_counts_within_a_circuit_only(world: World) -> None:
    each(lambda: world.enqueue("payment", priority=10), 9)
    each(lambda: world.enqueue("email", priority=-10), 9)
    assert Counter(job.stage for job in world.claim(6)) == {"payment": 3, "email": 3}


def test_a_job_that_is_not_due_holds_up_no_lower_one(world: World) -> None:
    world.enqueue(priority=10, delay_seconds=60)
    due = world.enqueue()
    tick_ = world.begin(limit=5, linger_seconds=90)
    assert ids(tick_.jobs) == [due]
    tick_.advance(*map(done, tick_.jobs), limit=5, linger_seconds=90)
    assert tick_.step.next_due_in == 60


def test_a_new_job_of_higher_priority_overtakes_within_a_second(world: World) -> None:
    each(world.enqueue, 20)
    begun = world.begin(limit=2)
    urgent = world.enqueue(priority=1)
    world.later(1.1)
    assert ids(list(begun.advance(*map(done, begun.jobs), limit=2).jobs))[0] == urgent


@pytest.mark.parametrize("at_once", [1, 5, 10])
def test_one_start_in_ten_keeps_the_lowest_from_starving(world: World, at_once: int) -> None:
    add(world, 10, 400)
    add(world, 0, 5, seconds_ago=3600)
    add(world, -10, 50, seconds_ago=60)
    ran = [job for _ in range(20) for job in tick(world, at_once=at_once)]
    counts = Counter(priorities(world, ran))
    assert counts[10] == 180
    # The lane whose head has waited for longest first: 5 normal jobs of an hour ago, then those at the bottom.
    assert counts == {10: 180, 0: 5, -10: 15}


@pytest.mark.parametrize("size", [1, 3, 7])
def test_short_ticks_keep_the_share_too(world: World, size: int) -> None:
    add(world, 1, 400)
    add(world, -1, 100)
    ran = [job for _ in range(140 // size) for job in tick(world, size, at_once=size)]
    assert 0.05 <= Counter(priorities(world, ran))[-1] / len(ran) <= 0.15


def test_a_tenant_has_its_turn_within_a_priority(world: World) -> None:
    each(lambda: world.enqueue(priority=1, tenant_id="whale", delay_seconds=-60), 30)
    urgent = world.enqueue(priority=1, tenant_id="small")
    world.enqueue(priority=0, tenant_id="another")
    ran = tick(world, 4)
    assert urgent in ids(ran)


def test_probe_of_a_half_open_circuit_is_chosen_by_priority(world: World) -> None:
    world.open_circuit()
    each(lambda: world.enqueue(priority=-1, delay_seconds=-9), 60)
    urgent = world.enqueue(priority=5)
    world.later(61)
    (probe,) = world.claim(5)
    assert probe.id == urgent


def test_next_jobs_inherit_it_unless_they_have_their_own(world: World) -> None:
    job = world.claimed(priority=7, concurrency_key="customer-1")
    world.settle(job, Complete(next=(NextJob(stage="payment"),)))
    (following,) = world.rows("select * from giftcard_jobs where stage = 'payment'")
    assert (following["priority"], following["concurrency_key"]) == (7, "customer-1")


@pytest.mark.parametrize("priority", [11, -11, 32_767])
def test_priority_out_of_range_is_refused(world: World, priority: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="giftcard_jobs_priority"):
        world.enqueue(priority=priority)


@pytest.mark.parametrize("written", [{}, {"priority": 0}, {"priority": None}])
def test_without_one_it_is_0(world: World, written: dict[str, Any]) -> None:
    assert world.job(world.enqueue(**written))["priority"] == 0


def test_waiting_job_counts_those_that_start_before_it(world: World) -> None:
    world.claim(1)
    each(lambda: world.enqueue(priority=2), 3)
    world.enqueue(priority=2, delay_seconds=60)
    world.enqueue(priority=-2, delay_seconds=-60)
    job_id = world.enqueue(priority=0)
    waiting = world.call("show_job", job_id=job_id, stages=None, missing={})["waiting_for"]
    assert (waiting["reason"], waiting["ahead"]) == ("behind", 3)
