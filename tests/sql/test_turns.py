"""Tenants in turn: half of a claim goes to tenants in turn, half to the oldest jobs."""

from collections import Counter
from typing import Any

import psycopg
import pytest

from lib.job import Job
from tests.support.factory import World, done


def add(world: World, tenant: str, count: int, *, seconds_ago: float = 60, stage: str = "email") -> None:
    """Queue many jobs of a tenant, due since then."""
    world.run(
        "insert into giftcard_jobs (tenant_id, correlation_id, stage, scheduled_at)"
        " select %s, %s || n, %s, %s::timestamptz - make_interval(secs => %s) from generate_series(1, %s) n",
        tenant, f"{tenant}-{stage}-", stage, world.now, seconds_ago, count,
    )  # fmt: skip


def tick(world: World, jobs: int = 10, *, at_once: int = 5, **more: object) -> list[Job]:
    """Run a tick of so many jobs, as a cron call does, and return them in their order."""
    begun = world.begin(limit=at_once, **more)
    ran = list(begun.jobs)
    while len(ran) < jobs and begun.jobs:
        ran += begun.advance(*map(done, begun.jobs), limit=min(at_once, jobs - len(ran))).jobs
    begun.advance(*map(done, begun.jobs), stop="limit")
    world.later(60)
    return ran


def tenants(jobs: list[Job]) -> Counter[str]:
    return Counter(job.tenant_id for job in jobs)


@pytest.mark.parametrize("at_once", [1, 3, 5, 10])
def test_twenty_small_tenants_start_within_four_ticks_of_a_whale(world: World, at_once: int) -> None:
    add(world, "whale", 5_000)
    for n in range(20):
        add(world, f"small-{n:02}", 1, seconds_ago=0)
    ran = [job for _ in range(4) for job in tick(world, at_once=at_once)]
    assert {f"small-{n:02}" for n in range(20)} < tenants(ran).keys()
    assert tenants(ran)["whale"] == 20


def test_half_of_each_tick_goes_to_the_oldest(world: World) -> None:
    add(world, "a", 100, seconds_ago=600)
    add(world, "b", 100)
    ran = [job for _ in range(4) for job in tick(world)]
    assert tenants(ran) == {"a": 30, "b": 10}


def test_with_one_tenant_the_oldest_come_first(world: World) -> None:
    add(world, "a", 30)
    ran = tick(world)
    assert [job.id for job in ran] == sorted(job.id for job in ran)
    assert world.rows("select * from giftcard_turns") == []


def test_where_all_due_jobs_are_wanted_the_oldest_comes_first(world: World) -> None:
    add(world, "z", 2, seconds_ago=9)
    add(world, "a", 2)
    assert [job.tenant_id for job in world.claim(4)] == ["a", "a", "z", "z"]


def test_turns_go_on_from_tick_to_tick_and_begin_anew_behind_the_last(world: World) -> None:
    add(world, "whale", 1_000, seconds_ago=900)
    for name in "abcdefgh":
        add(world, name, 10)
    seen = [job.tenant_id for _ in range(9) for job in tick(world, 4, at_once=2) if job.tenant_id != "whale"]
    assert seen[:8] == list("abcdefgh")
    assert len(seen) > 8
    assert set(seen[8:]) <= set("abcdefgh")


def test_more_tenants_than_a_claim_walks_over_all_have_their_turn(world: World) -> None:
    add(world, "whale", 1_000, seconds_ago=900)
    for n in range(60):
        world.enqueue(tenant_id=f"t-{n:03}")
    ran = [job for _ in range(3) for job in tick(world, 100, at_once=100)]
    assert len([name for name in tenants(ran) if name.startswith("t-")]) == 60


@pytest.mark.parametrize("at_once", [1, 4, 10])
def test_a_tenant_with_a_weight_has_as_many_turns(world: World, at_once: int) -> None:
    add(world, "whale", 2_000, seconds_ago=900)
    for name in ("a", "b", "c"):
        add(world, name, 300)
    ran = [job for _ in range(40) for job in tick(world, at_once=at_once, tenant_weights={"b": 3})]
    counts = tenants(ran)
    assert 2.4 <= counts["b"] / counts["a"] <= 3.6
    assert 0.7 <= counts["c"] / counts["a"] <= 1.4


@pytest.mark.parametrize("weights", [{"a": 0}, {"a": -1}, {"a": 1e30}, {"a": "three"}, {"a": None}, {"nobody": 5}])
def test_a_weight_out_of_range_stops_nothing(world: World, weights: dict[str, Any]) -> None:
    add(world, "a", 30)
    add(world, "b", 30)
    assert len(tick(world, tenant_weights=weights)) == 10


def test_tenants_whose_jobs_are_not_due_have_no_turn(world: World) -> None:
    add(world, "a", 50)
    add(world, "b", 50)
    world.enqueue(tenant_id="later", delay_seconds=3600)
    assert tenants(tick(world)).keys() == {"a", "b"}


def test_a_claim_waits_for_no_other_that_has_the_turn(world: World, database_url: str) -> None:
    add(world, "a", 50)
    add(world, "b", 50)
    tick(world)
    with psycopg.connect(database_url) as other:
        first = World(other, now=world.now).claim(4)
        world.run("set lock_timeout = '2s'")
        second = world.claim(4)
        other.commit()
    assert len({job.id for job in first + second}) == 8
