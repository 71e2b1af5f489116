"""What operators change by hand: the UPDATE of the contract, and others."""

from typing import Any

import pytest

from lib.job import Complete, Error, Outcome, Retry
from tests.support.factory import World


def test_the_update_by_hand_on_a_dead_letter_runs_it_with_a_whole_new_set_of_attempts(world: World) -> None:
    job_id = world.settled(Retry(delay=0, error="TransientError: no"), max_attempts=2)
    world.settle(world.claim_one(job_id), Error(error="TransientError: no", revive=3600))
    assert world.job(job_id)["attempts"] == 2
    world.by_hand(job_id)
    row = world.job(job_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("queued", 0, None)
    (job,) = world.claim()
    assert (job.id, job.attempts, job.run_no) == (job_id, 1, row["run_no"] + 1)
    assert world.job(job_id)["revive_at"] is None
    world.settle(job, Complete())
    world.later(3600)
    assert world.begin(limit=0).step.revived == 0


def test_the_update_by_hand_on_a_dead_letter_that_would_revive_is_not_revived_as_well(world: World) -> None:
    job_id = world.dead_letter(revive=60)
    world.by_hand(job_id)
    world.later(60)
    assert world.begin(limit=0).step.revived == 0
    assert world.job(job_id)["revivals"] == 0


def test_the_update_by_hand_on_a_running_job_wins_over_its_worker(world: World) -> None:
    old = world.claimed()
    world.by_hand(old.id)
    assert world.settle(old, Complete())["settled"] == "lease_lost"
    assert world.job(old.id)["status"] == "queued"
    (new,) = world.claim()
    assert (new.id, new.attempts, new.run_no) == (old.id, 1, 2)
    assert world.settle(new, Complete())["settled"] == "settled"


def test_a_run_taken_by_hand_is_in_the_history(world: World) -> None:
    old = world.claimed()
    world.by_hand(old.id)
    (run,) = world.history(old.id)
    assert (run["run_no"], run["attempt"], run["result"], run["lock_owner"]) == (1, 1, "INTERRUPTED", "worker")
    assert run["error"].startswith("TakenByHand")
    assert run["next_run_at"] == world.job(old.id)["scheduled_at"]
    assert world.settle(old, Complete())["settled"] == "lease_lost"
    assert world.history(old.id) == [run]


@pytest.mark.parametrize("status", ["queued", "completed", "error", "cancelled"])
@pytest.mark.parametrize("outcome", [Complete(), Retry(delay=5, error="no")], ids=["complete", "retry"])
def test_a_run_that_is_given_back_by_hand_is_settled_as_if_nothing_had_been(
    world: World, status: str, outcome: Outcome
) -> None:
    """Somebody sets a running job's status, sees the mistake and sets it back."""
    job = world.claimed()
    world.run("update giftcard_jobs set status = %s where id = %s", status, job.id)
    world.run("update giftcard_jobs set status = 'running' where id = %s", job.id)
    assert world.history(job.id) == []
    assert world.settle(job, outcome)["settled"] == "settled"
    (run,) = world.history(job.id)
    assert (run["run_no"], run["error"]) == (1, getattr(outcome, "error", None))


def test_a_job_that_has_ended_and_is_made_running_by_hand_is_taken_over(world: World) -> None:
    job_id = world.completed()
    world.run("update giftcard_jobs set status = 'running' where id = %s", job_id)
    (job,) = world.take_over()
    assert (job.id, job.interrupted) == (job_id, True)
    assert world.settle(job, Error(error="Interrupted: no"))["settled"] == "settled"
    (run,) = world.history(job_id)
    assert (run["run_no"], run["result"]) == (1, "INTERRUPTED")


@pytest.mark.parametrize("status", ["queued", "completed", "error", "cancelled"])
def test_any_status_may_be_set_by_hand_on_a_running_job(world: World, status: str) -> None:
    job = world.claimed()
    world.run("update giftcard_jobs set status = %s where id = %s", status, job.id)
    assert world.settle(job, Complete())["settled"] == "lease_lost"
    assert world.job(job.id)["status"] == status
    assert len(world.history(job.id)) == 1


@pytest.mark.parametrize("status", ["completed", "error", "cancelled", "queued"])
def test_the_update_by_hand_does_what_it_says_on_any_job(world: World, status: str) -> None:
    make: dict[str, Any] = {
        "completed": world.completed,
        "error": world.dead_letter,
        "cancelled": world.cancelled,
        "queued": lambda: world.enqueue(delay_seconds=9999),
    }
    job_id = make[status]()
    world.by_hand(job_id)
    (job,) = world.claim()
    assert (job.id, job.attempts) == (job_id, 1)
    assert world.settle(job, Complete())["settled"] == "settled"


def test_the_older_bulk_update_stays_valid_and_finds_nothing(world: World) -> None:
    world.dead_letter(revive=60)
    world.settled(Retry(delay=60, error="no"))
    statement = (
        "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL "
        "WHERE status='queued' AND scheduled_at > NOW() AND attempts >= max_attempts"
    )
    assert world.run(statement) == 0


def _made(world: World, how: str) -> int:
    """A dead letter without finished_at, made by a person."""
    if how == "insert":
        world.run("insert into giftcard_jobs (correlation_id, stage, status) values ('by hand', 'email', 'error')")
        return int(world.rows("select id from giftcard_jobs where correlation_id = 'by hand'")[0]["id"])
    if how == "finished_at":
        job_id = world.dead_letter()
        world.run("update giftcard_jobs set finished_at = null where id = %s", job_id)
        return job_id
    job_id = {"queued": world.enqueue, "running": lambda: world.claimed().id, "retried": lambda: retried(world)}[how]()
    world.run("update giftcard_jobs set status = 'error', last_error = 'by kim' where id = %s", job_id)
    return job_id


def retried(world: World) -> int:
    return world.settled(Retry(delay=5, error="TransientError: no"))


@pytest.mark.parametrize("how", ["insert", "finished_at", "queued", "running", "retried"])
def test_a_dead_letter_made_by_hand_has_a_time_and_is_seen_like_any_other(world: World, how: str) -> None:
    job_id = _made(world, how)
    now = world.rows("select clock_timestamp() as now")[0]["now"]
    assert abs((now - world.job(job_id)["finished_at"]).total_seconds()) < 60
    # In this world it is later by years.
    assert world.call("metrics", stages={})["dead"]["email"] > 300
    due = world.call("check_alerts", stages={}, channels=("url:1",))
    assert "dead_letters" in [alert["condition"] for alert in due[0]["alerts"]]
    assert world.call("requeue_dead_letters", older_than="1 hour")["matched"] == 1
    assert [row["id"] for row in world.call("status", stages={})["dead_letters"]] == [job_id]
    world.run("update giftcard_jobs set updated_at = finished_at where id = %s", job_id)
    assert world.call("prune", dead_letters="30 days", dry_run=True)["jobs"] == 1


@pytest.mark.parametrize("status", ["queued", "completed", "cancelled"])
def test_only_a_dead_letter_is_given_a_time(world: World, status: str) -> None:
    job_id = world.enqueue()
    world.run("update giftcard_jobs set status = %s where id = %s", status, job_id)
    assert world.job(job_id)["finished_at"] is None


def test_a_time_that_is_named_by_hand_stays(world: World) -> None:
    job_id = world.enqueue()
    world.run("update giftcard_jobs set status = 'error', finished_at = '2020-01-01Z' where id = %s", job_id)
    assert world.job(job_id)["finished_at"].year == 2020
