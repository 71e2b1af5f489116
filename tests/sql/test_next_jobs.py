"""Completing and enqueueing what follows is one transaction: a flow neither stops between two stages nor forks."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, NextJob, Retry
from tests.support.factory import NOON, World, done


def following(world: World, stage: str = "payment") -> list[dict[str, Any]]:
    return world.rows("select * from giftcard_jobs where stage = %s order by id", stage)


def test_the_next_job_inherits_tenant_flow_context_and_payload(world: World) -> None:
    job = world.claimed(tenant_id="acme", correlation_id="order-7", payload={"n": 1, "message": None}, context={"a": 1})
    world.settle(job, Complete(context={"b": 2}, next=(NextJob(stage="payment"),)))
    (row,) = following(world)
    assert (row["tenant_id"], row["correlation_id"], row["status"]) == ("acme", "order-7", "queued")
    assert (row["payload"], row["context"]) == ({"n": 1, "message": None}, {"a": 1, "b": 2})
    assert (row["attempts"], row["dedup_key"], row["circuit"], row["trigger_type"]) == (0, "", "payment", "flow")
    assert row["scheduled_at"] == world.now


def test_the_next_job_may_bring_its_own_payload_whole(world: World) -> None:
    payload = {"message": None, "lines": [{"note": None, "n": 1}], "deep": {"empty": None}}
    world.settle(world.claimed(payload={"n": 1}), Complete(next=(NextJob(stage="payment", payload=payload),)))
    assert following(world)[0]["payload"] == payload


def test_the_next_job_may_bring_key_circuit_and_time(world: World) -> None:
    later = NOON.replace(hour=18)
    following_job = NextJob(stage="http_call", dedup_key="7", circuit="http_call:7", at=later)
    world.settle(world.claimed(), Complete(next=(following_job,)))
    (row,) = following(world, "http_call")
    assert (row["dedup_key"], row["circuit"], row["scheduled_at"]) == ("7", "http_call:7", later)


def test_a_job_may_have_several_next_jobs(world: World) -> None:
    each = tuple(NextJob(stage="http_call", dedup_key=key) for key in "abc")
    world.settle(world.claimed(), Complete(next=each))
    assert [row["dedup_key"] for row in following(world, "http_call")] == ["a", "b", "c"]


def test_a_dead_letter_may_have_a_next_job_too(world: World) -> None:
    world.settle(world.claimed(), Error(error="no", next=(NextJob(stage="http_call"),)))
    assert len(following(world, "http_call")) == 1


def test_a_settle_repeated_does_not_fork_the_flow(world: World) -> None:
    job = world.claimed()
    outcome = Complete(next=(NextJob(stage="payment"),))
    world.settle(job, outcome)
    before = following(world)
    world.later(1)
    world.settle(job, outcome)
    assert following(world) == before
    assert len(before) == 1


def test_a_job_that_completes_again_does_not_fork_the_flow(world: World) -> None:
    job_id = world.settled(Complete(next=(NextJob(stage="payment"),)))
    before = following(world)
    world.call("requeue", job_id=job_id, force=True)
    world.settle(world.claim_one(job_id), Complete(next=(NextJob(stage="payment", payload={"n": 2}),)))
    assert following(world) == before


@pytest.mark.parametrize("other_run_has", ["not begun", "completed", "failed"])
def test_a_lost_lease_enqueues_nothing(world: World, other_run_has: str) -> None:
    job = world.claimed()
    world.by_hand(job.id)
    if other_run_has != "not begun":
        world.settle(world.claim_one(job.id), Complete() if other_run_has == "completed" else Error(error="no"))
    world.settle(job, Complete(next=(NextJob(stage="payment"),)))
    assert following(world) == []


@pytest.mark.parametrize(
    "bad",
    [
        NextJob(stage=""),
        NextJob(stage="payment", circuit="email"),
        NextJob(stage="payment", payload=[1]),  # type: ignore[arg-type]
    ],
)
def test_a_bad_next_job_takes_the_completion_back(world: World, bad: NextJob) -> None:
    job, neighbour = world.claimed(), world.claimed()
    before = world.snapshot(job.id, neighbour.id)
    good = NextJob(stage="payment")
    with pytest.raises(psycopg.errors.IntegrityError):
        world.settle_all(done(neighbour), done(job, Complete(next=(good, bad))))
    assert world.snapshot(job.id, neighbour.id) == before
    assert following(world) == []
    assert world.settle(job, Error(error="PermanentError: its result cannot be stored"))["settled"] == "settled"
    assert world.settle(neighbour, Complete())["settled"] == "settled"


def test_a_context_that_is_no_object_takes_the_completion_back(world: World) -> None:
    job = world.claimed()
    with pytest.raises(psycopg.errors.CheckViolation):
        world.settle(job, Complete(context=[1]))  # type: ignore[arg-type]
    assert world.job(job.id)["status"] == "running"


def test_a_retry_has_nothing_that_follows(world: World) -> None:
    job = world.claimed()
    wire = {"id": job.id, "lease_id": job.lease_id, "outcome": "retry", "delay": 1, "next": [{"stage": "payment"}]}
    world.call("settle", results=[wire])
    assert following(world) == []
    assert world.settle(job, Retry(delay=1, error="x"))["settled"] == "settled"
