"""Heartbeats: longer leases."""

from typing import Any

import psycopg
import pytest

from tests.support.factory import World

Refusal = psycopg.errors.Error


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
