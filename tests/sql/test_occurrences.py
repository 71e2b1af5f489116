"""Occurrences: one job each, whatever ticks come late, twice, at once, or with a clock that goes back."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lib.schedules.planner import plan
from tests.support.factory import World
from tests.support.schedules import a_schedule, an_insert, check_at, end, look, occurrences, the_schedule


def test_an_occurrence_is_a_job_of_the_schedules_own(world: World) -> None:
    schedule = a_schedule(
        world, tenant_id="acme", payload={"price": 1}, semantics="at_most_once", max_attempts=3, ttr_seconds=20
    )
    assert look(world) == {"jobs": [], "paused": [], "deleted": 0, "left": 0}
    (job_id,) = check_at(world, "12:00:10")["jobs"]
    job = world.job(job_id)
    assert (job["correlation_id"], job["tenant_id"]) == (f"schedule:{schedule}:2035-01-01T12:00:10Z", "acme")
    assert (job["stage"], job["payload"], job["trigger_type"]) == ("email", {"price": 1}, "schedule")
    assert (job["semantics"], job["max_attempts"], job["ttr_seconds"]) == ("at_most_once", 3, 20)
    assert job["scheduled_at"] == world.now
    row = the_schedule(world, schedule)
    assert (row["last_at"], row["last_job_id"]) == (world.now, job_id)
    assert row["next_at"].strftime("%X") == "12:00:20"


def test_a_payload_keeps_each_of_its_digits(world: World) -> None:
    schedule = a_schedule(world)
    world.run("""update giftcard_schedules set payload = '{"n": 12345678901234567890.10}' where id = %s""", schedule)
    (job_id,) = check_at(world, "12:00:10")["jobs"]
    assert world.rows("select payload::text as p from giftcard_jobs where id = %s", job_id)[0]["p"] == (
        '{"n": 12345678901234567890.10}'
    )


def test_a_plain_insert_is_a_good_schedule(world: World) -> None:
    schedule = an_insert(world, {"schedule": "*/10 * * * * *", "stage": "email"})
    assert look(world)["jobs"] == []
    assert len(check_at(world, "12:00:10")["jobs"]) == 1
    assert occurrences(world, schedule) == ["12:00:10"]


def test_a_plan_that_is_carried_out_twice_makes_one_job(world: World) -> None:
    schedule = a_schedule(world)
    world.later(10)
    planned = plan(world.call("due_schedules"))
    assert len(world.call("enqueue_occurrences", planned=planned)["jobs"]) == 1
    assert world.call("enqueue_occurrences", planned=planned) == {"jobs": [], "paused": [], "deleted": 0, "left": 1}
    assert occurrences(world, schedule) == ["12:00:10"]


def test_a_plan_for_a_schedule_that_was_changed_meanwhile_is_not_carried_out(world: World) -> None:
    schedule = a_schedule(world)
    world.later(10)
    planned = plan(world.call("due_schedules"))
    world.call("pause_schedule", id=schedule, by="ann")
    assert world.call("enqueue_occurrences", planned=planned)["left"] == 1
    assert occurrences(world, schedule) == []


def test_a_clock_that_goes_back_makes_no_second_job(world: World) -> None:
    schedule = a_schedule(world)
    check_at(world, "12:00:10")
    end(world, schedule)
    check_at(world, "11:59:00")
    # Not even if its next time is computed anew by that clock.
    world.run("update giftcard_schedules set next_at = '2035-01-01 12:00:10Z', check_at = '2035-01-01 12:00:10Z'")
    check_at(world, "12:00:10")
    assert occurrences(world, schedule) == ["12:00:10"]
    check_at(world, "12:00:20")
    assert occurrences(world, schedule) == ["12:00:10", "12:00:20"]


def test_a_backdated_next_time_runs_real_times_only(world: World) -> None:
    schedule = a_schedule(world, "0 * * * *", missed_policy="one")
    world.run("update giftcard_schedules set next_at = '2035-01-01 11:13:17Z', check_at = '2035-01-01 11:13:17Z'")
    look(world)
    assert occurrences(world, schedule) == ["12:00:00"]


@pytest.mark.parametrize("first_commits", [True, False])
def test_of_two_ticks_that_race_for_a_schedule_one_makes_its_job(
    world: World, database_url: str, first_commits: bool
) -> None:
    schedule = a_schedule(world)
    world.later(10)
    with psycopg.connect(database_url) as first, psycopg.connect(database_url, autocommit=True) as second:
        one, other = World(first, now=world.now), World(second, now=world.now)
        planned = plan(one.call("due_schedules"))
        assert planned == plan(other.call("due_schedules"))
        made = one.call("enqueue_occurrences", planned=planned)
        # The other does not wait.
        assert other.call("enqueue_occurrences", planned=planned)["left"] == 1
        if first_commits:
            first.commit()
            assert other.call("enqueue_occurrences", planned=planned)["left"] == 1
            assert occurrences(world, schedule) == ["12:00:10"]
            assert len(made["jobs"]) == 1
        else:
            first.rollback()
            assert len(other.call("enqueue_occurrences", planned=planned)["jobs"]) == 1
    assert occurrences(world, schedule) == ["12:00:10"]


@pytest.mark.slow
def test_eight_clocks_at_once_make_each_occurrence_once(world: World, database_url: str) -> None:
    schedules = [a_schedule(world, "* * * * * *", overlap_policy="allow") for _ in range(5)]

    def clock(number: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            own = World(connection, now=world.now)
            for second in range(40):
                # Each goes a little before or after the others.
                own.now = world.now and world.now.replace(second=second, microsecond=100_000 * number)
                look(own)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(clock, range(8)))
    for schedule in schedules:
        found = occurrences(world, schedule)
        assert len(found) == len(set(found))
        row = the_schedule(world, schedule)
        # What one clock was too late for was counted, not lost.
        assert len(found) + row["missed"] == 39


# Rows that somebody has made bad

BAD: dict[str, tuple[str, str]] = {
    "no expression": ("schedule = 'now and then'", "schedule: "),
    "nothing": ("schedule = ''", "schedule: "),
    "a day that does not exist": ("schedule = '0 0 31 2 *'", "no further date matches its expression"),
    "no time zone": ("timezone = 'Mars/Base'", "timezone: there is no such time zone"),
    "no time": ("next_at = '-infinity'", "it cannot be planned"),
    "a payload too deep": (
        """payload = ('{"a":' || repeat('[', 120) || repeat(']', 120) || '}')::jsonb""",
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_paused_with_its_reason_and_stops_no_other(world: World, what: str) -> None:
    first, bad, last = (a_schedule(world) for _ in range(3))
    change, reason = BAD[what]
    world.run("alter table giftcard_schedules disable trigger user")  # a row may be older than the rule
    world.run(f"update giftcard_schedules set {change} where id = %s", bad)
    world.run("alter table giftcard_schedules enable trigger user")
    answer = check_at(world, "12:00:10")
    assert [paused["id"] for paused in answer["paused"]] == [bad]
    assert reason in answer["paused"][0]["reason"]
    assert len(answer["jobs"]) == 2
    row = the_schedule(world, bad)
    assert (row["paused_at"], row["paused_by"], row["next_at"], row["check_at"]) == (world.now, "tick", None, None)
    assert reason in row["pause_reason"]
    assert occurrences(world, first) == occurrences(world, last) == ["12:00:10"]
    # It is not looked at again.
    assert check_at(world, "12:00:20")["paused"] == []


def test_an_occurrence_of_a_stage_that_nobody_knows_waits_and_the_next_is_dropped(world: World) -> None:
    schedule = a_schedule(world, stage="unheard_of")
    check_at(world, "12:00:10")
    check_at(world, "12:00:20")
    assert occurrences(world, schedule) == ["12:00:10"]
    assert the_schedule(world, schedule)["skipped"] == 1


# When somebody has to look


def next_at(world: World) -> Any:
    found = world.ask("next_schedule_at")
    return found and found[11:19]


def test_the_next_look_is_that_of_the_earliest_schedule_that_runs(world: World) -> None:
    assert next_at(world) is None
    paused = a_schedule(world, "*/5 * * * * *")
    world.call("pause_schedule", id=paused, by="ann")
    assert next_at(world) is None
    a_schedule(world, "0 * * * *")
    a_schedule(world, "*/20 * * * * *")
    assert next_at(world) == "12:00:20"


def test_nobody_has_to_wait_for_the_end_of_a_job(world: World) -> None:
    a_schedule(world, is_recurring=False)
    check_at(world, "12:00:10")
    assert next_at(world) is None


def test_the_longest_due_come_first_and_as_many_as_are_asked_for(world: World) -> None:
    late, later = a_schedule(world, "20 0 12 * * *"), a_schedule(world, "10 0 12 * * *")
    assert world.call("due_schedules") == []
    world.later(30)
    assert [row["id"] for row in world.call("due_schedules")] == [later, late]
    assert [row["id"] for row in world.call("due_schedules", limit=1)] == [later]
