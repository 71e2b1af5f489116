"""Rates: how many jobs of a stage or circuit start in a second, exact in the whole fleet."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Job, Retry
from lib.store.codec import Result
from lib.store.encode import encode_result
from tests.support.factory import World, done, each

RATE = {"payment": {"per_second": 10, "burst": 20}}


def payments(world: World, count: int, **columns: Any) -> None:
    each(lambda: world.enqueue("payment", **columns), count)


def starts(world: World, *, wanted: int = 100, **more: Any) -> int:
    return len(world.claim(wanted, **({"limits": RATE} | more)))


def test_a_burst_starts_at_once_and_then_as_many_as_the_rate_allows(world: World) -> None:
    payments(world, 60)
    assert starts(world) == 20
    assert starts(world) == 0
    world.later(0.1)
    assert starts(world) == 1
    world.later(1)
    assert starts(world) == 10
    world.later(60)
    assert starts(world) == 20


def test_a_claim_without_tokens_returns_when_a_seconds_worth_is_there(world: World) -> None:
    payments(world, 60)
    starts(world)
    tick = world.begin(limits=RATE, linger_seconds=30)
    assert (len(tick.jobs), tick.step.next_due_in, tick.step.stopped_because) == (0, 1.0, None)


@pytest.mark.parametrize(("rate", "seconds"), [({"per_second": 0.1}, 10), ({"per_second": 0.5, "burst": 1}, 2)])
def test_a_slow_rate_waits_for_one(world: World, rate: dict[str, float], seconds: float) -> None:
    payments(world, 3)
    assert starts(world, limits={"payment": rate}) == 1
    tick = world.begin(limits={"payment": rate}, linger_seconds=30)
    assert (len(tick.jobs), round(tick.step.next_due_in or 0, 3)) == (0, seconds)
    world.later(seconds)
    assert starts(world, limits={"payment": rate}) == 1


def test_what_a_claim_does_not_use_stays(world: World) -> None:
    payments(world, 3)
    assert starts(world) == 3
    payments(world, 40)
    assert starts(world) == 17


def test_a_rate_of_a_circuit_is_a_row(world: World) -> None:
    world.run("insert into giftcard_limits (kind, name, per_second, burst) values ('circuit', 'http_call:a', 2, 3)")
    each(lambda: world.enqueue("http_call", circuit="http_call:a"), 9)
    each(lambda: world.enqueue("http_call", circuit="http_call:b"), 9)
    jobs = world.claim(100)
    assert sorted(job.circuit for job in jobs) == ["http_call:a"] * 3 + ["http_call:b"] * 9


def test_stage_and_circuit_both_count(world: World) -> None:
    world.run("insert into giftcard_limits (kind, name, per_second, burst) values ('circuit', 'payment:a', 1, 2)")
    payments(world, 9, circuit="payment:a")
    payments(world, 9, circuit="payment:b")
    assert starts(world, limits={"payment": {"per_second": 1, "burst": 5}}) == 5
    assert world.rows("select count(*) as n from giftcard_jobs where status = 'running' and circuit = 'payment:a'") == [
        {"n": 2}
    ]


def test_other_stages_go_on(world: World) -> None:
    payments(world, 30)
    starts(world)
    world.enqueue("email")
    assert [job.stage for job in world.claim(10, limits=RATE)] == ["email"]


def test_a_row_replaces_the_rate_of_the_settings_until_its_end(world: World) -> None:
    payments(world, 60)
    world.run(
        "insert into giftcard_limits (kind, name, per_second, until) values ('stage', 'payment', 1, %s)", world.now
    )
    world.run("update giftcard_limits set until = until + interval '10 seconds'")
    assert starts(world) == 1
    world.later(11)
    assert starts(world) == 20


@pytest.mark.parametrize("circuit", ["payment", "payment:a"])
def test_retry_after_holds_the_key_for_all(world: World, circuit: str) -> None:
    key = ("circuit", circuit) if ":" in circuit else ("stage", circuit)
    world.run("insert into giftcard_limits (kind, name, per_second, burst) values (%s, %s, 10, 20)", *key)
    payments(world, 30, circuit=circuit)
    tick = world.begin(limit=1)
    held(world, tick.jobs[0], hold=30)
    assert starts(world, limits={}) == 0
    world.later(29)
    assert starts(world, limits={}) == 0
    world.later(1.5)
    assert starts(world, limits={}) == 20


def test_retry_after_of_one_host_holds_no_other(world: World) -> None:
    limits = {"http_call": {"per_second": 10, "burst": 20}}
    each(lambda: world.enqueue("http_call", circuit="http_call:a"), 3)
    (job,) = world.claim(1, limits=limits)
    held(world, job, hold=30)
    world.enqueue("http_call", circuit="http_call:b")
    assert len(world.claim(10, limits=limits)) == 3


def test_hold_without_a_rate_changes_nothing(world: World) -> None:
    payments(world, 3)
    (job,) = world.claim(1)
    held(world, job, hold=30)
    assert world.rows("select * from giftcard_rates") == []
    assert starts(world, limits={}) == 2


def held(world: World, job: Job, *, hold: float) -> None:
    """Settle a run as a failure whose other side asked for a pause."""
    result = encode_result(Result(job=job, outcome=Retry(delay=hold, error="TransientError: 429"))) | {"hold": hold}
    world.call("settle", results=[result])


def test_clock_that_was_set_back_costs_one_burst_at_most(world: World) -> None:
    payments(world, 60)
    starts(world)
    world.later(-3600)
    world.run("update giftcard_jobs set scheduled_at = %s where status = 'queued'", world.now)
    assert starts(world) == 0
    world.later(2)
    assert starts(world) >= 19


def test_three_fleets_hold_a_rate_over_a_minute(database_url: str) -> None:
    """Ten a second within one in each minute, by three claimers with connections of their own and a moved clock."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        setup = World(connection)
        payments(setup, 40)
        setup.run(
            "insert into giftcard_jobs (correlation_id, stage, scheduled_at)"
            " select 'more-' || n, 'payment', %s from generate_series(1, 700) n", setup.now,
        )  # fmt: skip
    started: list[int] = []
    at = threading.Barrier(3)

    def claimer(_: int) -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            world = World(own)
            for _ in range(240):  # a minute, four times a second
                at.wait()
                jobs = list(world.begin(limit=100, limits=RATE, key=str(uuid.uuid4())).jobs)
                started.append(len(jobs))
                if jobs:
                    world.settle_all(*map(done, jobs, [Complete()] * len(jobs)))
                world.later(0.25)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(claimer, range(3)))
    assert 20 + 597 - 10 <= sum(started) <= 20 + 600
