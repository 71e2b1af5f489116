"""A tick in the database: begun, advanced, ended."""

import psycopg
import pytest

from lib.job import Complete, Error, Release, Retry, Snooze
from tests.support.factory import World, done, each

OTHER_KEY = "00000000-0000-4000-8000-000000000002"


def test_a_tick_with_nothing_to_do_is_one_call(world: World) -> None:
    tick = world.begin()
    assert (tick.step.jobs, tick.step.stopped_because, tick.step.next_due_at) == ((), "drained", None)
    row = tick.row
    assert (row["started_at"], row["ended_at"], row["stopped_because"]) == (world.now, world.now, "drained")
    assert world.from_now(row["live_until"]) == 130


def test_a_tick_goes_on_while_something_runs(world: World) -> None:
    each(world.enqueue, 2)
    tick = world.begin(limit=2)
    assert tick.step.stopped_because is None
    assert tick.advance(done(tick.jobs[0]), busy=1).stopped_because is None
    assert tick.row["ended_at"] is None


@pytest.mark.parametrize("reason", ["limit", "budget", "shutdown"])
def test_a_tick_ends_for_the_reason_its_caller_gives(world: World, reason: str) -> None:
    each(world.enqueue, 3)
    tick = world.begin(limit=1)
    assert tick.advance(done(tick.jobs[0]), stop=reason).stopped_because == reason
    assert (tick.row["stopped_because"], tick.row["ended_at"]) == (reason, world.now)


def test_a_reason_to_stop_does_not_end_a_tick_whose_handlers_run(world: World) -> None:
    each(world.enqueue, 2)
    tick = world.begin(limit=2)
    assert tick.advance(done(tick.jobs[0]), stop="budget", busy=1).stopped_because is None


def test_a_tick_keeps_what_became_of_its_jobs(world: World) -> None:
    each(world.enqueue, 6)
    world.end_lease(world.claim()[0].id)
    tick = world.begin(limit=5)
    interrupted, *jobs = tick.jobs
    outcomes = [
        Complete(),
        Retry(delay=99, error="x"),
        Error(error="x"),
        Snooze(delay=99, waiting_for="x"),
        Release(),
    ]
    results = [done(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    tick.advance(*results, done(interrupted, Retry(delay=99, error="Interrupted")), busy=0)
    row = tick.row
    names = ("started", "completed", "retried", "errored", "snoozed", "released", "interrupted", "lease_lost")
    assert {name: row[name] for name in names} == {
        "started": 5, "completed": 1, "retried": 2, "errored": 1, "snoozed": 1, "released": 1, "interrupted": 1,
        "lease_lost": 0,
    }  # fmt: skip


def test_code_that_is_too_old_is_told_which_side_to_upgrade(world: World) -> None:
    with pytest.raises(psycopg.Error, match="deploy newer code") as caught:
        world.begin(code_version=0)
    assert caught.value.sqlstate == "GC426"
    assert world.rows("select * from giftcard_ticks") == []


def test_schema_that_is_too_old_for_the_code_is_told_too(world: World) -> None:
    world.begin(oldest_schema=1)
    with pytest.raises(psycopg.errors.DatabaseError, match="run the migrations") as caught:
        world.begin(oldest_schema=2)
    assert caught.value.sqlstate == "GC426"
    assert world.rows("select count(*) as ticks from giftcard_ticks") == [{"ticks": 1}]


# A second delivery


def test_a_second_delivery_does_nothing_while_the_first_is_live(world: World) -> None:
    each(world.enqueue, 2)
    world.begin(limit=1, execution_id="e1")
    world.later(129)
    second = world.begin(limit=1, execution_id="e1")
    assert (second.step.duplicate, second.step.jobs, second.step.stopped_because) == (True, (), "duplicate")
    assert (second.row["stopped_because"], second.row["ended_at"]) == ("duplicate", world.now)
    assert len(world.rows("select id from giftcard_jobs where status = 'queued'")) == 1


def test_a_second_delivery_does_nothing_after_the_first_ended_well(world: World) -> None:
    world.begin(execution_id="e1")
    job_id = world.enqueue()
    world.later(3600)
    assert world.begin(execution_id="e1").step.duplicate
    assert world.job(job_id)["attempts"] == 0


def test_a_second_delivery_works_after_the_first_was_killed(world: World) -> None:
    job_id = world.enqueue()
    world.begin(execution_id="e1")
    world.later(130)
    second = world.begin(execution_id="e1")
    assert not second.step.duplicate
    assert [(job.id, job.interrupted) for job in second.jobs] == [(job_id, True)]


def test_a_second_delivery_that_did_nothing_does_not_stop_the_third_for_ever(world: World) -> None:
    world.enqueue()
    world.begin(limit=1, execution_id="e1")
    assert world.begin(execution_id="e1").step.duplicate
    world.later(131)
    assert not world.begin(execution_id="e1").step.duplicate


def test_a_begin_repeated_with_its_key_is_no_second_delivery(world: World) -> None:
    world.enqueue()
    first = world.begin(execution_id="e1")
    again = world.begin(execution_id="e1", key=first.key)
    assert (again.step.duplicate, again.jobs) == (False, first.jobs)


def test_a_second_delivery_whose_begin_is_repeated_still_does_nothing(world: World) -> None:
    each(world.enqueue, 2)
    world.begin(limit=1, execution_id="e1")
    second = world.begin(limit=1, execution_id="e1", key=OTHER_KEY)
    again = world.begin(limit=1, execution_id="e1", key=OTHER_KEY)
    assert second.step.duplicate
    assert (again.step.duplicate, again.jobs, again.step.stopped_because) == (True, [], "duplicate")


def test_a_begin_that_is_repeated_after_it_ended_tells_the_same_and_claims_nothing(world: World) -> None:
    first = world.begin()
    world.enqueue()
    again = world.begin(key=first.key)
    assert (again.id, again.jobs, again.step.stopped_because) == (first.id, [], "drained")


def test_another_execution_is_another_tick(world: World) -> None:
    each(world.enqueue, 2)
    world.begin(limit=1, execution_id="e1")
    assert len(world.begin(limit=1, execution_id="e2").jobs) == 1
    assert len(world.begin(limit=1).jobs) == 0
