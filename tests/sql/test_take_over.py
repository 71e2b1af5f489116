"""A killed worker: its runs are brought to the next claim, marked interrupted, to be settled as failures."""

import pytest

from lib.job import Complete, Error, Retry
from tests.support.factory import STAGES, World, each, ids


def test_an_ended_lease_is_taken_over_with_the_same_run_and_attempt(world: World) -> None:
    old = world.claimed(ttr_seconds=20)
    world.later(30 - 0.001)
    assert world.take_over() == []
    world.later(0.001)
    started = world.job(old.id)["locked_at"]
    (new,) = world.take_over(owner="another")
    assert (new.id, new.interrupted, new.run_no, new.attempts) == (old.id, True, 1, 1)
    assert new.lease_id != old.lease_id
    row = world.job(old.id)
    assert (row["status"], row["attempts"], row["run_no"], row["lock_owner"]) == ("running", 1, 1, "another")
    assert world.from_now(row["lease_expires_at"]) == 30
    assert row["locked_at"] == started


def test_it_is_settled_like_any_failure_and_the_run_has_one_row_of_history(world: World) -> None:
    old = world.interrupted()
    (new,) = world.take_over()
    world.settle(new, Retry(delay=5, error="Interrupted: killed"))
    row = world.job(old.id)
    assert (row["status"], row["attempts"], row["run_no"]) == ("queued", 1, 1)
    assert world.from_now(row["scheduled_at"]) == 5
    (run,) = world.history(old.id)
    assert (run["result"], run["run_no"], str(run["lease_id"])) == ("INTERRUPTED", 1, new.lease_id)


def test_a_job_that_kills_its_process_each_time_runs_out_of_attempts(world: World) -> None:
    job_id = world.enqueue()
    for attempt in range(1, 6):
        world.claim_one(job_id)
        world.end_lease(job_id)
        (job,) = world.take_over()
        assert (job.attempts, job.run_no) == (attempt, attempt)
        outcome = Retry(delay=0, error="Interrupted") if attempt < 5 else Error(error="Interrupted", revive=60)
        world.settle(job, outcome)
    assert world.job(job_id)["status"] == "error"
    assert [run["result"] for run in world.history(job_id)] == ["INTERRUPTED"] * 5


def test_a_take_over_that_is_killed_too_is_taken_over_again(world: World) -> None:
    old = world.interrupted()
    (second,) = world.take_over()
    world.later(29.9)
    assert world.take_over() == []
    world.later(0.1)
    (third,) = world.take_over()
    assert (third.id, third.run_no, third.attempts) == (old.id, 1, 1)
    assert world.settle(second, Retry(delay=0, error="x"))["settled"] == "lease_lost"
    assert world.settle(third, Retry(delay=0, error="x"))["settled"] == "settled"
    assert len(world.history(old.id)) == 1


def test_at_most_ten_are_taken_over_a_call_those_whose_lease_ended_first(world: World) -> None:
    each(world.enqueue, 12)
    jobs = world.claim(limit=12)
    for place, job in enumerate(jobs):
        world.run("update giftcard_jobs set ttr_seconds = 1 where id = %s", job.id)
        world.run(
            "update giftcard_jobs set lease_expires_at = %s::timestamptz - make_interval(secs => %s) where id = %s",
            world.now, 100 - place, job.id,
        )  # fmt: skip
    assert ids(world.take_over()) == ids(jobs)[:10]
    assert ids(world.take_over()) == ids(jobs)[10:]
    assert world.take_over() == []


def test_they_come_outside_the_limit(world: World) -> None:
    for job_id in each(lambda: world.claimed().id, 3):
        world.end_lease(job_id)
    fresh = each(world.enqueue, 3)
    jobs = world.claim(limit=2)
    assert [job.interrupted for job in jobs] == [True, True, True, False, False]
    assert ids(jobs)[3:] == fresh[:2]


@pytest.mark.parametrize("why", ["unknown", "paused", "circuit open"])
def test_they_are_taken_over_even_when_their_stage_cannot_run(world: World, why: str) -> None:
    old = world.interrupted()
    stages = {name: 60 for name in STAGES if name != "email"} if why == "unknown" else STAGES
    if why == "paused":
        world.call("pause", stage="email", by="kate")
    if why == "circuit open":
        world.run("insert into giftcard_circuits values ('email', 'open', 0, %s, %s)", world.now, "2099-01-01")
    (job,) = world.claim(stages=stages)
    assert (job.id, job.interrupted) == (old.id, True)
    assert world.settle(job, Retry(delay=5, error="Interrupted"))["settled"] == "settled"


def test_a_caller_that_asks_for_nothing_takes_over_nothing(world: World) -> None:
    world.interrupted()
    assert world.claim(limit=0) == []


def test_a_running_row_without_a_lease_is_taken_over(world: World) -> None:
    job_id = world.enqueue()
    world.run("update giftcard_jobs set status = 'running' where id = %s", job_id)
    (job,) = world.take_over()
    assert (job.id, job.interrupted) == (job_id, True)
    assert world.settle(job, Retry(delay=0, error="Interrupted"))["settled"] == "settled"


def test_a_settle_before_the_take_over_leaves_nothing_to_take(world: World) -> None:
    old = world.interrupted()
    world.settle(old, Complete())
    assert world.take_over() == []
