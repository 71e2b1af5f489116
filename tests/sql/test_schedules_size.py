"""Many schedules, and much that was missed: what a look costs."""

import time

import pytest

from lib.schedules.planner import plan
from tests.sql.test_size import pages
from tests.support.factory import World
from tests.support.schedules import a_schedule, later, look, occurrences, the_schedule

pytestmark = pytest.mark.slow

MANY = """
    insert into giftcard_schedules (schedule, stage, next_at, check_at)
    select %s, 'email', %s::timestamptz, %s::timestamptz from generate_series(1, %s)
"""
ENDED = """
    insert into giftcard_jobs (correlation_id, stage, circuit, status, trigger_type, finished_at)
    select format('schedule:%%s:%%sZ', %s, to_char(t, 'YYYY-MM-DD"T"HH24:MI:SS')),
           'email', 'email', 'completed', 'schedule', now()
      from (select timestamp '2030-01-01' + n * interval '10 seconds' as t from generate_series(1, %s) n) s
"""


def many(world: World, number: int, *, seconds: float, expression: str = "*/10 * * * * *") -> None:
    """So many schedules whose next time is so many seconds away."""
    world.run(MANY, expression, later(world, seconds), later(world, seconds), number)


def test_ten_thousand_due_at_once_become_jobs_a_hundred_a_look(world: World) -> None:
    many(world, 10_000, seconds=10)
    world.later(10)
    looks, longest = 0, 0.0
    while True:
        began = time.monotonic()
        made = look(world)["jobs"]
        longest = max(longest, time.monotonic() - began)
        if not made:
            break
        looks += 1
        assert len(made) == 100
    assert looks == 100
    assert longest < 5
    (row,) = world.rows("select count(*) as jobs, count(distinct correlation_id) as flows from giftcard_jobs")
    assert (row["jobs"], row["flows"]) == (10_000, 10_000)


def test_ten_thousand_that_are_not_due_cost_a_look_nothing(world: World) -> None:
    many(world, 10_000, seconds=3600)
    for _ in range(7):
        look(world)
    assert pages(world, "select giftcard_due_schedules(p_now => %s)", world.now) < 50
    assert pages(world, "select giftcard_next_schedule_at()") < 50


@pytest.mark.parametrize("policy", ["skip", "one", "all"])
def test_a_hundred_thousand_missed_occurrences_cost_one_bounded_look(world: World, policy: str) -> None:
    schedule = a_schedule(world, "* * * * * *", missed_policy=policy, overlap_policy="allow")
    world.later(100_000)
    began = time.monotonic()
    look(world)
    assert time.monotonic() - began < 2
    run = 100 if policy == "all" else 1
    row = the_schedule(world, schedule)
    assert (len(occurrences(world, schedule)), row["missed"]) == (run, 1000 - run)
    assert row["next_at"] == later(world, 1)


def test_a_hundred_with_much_missed_make_a_thousand_jobs_a_look(world: World) -> None:
    for _ in range(100):
        a_schedule(world, "* * * * * *", missed_policy="all", overlap_policy="allow")
    world.later(100_000)
    assert len(look(world)["jobs"]) == 1000
    # Those that were left out are still due, and come first.
    assert len(world.call("due_schedules")) == 90
    assert len(plan(world.call("due_schedules"))) == 10


def test_a_schedule_with_many_jobs_behind_it_costs_a_look_nothing(world: World) -> None:
    schedule = a_schedule(world)
    world.run(ENDED, schedule, 100_000)
    for _ in range(7):
        world.later(10)
        look(world)
        world.call("show_schedule", id=schedule)
        world.call("list_schedules")
        world.ask("occurrences", id=schedule)
    world.later(10)
    looks = ("due_schedules(p_now => %s)", "list_schedules(p_now => %s)")
    assert [pages(world, f"select giftcard_{call}", world.now) < 100 for call in looks] == [True, True]
    assert pages(world, "select giftcard_occurrences(%s)", schedule) < 100
