"""What a claim brings, and in which order."""

from collections import Counter

import psycopg
import pytest

from lib.job import Complete, Retry
from tests.support.factory import STAGES, World, done, each, ids


def test_the_oldest_due_job_comes_first(world: World) -> None:
    third = world.enqueue(delay_seconds=-1)
    first = world.enqueue(delay_seconds=-3)
    second = world.enqueue(delay_seconds=-2)
    world.enqueue(delay_seconds=1)
    assert ids(world.claim(limit=10)) == [first, second, third]


def test_a_claim_brings_no_more_than_it_was_asked_for(world: World) -> None:
    waiting = each(world.enqueue, 5)
    assert ids(world.claim(limit=3)) == waiting[:3]
    assert ids(world.claim(limit=3)) == waiting[3:]
    assert world.claim(limit=0) == []


def test_circuits_take_turns_whatever_the_length_of_their_queues(world: World) -> None:
    each(world.enqueue, 20)
    payments = each(lambda: world.enqueue("payment"), 2)
    cards = each(lambda: world.enqueue("issue_card"), 2)
    jobs = world.claim(limit=6)
    assert Counter(job.stage for job in jobs) == {"email": 2, "payment": 2, "issue_card": 2}
    assert set(payments + cards) <= set(ids(jobs))


def test_what_one_circuit_does_not_need_comes_to_the_others(world: World) -> None:
    each(world.enqueue, 20)
    world.enqueue("payment")
    assert Counter(job.stage for job in world.claim(limit=10)) == {"email": 9, "payment": 1}


def test_endpoints_of_one_stage_are_circuits_of_their_own(world: World) -> None:
    each(lambda: world.enqueue("webhook", circuit="webhook:slow"), 20)
    quick = world.enqueue("webhook", circuit="webhook:quick")
    assert quick in ids(world.claim(limit=2))


def test_circuits_take_turns_within_a_tick_over_claims_of_one(world: World) -> None:
    each(world.enqueue, 10)
    each(lambda: world.enqueue("payment", delay_seconds=5), 10)
    each(lambda: world.enqueue("issue_card", delay_seconds=9), 10)
    world.later(9)
    tick = world.begin(limit=1)
    claimed = [job.stage for job in tick.jobs]
    for _ in range(8):
        (job,) = tick.advance(*map(done, tick.jobs), limit=1).jobs
        claimed.append(job.stage)
    assert claimed == ["email", "payment", "issue_card"] * 3


def test_a_circuit_whose_queue_was_empty_does_not_catch_up_for_ever(world: World) -> None:
    """Turns are of one tick: the next one begins anew."""
    each(world.enqueue, 10)
    tick = world.begin(limit=5)
    each(lambda: world.enqueue("payment"), 10)
    world.later(2)
    assert Counter(job.stage for job in tick.advance(limit=5, busy=5).jobs)["payment"] >= 3
    assert Counter(job.stage for job in world.claim(limit=4)) == {"email": 2, "payment": 2}


def test_two_claims_at_once_never_wait_and_never_share_a_job(world: World, database_url: str) -> None:
    waiting = each(world.enqueue, 6)
    with psycopg.connect(database_url) as other:
        first = World(other, now=world.now).claim(limit=3)
        second = world.claim(limit=3)
        other.commit()
    assert sorted(ids(first + second)) == waiting


# Parking


@pytest.mark.parametrize("why", ["unknown", "paused"])
def test_jobs_of_an_unknown_or_paused_stage_wait_and_lose_no_attempt(world: World, why: str) -> None:
    parked, other = world.enqueue("email"), world.enqueue("payment")
    stages = {"payment": 60} if why == "unknown" else STAGES
    if why == "paused":
        world.call("pause", stage="email", by="kate", reason="vendor moves")
    before = world.snapshot(parked)
    tick = world.begin(stages=stages)
    assert ids(tick.jobs) == [other]
    assert world.claim(stages=stages, only_job_id=parked) == []
    assert world.snapshot(parked) == before
    if why == "paused":
        world.call("resume", stage="email", by="kate")
    assert ids(world.claim()) == [parked]


def test_a_pause_of_everything_stops_all_claiming_and_says_so(world: World) -> None:
    waiting = world.enqueue()
    world.call("pause", stage="*", by="kate")
    step = world.begin().step
    assert (step.paused, step.jobs, step.stopped_because) == (True, (), "paused")
    assert world.job(waiting)["attempts"] == 0
    world.call("resume", stage="*", by="kate")
    step = world.begin().step
    assert (step.paused, ids(step.jobs)) == (False, [waiting])


def test_a_run_that_has_begun_ends_as_it_would_under_a_pause(world: World) -> None:
    job = world.claimed()
    world.call("pause", stage="*", by="kate")
    assert world.settle(job, Complete())["status"] == "completed"


def test_a_pause_stops_a_tick_that_is_on_its_way(world: World) -> None:
    each(world.enqueue, 2)
    tick = world.begin(limit=1)
    world.call("pause", stage="*", by="kate")
    step = tick.advance(*map(done, tick.jobs), limit=1)
    assert (step.paused, step.jobs, step.stopped_because) == (True, (), "paused")


def test_who_paused_and_why_is_kept_and_resuming_twice_is_refused(world: World) -> None:
    answer = world.call("pause", stage="email", by="kate", reason="vendor moves")
    assert (answer["paused_by"], answer["reason"]) == ("kate", "vendor moves")
    world.call("resume", stage="email", by="otto")
    (row,) = world.rows("select * from giftcard_stages")
    assert (row["paused_at"], row["paused_by"], row["resumed_by"]) == (None, "kate", "otto")
    with pytest.raises(psycopg.Error) as caught:
        world.call("resume", stage="email", by="otto")
    assert caught.value.sqlstate == "GC404"
    with pytest.raises(psycopg.Error) as caught:
        world.call("pause", stage="", by="kate")
    assert caught.value.sqlstate == "GC400"


# Choosing


def test_only_stage_brings_no_other(world: World) -> None:
    world.enqueue()
    payment = world.enqueue("payment")
    assert ids(world.claim(limit=10, only_stage="payment")) == [payment]


def test_only_job_id_ignores_the_due_time(world: World) -> None:
    world.enqueue()
    chosen = world.enqueue(delay_seconds=3600)
    assert ids(world.claim(limit=10, only_job_id=chosen)) == [chosen]


@pytest.mark.parametrize("status", ["running", "completed", "error", "cancelled"])
def test_only_job_id_does_not_ignore_the_status(world: World, status: str) -> None:
    make = {
        "running": lambda: world.claimed().id,
        "completed": world.completed,
        "error": world.dead_letter,
        "cancelled": world.cancelled,
    }
    job_id = make[status]()
    before = world.snapshot(job_id)
    assert world.claim(only_job_id=job_id) == []
    assert world.snapshot(job_id) == before


def test_only_job_id_does_not_ignore_a_pause(world: World) -> None:
    job_id = world.enqueue()
    world.call("pause", stage="*", by="kate")
    assert world.claim(only_job_id=job_id) == []


def test_only_job_id_of_another_stage_than_only_stage_brings_nothing(world: World) -> None:
    assert world.claim(only_job_id=world.enqueue(), only_stage="payment") == []


# Asking again


def test_a_begin_repeated_with_its_key_brings_the_same_leases_and_no_others(world: World) -> None:
    each(world.enqueue, 6)
    tick = world.begin(limit=3)
    world.later(1)
    again = world.begin(limit=3, key=tick.key)
    assert (again.id, again.jobs) == (tick.id, tick.jobs)
    assert [row["attempts"] for row in world.rows("select attempts from giftcard_jobs order by id")] == [
        1,
        1,
        1,
        0,
        0,
        0,
    ]
    assert tick.row["started"] == 3
    assert len(world.rows("select id from giftcard_ticks")) == 1


def test_an_advance_repeated_with_its_key_brings_the_same_leases_and_no_others(world: World) -> None:
    each(world.enqueue, 6)
    tick = world.begin(limit=1)
    results = [done(job) for job in tick.jobs]
    first = tick.advance(*results, limit=2, key="00000000-0000-4000-8000-000000000001")
    world.later(1)
    again = tick.advance(*results, limit=2, key="00000000-0000-4000-8000-000000000001")
    assert again.jobs == first.jobs
    assert [s.settled for s in again.settled] == ["settled"]
    assert tick.row["started"] == 3
    assert len(world.rows("select id from giftcard_jobs where status = 'running'")) == 2


def test_a_repeated_claim_brings_the_interrupted_ones_marked_again(world: World) -> None:
    dead = world.interrupted()
    fresh = world.enqueue()
    tick = world.begin(limit=5)
    again = world.begin(limit=5, key=tick.key)
    assert again.jobs == tick.jobs
    assert [(job.id, job.interrupted) for job in again.jobs] == [(dead.id, True), (fresh, False)]


def test_what_is_settled_is_gone_from_a_repeated_claim(world: World) -> None:
    first, second = each(world.enqueue, 2)
    tick = world.begin(limit=2)
    world.settle(tick.jobs[0], Retry(delay=0, error="no"))
    assert ids(world.begin(limit=2, key=tick.key).jobs) == [second]
    (other,) = world.claim()
    assert other.id == first
    assert ids(world.begin(limit=2, key=tick.key).jobs) == [second]


def test_a_claim_with_another_key_brings_others(world: World) -> None:
    each(world.enqueue, 4)
    first, second = world.begin(limit=2), world.begin(limit=2)
    assert first.id != second.id
    assert not set(ids(first.jobs)) & set(ids(second.jobs))


def test_a_tick_that_does_not_exist_cannot_claim(world: World) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("claim", tick_id=404, claim_key="00000000-0000-4000-8000-000000000001", limit=1)
    assert caught.value.sqlstate == "GC404"
