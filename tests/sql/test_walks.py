"""A scan where many circuits have queued jobs misses nothing, and knows what is next: compared with a plain reading."""

import random
from collections import Counter

import pytest

from tests.support.crowds import PARKED, Queue, block, crowd, drain, fill
from tests.support.factory import STAGES, World, done

NAMES = ("http_call", "issue_card", "email")


def some_queues(chance: random.Random, *, due: float) -> list[Queue]:
    """Circuits in every state; a share of `due` of them has a due job."""
    paused = chance.choice([*NAMES, None, None])
    queues = []
    for n in range(chance.choice([5, 40, 150])):
        stage = chance.choice([*NAMES, PARKED])
        is_due = chance.random() < due
        jobs = [
            (
                -chance.uniform(1, 900) if is_due and chance.random() < 0.5 else chance.uniform(1, 900),
                chance.choice([0, 0, 0, 5, -10]),
            )
            for _ in range(chance.choice([1, 1, 2, 5]))
        ]
        opens_in = chance.choice([None, None, None, chance.uniform(1, 900), -chance.uniform(1, 900)])
        name = stage if n < 4 and stage not in {queue.name for queue in queues} else f"{stage}:{n}"
        queues.append(Queue(name, jobs, opens_in, parked=stage in (paused, PARKED)))
    return queues


@pytest.mark.parametrize("seed", range(12))
def test_all_that_may_start_starts_and_the_next_time_is_right(world: World, seed: int) -> None:
    chance = random.Random(seed)
    queues = some_queues(chance, due=chance.choice([0, 0.1, 1]))
    fill(world, queues)
    due = {f"{q.name}-{n}" for q in queues if q.ready for n, (at, _) in enumerate(q.jobs) if at <= 0}
    limit = chance.choice([1, 3, 10])
    ran = drain(world, limit=limit, most=2 * len(due) + 5)
    assert Counter(job.correlation_id for job in ran) == Counter(due)
    step = world.begin(limit=limit).step
    for queue in queues:
        queue.jobs = [(at, priority) for at, priority in queue.jobs if not (queue.ready and at <= 0)]
        # A probe that succeeded closed it; one without a due job still waits for its probe.
    starts = [at for queue in queues if (at := queue.starts_in()) is not None]
    assert (step.next_due_in is None) == (starts == [])
    if starts:
        assert step.next_due_in == pytest.approx(min(starts), abs=1e-3)


@pytest.mark.parametrize("ready", ["http_call:00150b", "http_call", "email:a"])
@pytest.mark.parametrize("age", [9999, 60, 5, 1])
def test_many_blocked_circuits_hide_no_ready_one(world: World, ready: str, age: float) -> None:
    crowd(world, 300, jobs=2)
    fill(world, [Queue(ready, [(-age, 0)] * 3)])
    block(world, but=ready)
    assert {job.circuit for job in world.begin(limit=2).jobs} == {ready}


def test_what_was_found_far_round_is_looked_at_first(world: World) -> None:
    """The ready one is neither the oldest nor the newest, nor close behind the last scan."""
    crowd(world, 300, due_in=-99)
    crowd(world, 300, stage="issue_card", due_in=-9)
    fill(world, [Queue("http_call:00200b", [(-50, 0)] * 30)])
    block(world, but="http_call:00200b")
    tick = world.begin(limit=5)
    ran = list(tick.jobs)
    for _ in range(5):
        (place,) = world.rows("select tenant_id from giftcard_turns where circuit like '%% far'")
        assert place["tenant_id"] == "http_call:00200b"
        ran += tick.advance(*map(done, tick.jobs), limit=5).jobs
    assert len(ran) == 30
    assert tick.advance(*map(done, tick.jobs), limit=5).next_due_in == 3600


def test_many_circuits_of_a_parked_stage_hide_no_ready_one(world: World) -> None:
    crowd(world, 300, jobs=2)
    fill(world, [Queue("http_call-2", [(-1, 0)]), Queue("issue_card:1", [(-1, 0)])])
    world.call("pause", stage="http_call", by="kate")
    tick = world.begin(stages=STAGES | {"http_call-2": 60})
    assert sorted(job.circuit for job in tick.jobs) == ["http_call-2", "issue_card:1"]


def test_a_stage_by_hand_with_a_colon_hides_no_circuit(world: World) -> None:
    crowd(world, 60, due_in=3600)
    world.run("insert into giftcard_jobs (correlation_id, stage, circuit) values ('x', 'email:x', 'email:x:1')")
    fill(world, [Queue("email:x:2", [(-1, 0)])])
    assert [job.circuit for job in world.begin().jobs] == ["email:x:2"]


def test_many_circuits_whose_limit_is_used_up_hide_no_other(world: World) -> None:
    crowd(world, 100, jobs=2)
    fill(world, [Queue("issue_card:1", [(-1, 0)])])
    world.run("insert into giftcard_limits (kind, name, runs) values ('stage', 'http_call', 0)")
    assert [job.circuit for job in world.begin(limit=2).jobs] == ["issue_card:1"]


def test_a_tick_of_one_job_finds_it_among_many_circuits(world: World) -> None:
    crowd(world, 60, due_in=3600)
    (row,) = world.rows("select id from giftcard_jobs where circuit = 'http_call:00044'")
    assert [job.id for job in world.begin(only_job_id=row["id"]).jobs] == [row["id"]]


def test_a_tick_without_room_knows_whether_something_is_due(world: World) -> None:
    crowd(world, 60, due_in=50)
    tick = world.begin(limit=0)
    assert tick.step.next_due_in == 50
    crowd(world, 60, stage="issue_card")
    later = world.begin(limit=0).step.next_due_in
    assert later is not None
    assert later <= 0


def test_a_claim_that_stops_early_has_more_to_do_at_once(world: World) -> None:
    crowd(world, 300, jobs=2)
    fill(world, [Queue("email", [(-9, 0)])])
    block(world, but="email")
    step = world.begin(limit=5).step
    assert len(step.jobs) == 1
    assert step.next_due_in == 0.1
