"""Where many circuits have queued jobs, each has its turn once in a circle, whatever the ticks are."""

from collections import Counter

import psycopg
import pytest

from tests.support.crowds import Queue, crowd, drain, fill
from tests.support.factory import World, done


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


def test_a_claim_that_has_some_jobs_already_passes_over_no_circuit(world: World) -> None:
    fill(world, [Queue("email", [(-60, 0)] * 12)])
    tick = world.begin(limit=10)
    crowd(world, 60, jobs=2)
    served: Counter[str] = Counter()
    for _ in range(7):
        served.update(job.circuit for job in tick.advance(*map(done, tick.jobs), limit=10).jobs)
    assert served["email"] == 2
    assert len(served) == 61


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
