"""A scan where many circuits have queued jobs: it walks in a circle, misses nothing and lets each have its turn."""

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from lib.job import Job
from tests.support.factory import STAGES, World, done

NAMES = ("http_call", "issue_card", "email")
PARKED = "unknown_here"


@dataclass
class Queue:
    """A circuit, its state and the times of its jobs, in seconds from now; each with a priority."""

    name: str
    jobs: list[tuple[float, int]]
    opens_in: float | None = None  # None: closed
    parked: bool = False
    stage: str = field(init=False)

    def __post_init__(self) -> None:
        self.stage = self.name.split(":")[0]

    @property
    def ready(self) -> bool:
        return not self.parked and (self.opens_in is None or self.opens_in <= 0)

    def starts_in(self) -> float | None:
        """Return the seconds until one of its jobs may start; None: that is not known."""
        if self.parked or not self.jobs:
            return None
        return max(min(at for at, _ in self.jobs), self.opens_in or -1e9)


def fill(world: World, queues: list[Queue]) -> None:
    now = world.now
    assert now
    rows = [
        {"stage": queue.stage, "circuit": queue.name, "flow": f"{queue.name}-{n}", "priority": priority, "at": str(now + timedelta(seconds=at))}
        for queue in queues
        for n, (at, priority) in enumerate(queue.jobs)
    ]
    world.run(
        "insert into giftcard_jobs (stage, circuit, correlation_id, priority, scheduled_at)"
        " select r.stage, r.circuit, r.flow, r.priority, r.at from jsonb_to_recordset(%s)"
        " as r(stage text, circuit text, flow text, priority smallint, at timestamptz)",
        Jsonb(rows),
    )  # fmt: skip
    for queue in queues:
        if queue.opens_in is not None:
            world.run(
                "insert into giftcard_circuits (circuit, state, changed_at, open_until) values (%s, 'open', %s, %s)",
                queue.name, now - timedelta(hours=1), now + timedelta(seconds=queue.opens_in),
            )  # fmt: skip
        if queue.parked and queue.stage != PARKED:
            world.run(
                "insert into giftcard_stages (stage, paused_at) values (%s, %s) on conflict do nothing", queue.stage, now
            )


def some_queues(chance: random.Random, *, due: float) -> list[Queue]:
    """Circuits in every state; a share of `due` of them has a due job."""
    paused = chance.choice([*NAMES, None, None])
    queues = []
    for n in range(chance.choice([5, 40, 150])):
        stage = chance.choice([*NAMES, PARKED])
        is_due = chance.random() < due
        jobs = [
            (-chance.uniform(1, 900) if is_due and chance.random() < 0.5 else chance.uniform(1, 900), chance.choice([0, 0, 0, 5, -10]))
            for _ in range(chance.choice([1, 1, 2, 5]))
        ]
        opens_in = chance.choice([None, None, None, chance.uniform(1, 900), -chance.uniform(1, 900)])
        name = stage if n < 4 and stage not in {queue.name for queue in queues} else f"{stage}:{n}"
        queues.append(Queue(name, jobs, opens_in, parked=stage in (paused, PARKED)))
    return queues


def drain(world: World, *, limit: int, most: int) -> list[Job]:
    """Run ticks until one finds nothing; at most this many claims."""
    ran: list[Job] = []
    tick = world.begin(limit=limit)
    for _ in range(most):
        if not tick.jobs:
            return ran
        ran += tick.jobs
        tick.advance(*map(done, tick.jobs), limit=limit, busy=0)
        if not tick.jobs:
            tick = world.begin(limit=limit)
    raise AssertionError(f"there is more after {most} claims")


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


def crowd(world: World, count: int, *, jobs: int = 1, stage: str = "http_call", due_in: float = -60) -> None:
    """Queue jobs of many circuits of a stage."""
    fill(world, [Queue(f"{stage}:{n:05}", [(due_in, 0)] * jobs) for n in range(count)])


def block(world: World, *, but: str = "") -> None:
    world.run(
        "insert into giftcard_circuits (circuit, state, changed_at, open_until)"
        " select distinct circuit, 'open', %s::timestamptz, %s::timestamptz + interval '1 hour' from giftcard_jobs"
        "  where circuit <> %s",
        world.now, world.now, but,
    )  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 3, 10])
def test_each_circuit_has_its_turn_once_in_a_circle(world: World, at_once: int) -> None:
    crowd(world, 60, jobs=20)
    fill(world, [Queue("email", [(-900, 0)] * 300)])
    tick = world.begin(limit=at_once)
    served = Counter(job.circuit for job in tick.jobs)
    for _ in range(3 * 61 // at_once):
        served.update(job.circuit for job in tick.advance(*map(done, tick.jobs), limit=at_once).jobs)
    assert len(served) == 61
    assert set(served.values()) <= {3, 4}


@pytest.mark.parametrize("at_once", [1, 10])
def test_ticks_that_end_at_their_limit_go_on_where_the_last_one_stopped(world: World, at_once: int) -> None:
    crowd(world, 60, jobs=5)
    served: Counter[str] = Counter()
    for _ in range(60 // at_once):
        tick = world.begin(limit=at_once)
        served.update(job.circuit for job in tick.jobs)
        tick.advance(*map(done, tick.jobs), stop="limit")
        world.later(60)
    assert set(served.values()) == {1}
    assert len(served) == 60


def test_a_whale_hides_no_circuit_behind_many_that_are_not_due(world: World) -> None:
    crowd(world, 300, due_in=3600)
    fill(world, [Queue("http_call:00100b", [(-900, 0)] * 500), Queue("http_call:00299b", [(-1, 0)])])
    tick = world.begin(limit=2)
    served = [job.circuit for job in tick.jobs]
    for _ in range(15):
        served += [job.circuit for job in tick.advance(*map(done, tick.jobs), limit=2).jobs]
    assert "http_call:00299b" in served
    assert served.count("http_call:00100b") > 10


@pytest.mark.parametrize("ready", ["http_call:00150b", "http_call", "email:a"])
@pytest.mark.parametrize("age", [9999, 60, 1])
def test_many_blocked_circuits_hide_no_ready_one(world: World, ready: str, age: float) -> None:
    crowd(world, 300, jobs=2)
    fill(world, [Queue(ready, [(-age, 0)] * 3)])
    block(world, but=ready)
    assert {job.circuit for job in world.begin(limit=2).jobs} == {ready}


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


def test_lower_priorities_and_other_tenants_have_their_share(world: World) -> None:
    crowd(world, 40, jobs=50)
    fill(world, [Queue("email:1", [(-60, 10)] * 50 + [(-60, 0)])])
    world.run("update giftcard_jobs set tenant_id = 'small' where correlation_id = 'http_call:00007-49'")
    tick = world.begin(limit=4)
    low = set()
    for _ in range(11 * 41 // 4):
        low |= {job.correlation_id for job in tick.advance(*map(done, tick.jobs), limit=4).jobs}
    assert {"email:1-50", "http_call:00007-49"} <= low


def test_a_tick_of_one_stage_goes_round_in_its_stage(world: World) -> None:
    crowd(world, 50)
    crowd(world, 50, stage="issue_card")
    ran = {job.circuit for _ in range(10) for job in world.begin(limit=5, only_stage="issue_card").jobs}
    assert ran == {f"issue_card:{n:05}" for n in range(50)}
    assert len(drain(world, limit=10, most=10)) == 50


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


def test_what_a_tick_keeps_of_many_circuits_stays_small(world: World) -> None:
    crowd(world, 200)
    tick = world.begin(limit=10)
    for _ in range(10):
        tick.advance(*map(done, tick.jobs), limit=10)
    row = tick.row
    assert len(row["served"]) == 10
    assert row["cursors"] in ([], "{}")
    assert len(world.rows("select * from giftcard_turns")) == 1


def test_a_claim_waits_for_no_walk_of_another(world: World, database_url: str) -> None:
    crowd(world, 60)
    drain(world, limit=60, most=3)
    crowd(world, 60, stage="issue_card")
    world.begin(limit=5)
    world.connection.commit()
    with psycopg.connect(database_url) as other, psycopg.connect(database_url) as third:
        first = World(other, now=world.now).begin(limit=5)
        third.execute("set statement_timeout = '5s'")
        second = World(third, now=world.now).begin(limit=5)
    assert len({job.id for job in first.jobs + second.jobs}) == 10
