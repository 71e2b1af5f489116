"""Who may settle: the holder of the current lease, once, and nobody else."""

import pytest

from lib.job import Complete, Error, NextJob, Outcome, Release, Retry, Snooze
from tests.support.factory import World, done, ids

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


def test_what_a_result_leaves_empty_is_as_if_it_were_not_there(world: World) -> None:
    job = world.claimed()
    empty = dict.fromkeys(("context", "next", "detail", "trips", "error", "delay", "revive"))
    result = {"id": job.id, "lease_id": job.lease_id, "outcome": "complete"} | empty
    assert world.call("settle", results=[result])["settled"][0]["settled"] == "settled"
    assert (world.job(job.id)["context"], world.history(job.id)[0]["detail"]) == ({}, None)
