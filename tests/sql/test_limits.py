"""Limits of runs in SQL: slots of stages, circuits, tenants and concurrency keys."""

import uuid
from collections import Counter

import psycopg
import pytest

from lib.job import Complete, Retry
from tests.support.factory import World, each

Refusal = psycopg.errors.Error


def test_claim_leaves_the_last_places_to_a_claim_that_may_take_them(database_url: str) -> None:
    """Two connections: what the first has locked counts as taken until it commits, and the second does not wait."""
    with psycopg.connect(database_url, autocommit=True) as one, psycopg.connect(database_url, autocommit=True) as two:
        first, second = World(one, now=None), World(two, now=None)
        for _ in range(4):
            first.enqueue("payment")
        two.execute("set lock_timeout = '2s'")
        with one.transaction():
            assert len(first.claim(10, limits={"payment": 2})) == 2
            assert second.claim(10, limits={"payment": 2}) == []
        assert second.claim(10, limits={"payment": 2}) == []


def test_claims_of_unlimited_stages_do_not_wait(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as one, psycopg.connect(database_url, autocommit=True) as two:
        first, second = World(one, now=None), World(two, now=None)
        first.enqueue("payment")
        first.enqueue("email")
        with one.transaction():
            assert [job.stage for job in first.claim(1, limits={"payment": 1}, only_stage="payment")] == ["payment"]
            two.execute("set lock_timeout = '2s'")
            assert [job.stage for job in second.claim(10, only_stage="email")] == ["email"]


@pytest.mark.parametrize(("limit", "running", "room"), [(3, 0, 3), (3, 2, 1), (3, 3, 0), (1, 3, 0)])
def test_room_is_what_the_running_leave(world: World, limit: int, running: int, room: int) -> None:
    for _ in range(running):
        world.claimed("payment")
    for _ in range(5):
        world.enqueue("payment")
    assert len(world.claim(10, limits={"payment": limit})) == room


def test_full_stage_is_looked_at_again_in_a_second(world: World) -> None:
    world.claimed("payment")
    world.enqueue("payment")
    tick = world.begin(limits={"payment": 1}, linger_seconds=30)
    assert (len(tick.step.jobs), tick.step.next_due_in, tick.step.stopped_because) == (0, 1, None)


def test_webhook_circuits_of_a_limited_stage_share_its_limit(world: World) -> None:
    for n in range(4):
        world.enqueue("webhook", circuit=f"webhook:{n}")
    assert len(world.claim(10, limits={"webhook": 3})) == 3


# Slots


def test_slot_is_free_once_its_run_has_settled(world: World) -> None:
    each(lambda: world.enqueue("payment"), 3)
    (job,) = world.claim(10, limits={"payment": {"runs": 1}})
    assert world.claim(10, limits={"payment": 1}) == []
    world.settle(job, Complete())
    assert len(world.claim(10, limits={"payment": 1})) == 1


def test_slot_of_a_killed_run_is_free_when_its_lease_ends(world: World) -> None:
    world.enqueue("payment")
    (job,) = world.claim(1, limits={"payment": 1})
    other = world.enqueue("payment")
    world.end_lease(job.id)
    assert [j.id for j in world.claim(10, limits={"payment": 1})] == [job.id, other]


@pytest.mark.parametrize("change", ["status = 'queued'", "status = 'cancelled'", "lease_id = gen_random_uuid()"])
def test_slot_is_free_whatever_an_operator_does_to_its_run(world: World, change: str) -> None:
    world.enqueue("payment")
    (job,) = world.claim(1, limits={"payment": 1})
    world.run(f"update giftcard_jobs set {change} where id = %s", job.id)
    other = world.enqueue("payment", delay_seconds=-60)
    assert other in [j.id for j in world.claim(1, limits={"payment": 1})]


def test_runs_that_began_before_the_limit_count(world: World) -> None:
    for _ in range(3):
        world.claimed("payment")
    each(lambda: world.enqueue("payment"), 3)
    world.run("insert into giftcard_limits (kind, name, runs) values ('stage', 'payment', 4)")
    assert len(world.claim(10)) == 1


def test_limit_that_is_lowered_counts_what_runs_above_it(world: World) -> None:
    each(lambda: world.enqueue("payment"), 9)
    running = world.claim(5, limits={"payment": 5})
    assert world.claim(5, limits={"payment": 2}) == []
    for job in running[:3]:
        world.settle(job, Complete())
    assert world.claim(5, limits={"payment": 2}) == []
    world.settle(running[3], Complete())
    assert len(world.claim(5, limits={"payment": 2})) == 1


def test_limit_that_is_raised_has_its_effect_at_once(world: World) -> None:
    each(lambda: world.enqueue("payment"), 9)
    world.claim(5, limits={"payment": 2})
    world.run("insert into giftcard_limits (kind, name, runs) values ('stage', 'payment', 5)")
    assert len(world.claim(9, limits={"payment": 2})) == 3


@pytest.mark.parametrize("kind", ["stage", "circuit"])
def test_limit_of_0_starts_nothing_until_its_end(world: World, kind: str) -> None:
    world.enqueue("payment")
    world.run("insert into giftcard_limits (kind, name, runs, until) values (%s, 'payment', 0, %s)", kind, world.now)
    world.run("update giftcard_limits set until = until + interval '1 minute'")
    assert world.claim(10) == []
    world.later(61)
    assert len(world.claim(10)) == 1


@pytest.mark.parametrize("tenant", ["whale", "*"])
def test_limit_of_a_tenant_holds_back_no_other(world: World, tenant: str) -> None:
    each(lambda: world.enqueue("payment", tenant_id="whale", delay_seconds=-60), 200)
    world.enqueue("payment", tenant_id="small")
    world.run("insert into giftcard_limits (kind, name, tenant_id, runs) values ('tenant', 'payment', %s, 2)", tenant)
    counts = Counter(job.tenant_id for job in world.claim(10))
    assert counts == {"whale": 2, "small": 1}
    assert world.claim(10) == []


def test_repeated_claim_takes_no_more_slots(world: World) -> None:
    each(lambda: world.enqueue("payment"), 3)
    tick = world.begin(limits={"payment": 2}, limit=1)
    tick.advance(limit=1, busy=1, key=(key := str(uuid.uuid4())))
    (again,) = tick.advance(limit=1, busy=1, key=key).jobs
    taken = world.rows("select job_id from giftcard_slots order by n")
    assert again.id in [row["job_id"] for row in taken]
    assert world.claim(10, limits={"payment": 2}) == []


# Concurrency keys


def test_jobs_of_a_key_run_one_after_another_in_their_order(world: World) -> None:
    mine = each(lambda: world.enqueue(concurrency_key="kate"), 5)
    others = each(world.enqueue, 2)
    (first, *rest) = world.claim(10)
    assert [first.id, *(job.id for job in rest)] == [mine[0], *others]
    assert world.claim(10) == []
    for expected in mine[1:]:
        world.settle(first, Complete())
        (first,) = world.claim(10)
        assert first.id == expected


def test_key_counts_in_all_stages_of_its_tenant_only(world: World) -> None:
    world.claimed("payment", concurrency_key="kate")
    world.enqueue("email", concurrency_key="kate")
    other = world.enqueue("email", concurrency_key="kate", tenant_id="another")
    assert [job.id for job in world.claim(10)] == [other]


def test_one_claim_starts_one_job_of_a_key_from_all_its_circuits(world: World) -> None:
    for circuit in ("email", "payment", "payment:a", "payment:b"):
        world.enqueue(circuit.partition(":")[0], circuit=circuit, concurrency_key="kate")
    assert len(world.claim(10)) == 1


def test_probes_share_a_key_too(world: World) -> None:
    for circuit in ("email", "payment"):
        world.open_circuit(circuit)
        world.run("delete from giftcard_jobs")
        world.enqueue(circuit, concurrency_key="kate", delay_seconds=-60)
    world.later(61)
    assert len(world.claim(10)) == 1


def test_tenants_whose_names_and_keys_read_alike_share_no_key(world: World) -> None:
    world.claim_one(world.enqueue(concurrency_key="b c", tenant_id="a"))
    other = world.enqueue(concurrency_key="c", tenant_id="a b")
    assert [job.id for job in world.claim(10)] == [other]


def test_key_that_is_busy_hides_no_job_behind_it(world: World) -> None:
    each(lambda: world.enqueue(concurrency_key="kate", delay_seconds=-60), 50)
    behind = each(world.enqueue, 3)
    assert [job.id for job in world.claim(4)][1:] == behind


def test_tick_waits_for_a_busy_key(world: World) -> None:
    world.claimed(concurrency_key="kate")
    world.enqueue(concurrency_key="kate")
    tick = world.begin(linger_seconds=30)
    assert (tick.jobs, tick.step.next_due_in, tick.step.stopped_because) == ([], 1, None)


def test_key_may_have_a_limit_of_its_own(world: World) -> None:
    world.run("insert into giftcard_limits (kind, name, tenant_id, runs) values ('key', 'kate', 'default', 3)")
    each(lambda: world.enqueue(concurrency_key="kate"), 5)
    assert len(world.claim(10)) == 3
    world.run("update giftcard_limits set runs = 0")
    world.enqueue(concurrency_key="bob")
    assert [job.stage for job in world.claim(10)] == ["email"]


def test_key_of_a_retry_is_free_meanwhile(world: World) -> None:
    job = world.claimed(concurrency_key="kate")
    other = world.enqueue(concurrency_key="kate")
    world.settle(job, Retry(delay=60, error="no"))
    assert [j.id for j in world.claim(10)] == [other]
