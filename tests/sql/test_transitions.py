"""The contract's table of transitions, row by row."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, Release, Retry, Snooze
from tests.support.factory import STAGES, World, done, ids


def test_enqueued_is_queued_and_due_now(world: World) -> None:
    job = world.job(world.enqueue())
    assert (job["status"], job["attempts"], job["run_no"], job["revivals"]) == ("queued", 0, 0, 0)
    assert job["scheduled_at"] == job["created_at"] == world.now


def test_claimed_runs_under_a_new_lease_and_its_attempt_is_counted(world: World) -> None:
    job_id = world.enqueue(ttr_seconds=7)
    (claimed,) = world.claim()
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["run_no"], job["lock_owner"]) == ("running", 1, 1, "worker")
    assert (str(job["lease_id"]), job["locked_at"]) == (claimed.lease_id, world.now)
    assert world.from_now(job["lease_expires_at"]) == 7 + 10
    assert (claimed.attempts, claimed.run_no, claimed.ttr, claimed.interrupted) == (1, 1, 7, False)
    assert world.history(job_id) == []


def test_a_ttr_of_sixty_follows_its_stage(world: World) -> None:
    world.enqueue()
    (job,) = world.claim(stages={"email": 5})
    assert (job.ttr, world.from_now(world.job(job.id)["lease_expires_at"])) == (5, 15)


def test_each_claim_is_a_new_lease_and_a_new_run(world: World) -> None:
    first = world.claimed()
    world.settle(first, Retry(delay=0, error="no"))
    second = world.claim_one(first.id)
    assert second.lease_id != first.lease_id
    assert (second.attempts, second.run_no) == (2, 2)


def test_complete_ends_it_and_merges_the_context(world: World) -> None:
    job = world.claimed(context={"kept": 1, "changed": 1})
    world.later(3)
    answer = world.settle(job, Complete(context={"changed": 2, "new": 3}))
    assert (answer["settled"], answer["status"], answer["next_run_at"]) == ("settled", "completed", None)
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["finished_at"]) == ("completed", 1, world.now)
    assert row["context"] == {"kept": 1, "changed": 2, "new": 3}
    assert (row["lease_id"], row["lease_expires_at"], row["last_error"]) == (None, None, None)


def test_complete_clears_the_error_of_an_earlier_attempt(world: World) -> None:
    job_id = world.settled(Retry(delay=0, error="TransientError: no"))
    assert world.job(job_id)["last_error"] == "TransientError: no"
    world.settle(world.claim_one(job_id), Complete())
    assert world.job(job_id)["last_error"] is None


def test_retry_goes_back_after_its_delay(world: World) -> None:
    job = world.claimed()
    world.later(2)
    answer = world.settle(job, Retry(delay=5.5, error="TransientError: no"))
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("queued", 1, "TransientError: no")
    assert world.from_now(row["scheduled_at"]) == 5.5
    assert datetime.fromisoformat(answer["next_run_at"]) == row["scheduled_at"]
    assert world.claim() == []
    world.later(5.5)
    assert ids(world.claim()) == [job.id]


def test_error_is_a_dead_letter_that_knows_when_it_revives(world: World) -> None:
    job = world.claimed()
    world.later(2)
    world.settle(job, Error(error="TransientError: no", revive=24 * 3600))
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("error", 1, "TransientError: no")
    assert row["revive_at"] == row["scheduled_at"] == world.now + timedelta(hours=24)  # type: ignore[operator]
    assert row["finished_at"] == world.now


def test_error_without_revival_keeps_its_due_time_and_stays(world: World) -> None:
    job = world.claimed()
    due = world.job(job.id)["scheduled_at"]
    world.later(2)
    world.settle(job, Error(error="PermanentError: no", revive=None))
    row = world.job(job.id)
    assert (row["status"], row["revive_at"], row["scheduled_at"]) == ("error", None, due)
    world.later(10 * 365 * 86_400)
    assert world.claim() == []


def test_snooze_gives_the_attempt_back_and_waits(world: World) -> None:
    job = world.claimed()
    world.later(2)
    world.settle(job, Snooze(delay=30, waiting_for="the vendor"))
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["run_no"]) == ("queued", 0, 1)
    assert world.from_now(row["scheduled_at"]) == 30


def test_release_gives_the_attempt_back_and_keeps_the_due_time(world: World) -> None:
    job = world.claimed()
    due = world.job(job.id)["scheduled_at"]
    world.later(2)
    world.settle(job, Release())
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["run_no"], row["scheduled_at"]) == ("queued", 0, 1, due)
    assert ids(world.claim()) == [job.id]


@pytest.mark.parametrize("outcome", [Snooze(delay=1, waiting_for="x"), Release()])
def test_neither_snooze_nor_release_wears_a_job_out(world: World, outcome: Snooze | Release) -> None:
    job_id = world.enqueue()
    for run in range(1, 31):
        job = world.claim_one(job_id)
        assert (job.attempts, job.run_no) == (1, run)
        world.settle(job, outcome)


def test_a_dead_letter_revives_with_a_whole_new_set_of_attempts(world: World) -> None:
    job_id = world.dead_letter(revive=60)
    world.later(59.9)
    assert world.begin(limit=0).step.revived == 0
    assert world.job(job_id)["status"] == "error"
    world.later(0.1)
    assert world.begin(limit=0).step.revived == 1
    row = world.job(job_id)
    assert (row["status"], row["attempts"], row["revivals"], row["run_no"]) == ("queued", 0, 1, 1)
    assert (row["revive_at"], row["scheduled_at"], row["finished_at"]) == (None, world.now, None)
    assert row["last_error"] == "TransientError: no"
    (job,) = world.claim()
    assert (job.attempts, job.run_no, job.revivals) == (1, 2, 1)


@pytest.mark.parametrize(
    ("outcome", "result", "error", "next_in"),
    [
        (Complete(), "SUCCESS", None, None),
        (Retry(delay=5, error="TransientError: no"), "FAILED", "TransientError: no", 5),
        (Error(error="TransientError: no", revive=60), "FAILED", "TransientError: no", 60),
        (Error(error="PermanentError: no"), "FAILED", "PermanentError: no", None),
        (Snooze(delay=7, waiting_for="x"), "SNOOZED", "waiting for x", 7),
        (Release(), "RELEASED", None, -3),
    ],
)
def test_history_has_one_row_a_run(
    world: World, outcome: Any, result: str, error: str | None, next_in: float | None
) -> None:
    job = world.claimed()
    started = world.now
    world.later(3)
    world.settle(job, outcome)
    (run,) = world.history(job.id)
    assert (run["run_no"], run["attempt"], run["stage"], run["result"]) == (1, 1, "email", result)
    assert (run["started_at"], run["finished_at"], run["scheduled_at"]) == (started, world.now, started)
    assert (run["lock_owner"], str(run["lease_id"]), run["error"]) == ("worker", job.lease_id, error)
    assert (run["next_run_at"] and world.from_now(run["next_run_at"])) == next_in


def test_history_stays_over_revival_and_requeue(world: World) -> None:
    job_id = world.dead_letter(revive=1)
    world.later(1)
    world.settle(world.claim_one(job_id), Error(error="again"))
    world.call("requeue", job_id=job_id)
    world.settle(world.claim_one(job_id), Complete())
    runs = world.history(job_id)
    assert [(r["run_no"], r["attempt"], r["result"]) for r in runs] == [
        (1, 1, "FAILED"),
        (2, 1, "FAILED"),
        (3, 1, "SUCCESS"),
    ]


def test_many_are_settled_in_one_call_each_by_its_own_outcome(world: World) -> None:
    outcomes = [
        Complete(),
        Retry(delay=5, error="a"),
        Error(error="b"),
        Snooze(delay=9, waiting_for="c"),
        Release(),
        Complete(context={"n": 1}),
    ]
    jobs = [world.claimed() for _ in outcomes]
    answer = world.settle_all(*(done(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)))
    assert {s["id"]: s["status"] for s in answer["settled"]} == dict(
        zip(ids(jobs), ["completed", "queued", "error", "queued", "queued", "completed"], strict=True)
    )
    assert answer["sums"] == {
        "completed": 2, "retried": 1, "errored": 1, "snoozed": 1, "released": 1, "interrupted": 0, "lease_lost": 0
    }  # fmt: skip
    assert [len(world.history(job.id)) for job in jobs] == [1] * 6


@pytest.mark.parametrize("results", [None, {}, [{"id": 1, "outcome": "won"}], [{"id": 1}]])
def test_what_is_no_result_is_refused(world: World, results: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("settle", results=results)
    assert caught.value.sqlstate == "GC400"


def test_a_job_that_is_gone_is_missing_from_the_answer(world: World) -> None:
    job = world.claimed()
    world.run("delete from giftcard_jobs")
    assert world.settle_all(done(job))["settled"] is None
    assert world.begin(stages=STAGES).jobs == []
