"""Limits of whole stages in SQL: lock first, then count; and longer leases."""

import threading
import time
from typing import Any

import psycopg
import pytest

from tests.support.factory import World

Refusal = psycopg.errors.Error


def test_claim_waits_for_a_claim_that_may_take_the_last_place(database_url: str) -> None:
    """Two connections: the second counts only when the first has committed what it took."""
    with psycopg.connect(database_url, autocommit=True) as one, psycopg.connect(database_url, autocommit=True) as two:
        first, second = World(one, now=None), World(two, now=None)
        for _ in range(4):
            first.enqueue("payment")
        got: list[int] = []
        with one.transaction():
            assert len(first.claim(10, limits={"payment": 2})) == 2
            thread = threading.Thread(target=lambda: got.append(len(second.claim(10, limits={"payment": 2}))))
            thread.start()
            with psycopg.connect(database_url, autocommit=True) as look:
                waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
                for _ in range(500):
                    row = look.execute(waiting).fetchone()
                    if row and row[0]:
                        break
                    time.sleep(0.01)
                else:
                    raise AssertionError("the second claim did not wait")
        thread.join(10)
        assert got == [0]


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


def test_heartbeat_makes_the_lease_longer_and_never_shorter(world: World) -> None:
    job = world.claimed("payment")
    before = world.job(job.id)["lease_expires_at"]
    world.call("heartbeat", job_id=job.id, lease_id=job.lease_id, seconds=10)
    assert world.job(job.id)["lease_expires_at"] == before
    world.call("heartbeat", job_id=job.id, lease_id=job.lease_id, seconds=600)
    assert world.from_now(world.job(job.id)["lease_expires_at"]) == 610


def test_heartbeat_tells_of_a_wish_to_cancel(world: World) -> None:
    job = world.claimed("payment")
    ask: dict[str, Any] = {"job_id": job.id, "lease_id": job.lease_id, "seconds": 60}
    assert world.call("heartbeat", **ask) == {"cancel_requested": False}
    world.call("cancel", job_id=job.id)
    assert world.call("heartbeat", **ask) == {"cancel_requested": True}


@pytest.mark.parametrize(("seconds", "state"), [(0, "GC400"), (-1, "GC400"), (1e9, "GC400"), (None, "GC400")])
def test_heartbeat_of_no_length_is_refused(world: World, seconds: Any, state: str) -> None:
    job = world.claimed("payment")
    with pytest.raises(Refusal) as caught:
        world.call("heartbeat", job_id=job.id, lease_id=job.lease_id, seconds=seconds)
    assert caught.value.sqlstate == state


def test_heartbeat_of_a_lease_that_is_not_the_jobs_is_refused(world: World) -> None:
    job = world.claimed("payment")
    world.run("update giftcard_jobs set status = 'queued' where id = %s", job.id)
    with pytest.raises(Refusal) as caught:
        world.call("heartbeat", job_id=job.id, lease_id=job.lease_id, seconds=60)
    assert caught.value.sqlstate == "GC410"
