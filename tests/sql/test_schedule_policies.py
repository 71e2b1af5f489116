"""What an occurrence does when an earlier one has not ended, failed, or was missed: on real rows."""

import random
from typing import Any

import pytest

from lib.errors import TransientError
from lib.job import Complete, Error, Outcome, Retry
from lib.jobs.failure_policy import FailurePolicy, decide
from lib.jobs.retry_policy import RetryPolicy
from tests.support.cases import CASES
from tests.support.factory import World
from tests.support.schedules import a_schedule, check_at, end, later, look, occurrences, the_schedule


def test_a_retry_that_waits_when_the_next_occurrence_comes_due_is_followed_by_none(world: World) -> None:
    schedule = a_schedule(world)
    (job_id,) = check_at(world, "12:00:10")["jobs"]
    job = world.claim_one(job_id)
    world.settle(job, Retry(delay=15, error="no"))
    assert check_at(world, "12:00:20")["jobs"] == []
    row = the_schedule(world, schedule)
    assert (row["skipped"], row["last_skipped_at"], row["missed"]) == (1, world.now, 0)
    end(world, schedule)
    check_at(world, "12:00:30")
    assert occurrences(world, schedule) == ["12:00:10", "12:00:30"]


def test_under_queue_the_next_occurrence_begins_when_the_earlier_one_has_ended(world: World) -> None:
    schedule = a_schedule(world, overlap_policy="queue")
    check_at(world, "12:00:10")
    for clock in ("12:00:20", "12:00:21", "12:00:25"):
        assert check_at(world, clock)["jobs"] == []
    end(world, schedule, "error")
    check_at(world, "12:00:27")
    assert occurrences(world, schedule) == ["12:00:10", "12:00:20"]
    assert the_schedule(world, schedule)["skipped"] == 0


def test_who_waits_does_not_keep_others_from_being_looked_at(world: World) -> None:
    waiting = [a_schedule(world, overlap_policy="queue") for _ in range(5)]
    check_at(world, "12:00:10")
    a_schedule(world, "25 0 12 * * *")
    check_at(world, "12:00:20")
    assert {row["id"] for row in world.call("due_schedules")} == set()
    world.now = later(world, 5)
    assert len(world.call("due_schedules", limit=1)) == 1
    assert {row["id"] for row in world.call("due_schedules")} > set(waiting)


def test_under_allow_both_run(world: World) -> None:
    schedule = a_schedule(world, overlap_policy="allow")
    for clock in ("12:00:10", "12:00:20", "12:00:30"):
        check_at(world, clock)
    assert occurrences(world, schedule) == ["12:00:10", "12:00:20", "12:00:30"]


def test_of_jobs_that_never_end_the_newest_hundred_are_watched(world: World) -> None:
    schedule = a_schedule(world, overlap_policy="allow", missed_policy="all")
    world.later(1500)
    look(world)
    check_at(world, later(world, 500))
    assert len(occurrences(world, schedule)) == 150
    watched = the_schedule(world, schedule)["open_jobs"]
    assert (len(watched), watched == sorted(watched)) == (100, True)


def test_all_that_was_missed_runs_one_after_the_other_in_a_queue(world: World) -> None:
    schedule = a_schedule(world, overlap_policy="queue", missed_policy="all", missed_cap=3)
    check_at(world, "12:01:05")
    assert occurrences(world, schedule) == ["12:00:40"]
    assert the_schedule(world, schedule)["missed"] == 3
    for _ in range(3):
        end(world, schedule)
        world.later(0.1)
        look(world)
    assert occurrences(world, schedule) == ["12:00:40", "12:00:50", "12:01:00"]
    assert the_schedule(world, schedule)["next_at"].strftime("%X") == "12:01:10"


# Failures in a row


def fail(world: World, schedule: int, clock: str, outcome: Outcome | None = None) -> dict[str, Any]:
    """What a look says at that time; the job of it then ends like this, as a failure for good unless said otherwise."""
    answer = check_at(world, clock)
    for job_id in answer["jobs"]:
        world.settle(world.claim_one(job_id), outcome or Error(error="TransientError: no", revive=86_400))
    return answer


def test_it_goes_on_at_its_next_time_after_a_failure_for_good(world: World) -> None:
    schedule = a_schedule(world)
    for clock in ("12:00:10", "12:00:20", "12:00:30"):
        fail(world, schedule, clock)
    assert occurrences(world, schedule) == ["12:00:10", "12:00:20", "12:00:30"]


def test_so_many_failures_in_a_row_pause_it(world: World) -> None:
    schedule = a_schedule(world, pause_after_failures=2)
    fail(world, schedule, "12:00:10")
    fail(world, schedule, "12:00:20", Complete())
    fail(world, schedule, "12:00:30")
    fail(world, schedule, "12:00:40")
    assert check_at(world, "12:00:50")["paused"] == [{"id": schedule, "reason": "2 occurrences in a row have failed"}]
    assert world.call("show_schedule", id=schedule)["failures"] == 2
    assert check_at(world, "12:01:00")["jobs"] == []
    world.call(
        "resume_schedule", id=schedule, version=the_schedule(world, schedule)["version"], next_at="2035-01-01T12:01:10Z"
    )
    assert world.call("show_schedule", id=schedule)["failures"] == 0
    fail(world, schedule, "12:01:10")
    assert len(check_at(world, "12:01:20")["jobs"]) == 1


def test_a_cancelled_job_is_no_failure(world: World) -> None:
    schedule = a_schedule(world, pause_after_failures=1)
    check_at(world, "12:00:10")
    end(world, schedule, "cancelled")
    assert len(check_at(world, "12:00:20")["jobs"]) == 1


# Schedules that run once


@pytest.mark.parametrize("status", ["completed", "error", "cancelled"])
def test_what_runs_once_is_gone_when_its_job_has_ended(world: World, status: str) -> None:
    schedule = a_schedule(world, is_recurring=False)
    check_at(world, "12:00:10")
    assert world.call("show_schedule", id=schedule)["unfinished"] == 1
    assert check_at(world, "12:00:15")["deleted"] == 0
    end(world, schedule, status)
    # For people at once, and the row with the next look.
    assert world.call("list_schedules")["schedules"] == []
    assert check_at(world, "12:00:20")["deleted"] == 1
    assert world.rows("select from giftcard_schedules") == []
    assert occurrences(world, schedule) == ["12:00:10"]


def test_what_runs_once_stays_while_its_dead_letter_can_revive(world: World) -> None:
    schedule = a_schedule(world, is_recurring=False)
    (job_id,) = check_at(world, "12:00:10")["jobs"]
    world.settle(world.claim_one(job_id), Error(error="no", revive=60))
    for _ in range(5):
        world.later(5)
        assert look(world)["deleted"] == 0
    world.run("update giftcard_jobs set revive_at = null")
    assert check_at(world, later(world, 60))["deleted"] == 1
    assert world.rows("select from giftcard_schedules where id = %s", schedule) == []


def test_a_schedule_that_runs_once_and_is_paused_before_waits(world: World) -> None:
    schedule = a_schedule(world, is_recurring=False)
    world.call("pause_schedule", id=schedule, by="ann", reason="later")
    assert check_at(world, "12:00:10")["jobs"] == []
    version = the_schedule(world, schedule)["version"]
    world.call("resume_schedule", id=schedule, version=version, next_at="2035-01-01T12:00:20Z")
    assert len(check_at(world, "12:00:20")["jobs"]) == 1
    # Paused after it: its end is seen all the same.
    world.call("pause_schedule", id=schedule, by="ann")
    end(world, schedule)
    assert check_at(world, "12:00:30")["deleted"] == 1


# The timelines of the contract: attempts, semantics and whether it recurs; what its attempts do; the next time if any

TIMELINES = {
    "at_least_once, recurring, max_retry_count 3, always failing": ("at_least_once", True, 3, 99, "error"),
    "at_most_once, not recurring, max_retry_count 5, failing": ("at_most_once", False, 5, 99, "error"),
    "at_least_once, recurring, max_retry_count 2, succeeds on the second retry": (
        "at_least_once",
        True,
        2,
        2,
        "completed",
    ),
}


@pytest.mark.parametrize("case", CASES["http_call_timelines"], ids=lambda case: case["_about"])
def test_a_timeline_of_the_contract(world: World, case: dict[str, Any]) -> None:
    semantics, recurs, retries, failing, ends = TIMELINES[case["_about"]]
    schedule = a_schedule(world, stage="http_call", semantics=semantics, is_recurring=recurs, max_attempts=retries + 1)
    started = play(world, failing=failing, seconds=25)
    assert [second - 10 for second in started if second < 20] == case["starts"]
    first = world.rows("select status from giftcard_jobs order by id")[0]
    assert first["status"] == ends
    if recurs:
        assert [second - 20 for second in started if second >= 20][:2] == case["starts"][:2]
    else:
        assert [second for second in started if second >= 20] == []
        assert world.rows("select from giftcard_schedules where id = %s", schedule) == []


def play(world: World, *, failing: int, seconds: int) -> list[int]:
    """A tick that looks each second: at schedules, then at jobs. The second of each start, counted from now.

    Each job's first attempts fail, so many of them.
    """
    policy = FailurePolicy(retry=RetryPolicy(max_attempts=4, base=1, cap=300))
    started, rng = [], random.Random(0)
    for second in range(seconds):
        look(world)
        for job in world.claim(limit=10, stages={"http_call": 60}):
            started.append(second)
            failed = job.attempts <= failing
            error = TransientError("HTTP 503")
            outcome = decide(error, job, policy, rng=rng) if failed else Complete()
            world.settle(job, outcome)
        world.later(1)
    return started
