"""A step and others at once: in which order it locks, and what it sees of changes while it waited."""

import pytest

from lib.job import Call, Complete
from lib.store.codec import Result
from lib.store.encode import encode_completed, encode_result
from tests.support.batches import create
from tests.support.batches import ids as jobs_of
from tests.support.factory import Row, Tick, World, done, each, ids
from tests.support.race import Race

KEY = "00000000-0000-4000-8000-000000000001"


def step(world: World, tick: Tick, *results: Result, limit: int = 0) -> Row:
    completed = encode_completed(list(results))
    assert completed
    answer: Row = world.call("step", tick_id=tick.id, claim_key=KEY, **completed, limit=limit, busy=1)
    return answer


@pytest.mark.parametrize("turned", [False, True])
def test_jobs_are_locked_by_id_whatever_the_order_of_results(world: World, race: Race, turned: bool) -> None:
    each(world.enqueue, 2)
    tick = world.begin(limit=2)
    one, other = sorted(ids(tick.jobs))
    results = [done(job) for job in sorted(tick.jobs, key=lambda job: job.id, reverse=turned)]
    race.first.run("select from giftcard_jobs where id = %s for update", other)
    waiting = race.second_waits(lambda w: step(w, tick, *results))
    free = world.rows("select id from giftcard_jobs where id = %s for update skip locked", one)
    race.commit()
    assert free == []
    assert waiting.result()["settled"] is None
    assert tick.row["completed"] == 2


def test_a_settle_with_a_call_locks_the_tick_before_the_batch(world: World, race: Race) -> None:
    """As a step does: else each could hold what the other needs."""
    world.run("create function shop_ok(p jsonb) returns void language sql as ''")
    world.run("insert into giftcard_settle_functions values ('shop_ok')")
    batch = create(world, 1)
    tick = world.begin(limit=1, key=KEY)
    assert ids(tick.jobs) == jobs_of(batch)
    result = encode_result(Result(job=tick.jobs[0], outcome=Complete(then=Call("shop_ok", {}))))
    race.first.run("select from giftcard_ticks where id = %s for update", tick.id)
    waiting = race.second_waits(lambda w: w.call("settle_with_call", tick_id=tick.id, result=result))
    free = world.rows("select id from giftcard_batches for update skip locked")
    race.commit()
    assert [row["id"] for row in free] == [batch["id"]]
    assert [settled["settled"] for settled in waiting.result()["settled"]] == ["settled"]
    assert tick.row["completed"] == 1


@pytest.mark.parametrize(
    ("change", "starts"),
    [
        ("insert into giftcard_stages (stage, paused_at) values ('*', now())", 0),
        ("insert into giftcard_stages (stage, paused_at) values ('email', now())", 0),
        ("insert into giftcard_limits (kind, name, runs) values ('stage', 'email', 1)", 1),
    ],
)
def test_what_changes_while_it_waits_for_its_tick_counts(world: World, race: Race, change: str, starts: int) -> None:
    each(world.enqueue, 10)
    tick = world.begin(limit=3)
    race.first.run("select from giftcard_ticks where id = %s for update", tick.id)
    waiting = race.second_waits(lambda w: step(w, tick, *map(done, tick.jobs), limit=3))
    world.run(change)
    race.commit()
    assert len(waiting.result()["jobs"]) == starts
    assert tick.row["completed"] == 3


def test_the_time_of_what_it_starts_begins_after_its_wait(world: World, race: Race) -> None:
    world.now = None
    each(lambda: world.enqueue(scheduled_at="2026-01-01T00:00:00Z"), 6)
    tick = world.begin(limit=3)
    race.first.run("select from giftcard_ticks where id = %s for update", tick.id)

    def by_the_servers_clock(w: World) -> Row:
        w.now = None
        return step(w, tick, *map(done, tick.jobs), limit=3)

    waiting = race.second_waits(by_the_servers_clock)
    (released,) = world.rows("select clock_timestamp() as at")
    race.commit()
    started = [world.job(job_id)["locked_at"] for job_id, *_ in waiting.result()["jobs"]]
    assert len(started) == 3
    assert min(started) >= released["at"]


def test_of_deleted_jobs_none_counts_as_settled(world: World) -> None:
    each(world.enqueue, 4)
    tick = world.begin(limit=2)
    running = tick.jobs
    world.run("delete from giftcard_jobs where status = 'running'")
    assert tick.advance(*map(done, running), limit=1, busy=1).settled == ()
    assert len(tick.jobs) == 1
    assert tick.row["completed"] == 0


def test_a_pause_of_all_stages_keeps_what_a_step_has_claimed_and_starts_no_more(world: World, race: Race) -> None:
    each(world.enqueue, 3)
    tick = world.begin(limit=2)
    each(lambda: world.enqueue("payment"), 5)
    race.first.run("select from giftcard_jobs where id = %s for update", tick.jobs[0].id)
    waiting = race.second_waits(lambda w: step(w, tick, *map(done, tick.jobs), limit=4))
    world.run("insert into giftcard_stages (stage, paused_at) values ('*', now())")
    race.commit()
    assert [row[3] for row in waiting.result()["jobs"]] == ["email"]
    assert tick.row["started"] == 3


@pytest.mark.parametrize("by_step", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_a_call_that_is_repeated_without_its_results_brings_the_same_leases(
    world: World, race: Race, by_step: bool, again: bool
) -> None:
    """The reply was lost, and the results may be kept for a later call than the next."""
    each(world.enqueue, 8)
    tick = world.begin(limit=2)
    call = {"tick_id": tick.id, "claim_key": KEY, "limit": 2, "busy": 1}
    results = [encode_result(done(job)) for job in tick.jobs]
    if by_step:
        first = step(race.first, tick, *map(done, tick.jobs), limit=2)
    else:
        first = race.first.call("advance_tick", results=results, **call)
    waiting = race.second_waits(lambda w: w.call("advance_tick", results=results if again else [], **call))
    race.commit()
    assert waiting.result()["jobs"] == first["jobs"]
    assert len(world.rows("select from giftcard_jobs where status = 'running'")) == 2
    assert (tick.row["completed"], tick.row["started"]) == (2, 4)
