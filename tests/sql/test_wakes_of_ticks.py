"""What a tick does about the next one: it wakes it, plans it, or waits itself."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from lib.store import codec
from lib.store.encode import encode_result
from tests.support.factory import Tick, World, done, each

URL = {"mode": "url", "ticks": 1, "seconds": 50, "limit": 2}


def advance(world: World, tick: Tick, wake: Any, *, claim: int = 0, **more: Any) -> codec.Step:
    """The tick settles all it has."""
    results = [encode_result(done(job)) for job in tick.jobs]
    usual = {"tick_id": tick.id, "claim_key": "00000000-0000-4000-8000-000000000001", "busy": 0, "limit": claim}
    answer = world.call("advance_tick", results=results, wake=wake, **(usual | more))
    return codec.decode_step(answer, lease_id=str(usual["claim_key"]), owner="worker")


def sent(world: World) -> int:
    return int(world.rows("select sent from giftcard_wakes")[0]["sent"])


def test_a_tick_that_leaves_due_jobs_at_its_limit_wakes_the_next(world: World) -> None:
    each(world.enqueue, 3)
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    assert tick.step.wake_in is None
    step = advance(world, tick, URL, stop="limit", linger_seconds=50)
    assert (step.stopped_because, step.wake_in, sent(world)) == ("limit", 0, 1)


def test_less_than_a_second_after_a_wake_it_asks_again(world: World) -> None:
    each(world.enqueue, 3)
    world.call("take_wake")
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    assert advance(world, tick, URL, stop="limit", linger_seconds=50).wake_in == 1
    world.later(1)
    assert world.call("take_wake", catches_up=True)


@pytest.mark.parametrize("stop", ["limit", "budget"])
def test_at_its_limit_or_budget_it_also_asks_for_a_job_that_is_due_soon(world: World, stop: str) -> None:
    each(world.enqueue, 2)
    world.enqueue(delay_seconds=5)
    world.call("take_wake")
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    assert advance(world, tick, URL, stop=stop, linger_seconds=50).wake_in == 1
    world.later(1)
    assert world.call("take_wake", catches_up=True)


def test_a_tick_that_leaves_nothing_wakes_none(world: World) -> None:
    each(world.enqueue, 2)
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    step = advance(world, tick, URL, stop="limit", linger_seconds=50)
    assert (step.stopped_because, step.wake_in, sent(world)) == ("limit", None, 0)


def test_it_asks_again_for_a_job_that_comes_within_the_second_of_a_wake(world: World) -> None:
    each(world.enqueue, 2)
    world.call("take_wake")
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    world.later(0.3)
    assert advance(world, tick, URL, stop="limit", linger_seconds=50).wake_in == 1
    world.enqueue()
    assert not world.call("take_wake"), "less than a second after the wake, the job itself wakes none"
    world.later(1)
    assert world.call("take_wake", catches_up=True)


@pytest.mark.parametrize(("starts", "woken"), [(True, True), (False, False)])
def test_only_a_tick_that_has_started_jobs_wakes_beyond_the_twenty_of_a_minute(
    world: World, starts: bool, woken: bool
) -> None:
    """What one leaves that has started none may be held by others: ticks would wake each other for nothing."""
    if starts:
        world.enqueue()
    tick = world.begin(limit=5, wake=URL | {"limit": 5}, linger_seconds=60)
    world.enqueue()
    world.run("update giftcard_wakes set in_minute = 20, minute = date_trunc('minute', %s::timestamptz)", world.now)
    step = advance(world, tick, URL, stop="budget", linger_seconds=0)
    assert (step.stopped_because, step.wake_in == 0) == ("budget", woken)


def test_a_tick_that_waits_beside_it_is_enough(world: World) -> None:
    each(world.enqueue, 3)
    tick = world.begin(limit=2, wake=URL, linger_seconds=50)
    world.begin(limit=0, wake=URL, linger_seconds=50)
    assert advance(world, tick, URL, stop="limit", linger_seconds=50).wake_in is None


@pytest.mark.parametrize(("ticks", "live", "woken"), [(1, 1, 0), (2, 1, 1), (2, 2, 0), (4, 3, 1)])
def test_a_tick_with_more_than_it_can_take_wakes_helpers_up_to_the_fleets_number(
    world: World, ticks: int, live: int, woken: int
) -> None:
    each(world.enqueue, 20)
    wake = URL | {"ticks": ticks, "limit": 100}
    begun = [world.begin(limit=1, wake=wake | {"ticks": 1}, linger_seconds=50) for _ in range(live)]
    assert sent(world) == 0
    step = advance(world, begun[0], wake, claim=1, linger_seconds=50)
    assert (step.wake_in == 0, sent(world)) == (bool(woken), woken)


def test_without_waking_a_tick_writes_nothing_of_it(world: World) -> None:
    each(world.enqueue, 3)
    tick = world.begin(limit=2, linger_seconds=50)
    assert advance(world, tick, None, stop="limit", linger_seconds=50).wake_in is None
    assert world.rows("select * from giftcard_wakes where sent_at is not null or due_at is not null") == []


@pytest.mark.parametrize(("due_in", "woken"), [(40, True), (59, True), (61, False)])
def test_at_the_end_of_its_budget_a_tick_hands_over_what_is_due_before_the_minute(
    world: World, due_in: float, woken: bool
) -> None:
    world.enqueue()
    tick = world.begin(limit=1, wake=URL, linger_seconds=60)
    world.enqueue(delay_seconds=due_in)
    step = advance(world, tick, URL, stop="budget", linger_seconds=0)
    assert (step.stopped_because, step.wake_in == 0) == ("budget", woken)


def test_a_tick_without_work_stays_until_the_next_job_may_wake_again(world: World) -> None:
    assert world.call("take_wake")
    world.later(0.5)
    tick = world.begin(wake=URL, linger_seconds=50)
    assert tick.step.stopped_because is None
    world.enqueue()  # cannot wake: the last wake is half a second ago
    assert not world.call("take_wake")
    assert len(advance(world, tick, URL, claim=5, linger_seconds=50).jobs) == 1
    world.later(0.5)
    assert world.begin(wake=URL, linger_seconds=50).step.stopped_because == "drained"


def test_a_tick_waits_for_more_where_wakes_are_frequent(world: World) -> None:
    for _ in range(10):
        assert world.begin(wake=URL, linger_seconds=50).step.stopped_because == "drained"
        assert world.call("take_wake")
        world.later(1)
    assert world.begin(wake=URL, linger_seconds=50).step.stopped_because is None
    assert world.begin(wake=URL, linger_seconds=0).step.stopped_because == "drained"
    assert world.begin(linger_seconds=50).step.stopped_because == "drained"
    world.later(60)
    assert world.begin(wake=URL, linger_seconds=50).step.stopped_because == "drained"


def test_a_tick_waits_while_no_other_could_be_woken(world: World) -> None:
    """What is enqueued less than a second after a wake wakes none: it must find the tick that this wake began."""
    assert world.call("take_wake")
    world.later(0.2)
    tick = world.begin(wake=URL, linger_seconds=50, source="wake")
    assert tick.step.stopped_because is None
    job_id = world.enqueue()
    assert not world.call("take_wake")
    world.later(1)
    (job,) = tick.advance(limit=1, wake=URL, linger_seconds=50).jobs
    assert job.id == job_id
    assert advance(world, tick, URL, linger_seconds=50).stopped_because == "drained"


def test_a_fleet_of_a_hundred_ticks_wakes_no_more(world: World) -> None:
    world.enqueue()
    world.run(
        "insert into giftcard_ticks (key, source, owner, started_at, live_until, stages, wake)"
        " select gen_random_uuid(), 'wake', 'worker', %s, %s::timestamptz + interval '2 minutes', '{}', %s"
        " from generate_series(1, 100)",
        world.now, world.now, Jsonb(URL | {"ticks": 100, "limit": 10}),
    )  # fmt: skip
    assert not world.call("take_wake", ticks=100, catches_up=True)
    assert world.call("take_wake", ticks=101, catches_up=True)
