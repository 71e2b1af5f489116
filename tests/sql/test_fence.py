"""Who may settle: the holder of the current lease, once, and nobody else."""

from typing import Any

import pytest

from lib.job import Complete, Error, NextJob, Outcome, Release, Retry, Snooze
from tests.factory import World, done, ids

EVERY_OUTCOME = [
    Complete(context={"won": True}, next=(NextJob(stage="payment"),)),
    Retry(delay=5, error="late"),
    Error(error="late", revive=60, next=(NextJob(stage="payment"),)),
    Snooze(delay=5, waiting_for="x"),
    Release(),
]


def jobs_there_are(world: World) -> int:
    (row,) = world.rows("select count(*) as n from giftcard_jobs")
    return int(row["n"])


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_a_late_settle_counts_while_nobody_took_the_job_over(world: World, outcome: Outcome) -> None:
    job = world.claimed()
    world.later(70 + 3600)
    assert world.settle(job, outcome)["settled"] == "settled"
    assert len(world.history(job.id)) == 1


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_a_late_settle_changes_nothing_after_a_take_over(world: World, outcome: Outcome) -> None:
    old = world.interrupted()
    (new,) = world.take_over()
    before = world.snapshot(old.id)
    assert world.settle(old, outcome, trips=1)["settled"] == "lease_lost"
    assert world.snapshot(old.id) == before
    assert jobs_there_are(world) == 1
    assert world.circuits() == []
    assert world.settle(new, Retry(delay=5, error="Interrupted"))["settled"] == "settled"


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_a_late_settle_changes_nothing_after_the_take_over_is_settled(world: World, outcome: Outcome) -> None:
    old = world.interrupted()
    (new,) = world.take_over()
    world.settle(new, Retry(delay=5, error="Interrupted"))
    before = world.snapshot(old.id)
    assert world.settle(old, outcome)["settled"] == "lease_lost"
    assert world.snapshot(old.id) == before


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_an_older_run_cannot_settle_a_newer_one(world: World, outcome: Outcome) -> None:
    old = world.claimed()
    world.by_hand(old.id)
    new = world.claim_one(old.id)
    before = world.snapshot(old.id)
    assert world.settle(old, outcome)["settled"] == "lease_lost"
    assert world.snapshot(old.id) == before
    assert world.settle(new, Complete())["settled"] == "settled"


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_a_settle_repeated_answers_settled_and_changes_nothing(world: World, outcome: Outcome) -> None:
    job = world.claimed()
    first = world.settle(job, outcome, trips=2 if isinstance(outcome, Retry) else None)
    before = world.snapshot(job.id), jobs_there_are(world), world.circuits()
    world.later(1)
    again = world.settle(job, outcome, trips=2 if isinstance(outcome, Retry) else None)
    assert again == first
    assert (world.snapshot(job.id), jobs_there_are(world), world.circuits()) == before


def test_a_settle_repeated_while_the_next_run_goes_answers_settled(world: World) -> None:
    job = world.claimed()
    world.settle(job, Retry(delay=0, error="no"))
    world.claim_one(job.id)
    before = world.snapshot(job.id)
    assert world.settle(job, Retry(delay=0, error="no"))["settled"] == "settled"
    assert world.snapshot(job.id) == before


def test_a_settle_repeated_does_not_open_a_circuit(world: World) -> None:
    job = world.claimed()
    for _ in range(5):
        world.settle(job, Retry(delay=5, error="no"), trips=3)
    circuit = world.circuit("email")
    assert (circuit["state"], circuit["failures"]) == ("closed", 1)


def test_a_success_repeated_does_not_reset_a_circuit(world: World) -> None:
    won, lost = world.claimed(), world.claimed()
    world.settle(won, Complete())
    world.settle(lost, Retry(delay=5, error="no"), trips=3)
    world.settle(won, Complete())
    assert world.circuit("email")["failures"] == 1


def test_a_call_repeated_counts_in_its_tick_once(world: World) -> None:
    a, b, c = world.enqueue(), world.enqueue(), world.enqueue()
    tick = world.begin(limit=3)
    assert sorted(ids(tick.jobs)) == [a, b, c]
    results = [
        done(tick.jobs[0]),
        done(tick.jobs[1], Retry(delay=5, error="no")),
        done(tick.jobs[2], Error(error="no")),
    ]
    tick.advance(*results, busy=1)
    first = tick.row
    assert (first["completed"], first["retried"], first["errored"], first["lease_lost"]) == (1, 1, 1, 0)
    tick.advance(*results, busy=1)
    assert tick.row == first


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_a_lost_lease_is_counted_in_its_tick(world: World, outcome: Outcome) -> None:
    world.enqueue()
    tick = world.begin(limit=1)
    (job,) = tick.jobs
    world.end_lease(job.id)
    assert len(world.take_over()) == 1
    step = tick.advance(done(job, outcome), busy=1)
    assert [s.settled for s in step.settled] == ["lease_lost"]
    counted = {name: tick.row[name] for name in ("completed", "retried", "errored", "snoozed", "released")}
    assert counted == dict.fromkeys(counted, 0)
    assert tick.row["lease_lost"] == 1


def test_a_lost_lease_spoils_nothing_for_its_neighbours(world: World) -> None:
    lost, kept = world.claimed(), world.claimed()
    world.by_hand(lost.id)
    answer = world.settle_all(done(lost), done(kept))
    assert {s["id"]: s["settled"] for s in answer["settled"]} == {lost.id: "lease_lost", kept.id: "settled"}
    assert answer["sums"]["completed"] == 1
    assert answer["sums"]["lease_lost"] == 1


@pytest.mark.parametrize("outcome", EVERY_OUTCOME)
def test_an_ended_lease_cannot_use_the_lease_of_a_neighbour(world: World, outcome: Outcome) -> None:
    """A tick whose job was taken back by hand gets it again, and settles the old run beside a new one."""
    job_id = world.enqueue()
    tick = world.begin(limit=1)
    (old,) = tick.jobs
    world.by_hand(job_id)
    other = world.enqueue()
    new = {job.id: job for job in tick.advance(limit=2, busy=1).jobs}
    assert sorted(new) == [job_id, other]
    before = world.snapshot(old.id)
    step = tick.advance(done(old, outcome), done(new[other]), busy=1)
    assert {s.id: s.settled for s in step.settled} == {old.id: "lease_lost", other: "settled"}
    assert world.snapshot(old.id) == before


# The operators' UPDATE


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


def test_what_a_result_leaves_empty_is_as_if_it_were_not_there(world: World) -> None:
    job = world.claimed()
    empty = dict.fromkeys(("context", "next", "detail", "trips", "error", "delay", "revive"))
    result = {"id": job.id, "lease_id": job.lease_id, "outcome": "complete"} | empty
    assert world.call("settle", results=[result])["settled"][0]["settled"] == "settled"
    assert (world.job(job.id)["context"], world.history(job.id)[0]["detail"]) == ({}, None)


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
