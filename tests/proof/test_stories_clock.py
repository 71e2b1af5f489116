"""What others lost to clocks and calendars, played again. docs/proof.md has the table."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, Retry
from lib.schedules.cron import Times
from tests.support.factory import World
from tests.support.schedules import a_schedule, an_insert, check_at, end, occurrences, the_schedule


@pytest.fixture
def world(connection: psycopg.Connection[Any]) -> World:
    """Noon of a day in 2035, until a test moves the time."""
    return World(connection)


@pytest.mark.parametrize("policy", ["skip", "one", "all"])
def test_a_schedule_that_is_made_anew_in_its_minute_runs_once(world: World, policy: str) -> None:
    """As by a deployment that removes all schedules and adds them again."""
    policies = {"missed_policy": policy, "overlap_policy": "queue" if policy == "all" else "skip"}
    first = a_schedule(world, "1 * * * *", **policies)
    check_at(world, "12:01:05")
    assert occurrences(world, first) == ["12:01:00"]
    world.run("delete from giftcard_schedules where id = %s", first)
    world.now = datetime(2035, 1, 1, 12, 1, 20, tzinfo=UTC)
    again = an_insert(world, {"schedule": "1 * * * *", "stage": "email", "created_at": world.now} | policies)
    for moment in ("12:01:25", "12:01:40", "12:02:30", "13:00:59"):
        check_at(world, moment)
    assert occurrences(world, again) == []
    check_at(world, "13:01:10")
    assert occurrences(world, again) == ["13:01:00"]


def test_a_pause_and_a_resume_in_its_minute_run_nothing_twice(world: World) -> None:
    schedule = a_schedule(world, "1 * * * *")
    check_at(world, "12:01:05")
    end(world, schedule)
    assert world.now
    world.call("pause_schedule", id=schedule, paused_by="ann")
    paused = the_schedule(world, schedule)
    assert paused["paused_at"]
    next_at = Times("1 * * * *").upcoming(world.now, limit=1)[0]
    world.call("resume_schedule", id=schedule, version=paused["version"], next_at=next_at)
    for moment in ("12:01:10", "12:01:50", "12:30:00"):
        check_at(world, moment)
    assert occurrences(world, schedule) == ["12:01:00"]


def test_a_run_that_was_late_is_not_followed_by_another_at_once(world: World) -> None:
    """No tick came for forty minutes: the next time is counted from now, not from the time that was missed."""
    schedule = a_schedule(world, "10,20,30 * * * *", missed_policy="one")
    check_at(world, "12:52:00")
    end(world, schedule)
    assert occurrences(world, schedule) == ["12:30:00"]
    assert the_schedule(world, schedule)["next_at"] == datetime(2035, 1, 1, 13, 10, tzinfo=UTC)
    for moment in ("12:52:30", "12:53:00", "13:09:59"):
        check_at(world, moment)
    assert occurrences(world, schedule) == ["12:30:00"]


@pytest.mark.parametrize("year", [2038, 2100])
def test_jobs_and_schedules_beyond_the_seconds_of_32_bits(connection: psycopg.Connection[Any], year: int) -> None:
    """January 19th, 2038, 3:14:08; and a year that no leap day has although four divides it."""
    world = World(connection, now=datetime(year, 1, 19, 3, 14, tzinfo=UTC))
    schedule = a_schedule(world, "* * * * *", overlap_policy="allow")
    yearly = a_schedule(world, "0 0 29 2 *")
    for moment in ("03:14:07", "03:15:01", "03:16:01"):
        check_at(world, f"{year}-01-19T{moment}")
    assert occurrences(world, schedule) == ["03:15:00", "03:16:00"]
    assert the_schedule(world, yearly)["next_at"].year == {2038: 2040, 2100: 2104}[year]

    job = world.claimed("payment")
    world.settle(job, Retry(delay=30, error="TransientError: no"))
    assert world.claim(only_stage="payment") == []
    world.later(31)
    (job,) = world.claim(only_stage="payment")
    world.end_lease(job.id)
    (job,) = world.take_over()
    world.settle(job, Error(error="Interrupted: killed", revive=3600))
    world.later(3601)
    (revived,) = world.claim(only_stage="payment")
    assert world.settle(revived, Complete())["status"] == "completed"
