"""Limits, slots, rates and ticks as a hand may leave them: none stops more than itself."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.factory import World, done

OF_EMAIL = [("stage", "email", ""), ("circuit", "email", ""), ("tenant", "email", "*"), ("key", "kate", "default")]


def limit(world: World, kind: str, name: str, tenant_id: str = "", **values: Any) -> None:
    """Set a limit by plain SQL."""
    columns = ", ".join(["kind", "name", "tenant_id", *values])
    places = ", ".join(["%s"] * (3 + len(values)))
    world.run(f"insert into giftcard_limits ({columns}) values ({places})", kind, name, tenant_id, *values.values())


@pytest.mark.parametrize("per_second", [5e-324, 1e-300, 1e-9, "NaN", "Infinity"])
def test_a_rate_that_no_calendar_holds_is_refused(world: World, per_second: Any) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        limit(world, "stage", "email", per_second=per_second)


@pytest.mark.parametrize("key", OF_EMAIL)
@pytest.mark.parametrize("per_second", [0.0001, 10_000])
def test_the_slowest_and_the_fastest_rate_hold_up_no_other_stage(
    world: World, key: tuple[str, str, str], per_second: float
) -> None:
    limit(world, *key, per_second=per_second, burst=100_000)
    for _ in range(3):
        world.enqueue(concurrency_key="kate")
        world.enqueue("payment")
        assert "payment" in [job.stage for job in world.claim(10)]
        world.later(1)


BROUGHT = [
    [], 7, "x", {"email": "x"}, {"email": [1]}, {"email": {"runs": "x"}}, {"email": {"runs": 1e300}},
    {"email": {"per_second": 0}}, {"email": {"per_second": 1e-300}}, {"email": {"per_second": "x"}},
    {"email": {"per_second": 1, "burst": "x"}}, {"email": {"per_second": 2.7e-10, "burst": 100_000}},
]  # fmt: skip


@pytest.mark.parametrize("limits", BROUGHT, ids=str)
def test_limits_that_a_tick_brings_are_taken_within_bounds(world: World, limits: Any) -> None:
    world.enqueue()
    world.enqueue("payment")
    tick = world.begin(limit=0, linger_seconds=30)
    world.run("update giftcard_ticks set limits = %s", Jsonb(limits))
    assert "payment" in [job.stage for job in tick.advance(limit=5).jobs]
    job_id = world.enqueue()
    assert world.rows(
        "select giftcard_waiting_for(j, null, null, %s) from giftcard_jobs j where id = %s", world.now, job_id
    )


def test_a_number_is_a_limit_of_runs_and_a_burst_is_at_least_one(world: World) -> None:
    brought = {"a": 2, "b": {"per_second": 3, "burst": 0.5}, "c": {"burst": 5}}
    effective = world.call("effective_limits", defaults=brought)
    assert effective == {"stage a": {"runs": 2}, "stage b": {"per_second": 3, "burst": 1}, "stage c": {}}


@pytest.mark.parametrize("key", [*OF_EMAIL, ("tenant", "email", "default")])
def test_a_tick_does_not_wait_for_what_a_limit_of_0_holds(world: World, key: tuple[str, str, str]) -> None:
    """Nothing but a person's act lets it start: a tick that scans each second, and wakes the next one, is in vain."""
    world.enqueue(concurrency_key="kate")
    limit(world, *key, runs=0)
    tick = world.begin(linger_seconds=30)
    assert (tick.step.next_due_in, tick.step.stopped_because) == (None, "drained")


def test_a_circuit_of_limit_0_in_a_full_stage_is_not_waited_for(world: World) -> None:
    world.claimed("payment")
    world.enqueue("payment", circuit="payment:a")
    limit(world, "stage", "payment", runs=2)
    limit(world, "circuit", "payment:a", runs=0)
    assert world.begin(linger_seconds=30).step.stopped_because == "drained"


def half_open(world: World) -> None:
    """Leave the circuit of emails half-open, with no job."""
    world.open_circuit()
    world.run("delete from giftcard_jobs")
    world.later(61)


@pytest.mark.parametrize("key", [("tenant", "email", "whale"), ("key", "kate", "whale")])
def test_what_a_limit_holds_back_is_no_probe(world: World, key: tuple[str, str, str]) -> None:
    """Else a paused tenant keeps the circuit of all others open."""
    half_open(world)
    for _ in range(60):
        world.enqueue(tenant_id="whale", concurrency_key="kate", delay_seconds=-60)
    probe = world.enqueue()
    limit(world, *key, runs=0)
    assert [job.id for job in world.claim(5)] == [probe]


def test_a_job_of_a_busy_key_is_no_probe(world: World) -> None:
    half_open(world)
    world.claimed("payment", concurrency_key="kate")
    world.enqueue(concurrency_key="kate", delay_seconds=-60)
    probe = world.enqueue()
    assert [job.id for job in world.claim(5)] == [probe]


def test_a_tick_waits_for_the_end_of_a_probe_but_not_of_a_limit_of_0(world: World) -> None:
    half_open(world)
    world.enqueue()
    world.enqueue()
    (probe,) = world.claim(5)
    assert world.begin(linger_seconds=30).step.next_due_in == 1
    world.run("delete from giftcard_jobs where id = %s", probe.id)
    limit(world, "stage", "email", runs=0)
    assert world.begin(linger_seconds=30).step.stopped_because == "drained"


def test_slots_without_a_number_are_no_places(world: World) -> None:
    for _ in range(5):
        world.enqueue()
    limit(world, "stage", "email", runs=2)
    world.run("insert into giftcard_slots (key, n) select 'stage email', n from generate_series(-9, 0) n")
    assert len(world.claim(10)) == 2


def test_a_limit_of_a_tenant_holds_from_the_next_claim_on(world: World) -> None:
    """Also while a tick continues from its cursors."""
    for _ in range(9):
        world.enqueue()
    tick = world.begin(limit=2)
    limit(world, "tenant", "email", "default", runs=0)
    assert tick.advance(*map(done, tick.jobs), limit=2).jobs == ()


def many(world: World, tenants: int, *, due_in: str) -> None:
    """Queue a job of each of so many tenants."""
    world.run(
        "insert into giftcard_jobs (tenant_id, correlation_id, stage, scheduled_at)"
        " select 't-' || n, 'flow-' || n, 'email', %s::timestamptz + %s::interval from generate_series(1, %s) n",
        world.now, due_in, tenants,
    )  # fmt: skip


def test_tenants_with_nothing_due_hide_no_job_where_tenants_have_limits(world: World) -> None:
    many(world, 500, due_in="1 day")
    limit(world, "tenant", "email", "another", runs=1)
    assert world.claim(5, limits={}) == []
    due = world.enqueue(tenant_id="t-250")
    assert [job.id for job in world.claim(5)] == [due]


@pytest.mark.parametrize("wanted", [1, 10])
def test_paused_tenants_hide_no_job_of_another(world: World, wanted: int) -> None:
    many(world, 500, due_in="-1 hour")
    limit(world, "tenant", "email", "*", runs=0)
    limit(world, "tenant", "email", "t-250", runs=1)
    assert [job.tenant_id for job in world.claim(wanted)] == ["t-250"]


@pytest.mark.parametrize("wanted", [1, 10, 100])
def test_keys_whose_rates_are_used_up_hide_no_job_behind_them(world: World, wanted: int) -> None:
    keys = [f"key-{n}" for n in range(150)]
    for key in keys:
        limit(world, "key", key, "default", runs=10, per_second=0.001)
        world.enqueue(concurrency_key=key)
    assert len(world.claim(1000)) == 150
    for key in keys:
        world.enqueue(concurrency_key=key, delay_seconds=-60)
    free = world.enqueue()
    assert [job.id for job in world.claim(wanted)] == [free]


@pytest.mark.parametrize("key", OF_EMAIL)
@pytest.mark.parametrize("full_at", ["infinity", "9999-01-01", "-infinity", "4000-01-01 BC"])
def test_a_rate_of_no_clock_begins_anew(world: World, key: tuple[str, str, str], full_at: str) -> None:
    job_id = world.enqueue(concurrency_key="kate")
    limit(world, *key, per_second=1)
    names = {"key": "key default kate", "tenant": "tenant email default"}
    world.run(
        "insert into giftcard_rates (key, full_at) values (%s, %s)", names.get(key[0], f"{key[0]} email"), full_at
    )
    assert world.rows("select giftcard_waiting_for(j, null, null, %s) from giftcard_jobs j", world.now)
    started = world.claim(5)
    world.later(2)
    assert [job.id for job in started + world.claim(5)] == [job_id]
