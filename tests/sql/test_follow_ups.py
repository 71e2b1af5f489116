"""Follow-ups that cannot be enqueued at the end: refused as their batch is created, kept with a reason, or erased."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete
from tests.support.batches import create, follow_ups, ids, jobs, shown
from tests.support.factory import World


@pytest.mark.parametrize(
    ("follow_up", "sqlstate"),
    [
        ({"stage": "webhook"}, "GC400"),
        ({"stage": "email", "scheduled_at": "soon"}, "GC400"),
        ({"stage": "email", "concurrency_key": "a\tb"}, "GC400"),
        ({"stage": "email", "correlation_id": "member-0"}, "GC409"),
    ],
)
def test_one_that_the_end_would_refuse_is_refused_at_once(
    world: World, follow_up: dict[str, Any], sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        create(world, follow_up=follow_up)
    assert refused.value.sqlstate == sqlstate
    assert world.rows("select * from giftcard_batches") == world.rows("select * from giftcard_jobs") == []


def test_one_that_another_batch_has_enqueued_meanwhile_is_not_taken_for_its_own(world: World) -> None:
    first, second = (create(world, jobs=jobs(1, dedup_key=key)) for key in "ab")
    for batch in (first, second):
        world.settle(world.claim_one(ids(batch)[0]), Complete())
    (follow_up,) = follow_ups(world)
    assert follow_up["id"] == first["id"]
    stuck = shown(world, second)
    assert (stuck["state"], stuck["follow_up_job_id"]) == ("running", None)
    assert f"it exists already: it is job {shown(world, first)['follow_up_job_id']}" in stuck["error"]
    world.run("update giftcard_batches set follow_up = %s where id = %s", '{"stage": "payment"}', second["id"])
    assert world.call("end_quiet_batches") == 1
    assert (shown(world, second)["error"], shown(world, second)["state"]) == (None, "ended")


def test_those_that_are_refused_hide_no_other_batch_from_the_ticks(world: World) -> None:
    first, second = (create(world, jobs=jobs(1, dedup_key=key)) for key in "ab")
    for batch in (first, second):
        world.settle(world.claim_one(ids(batch)[0]), Complete())
    quiet = create(world, jobs=jobs(1, dedup_key="c"), follow_up={"stage": "payment", "correlation_id": "its own"})
    world.run("delete from giftcard_jobs where batch_id = %s", quiet["id"])
    assert shown(world, second)["error"]
    assert world.call("end_quiet_batches", limit=1) == 1
    assert (shown(world, quiet)["state"], shown(world, second)["state"]) == ("ended", "running")


@pytest.mark.parametrize("flow", [{"correlation_id": "order-1"}, {}])
def test_erasing_a_customer_erases_the_follow_ups_of_their_flows(world: World, flow: dict[str, str]) -> None:
    kate = {"external_id": "CUST-1520", "given_name": "Kate", "family_name": "Rodgers", "email": "kate@example.com"}
    saved = world.call("save_customer", tenant_id="default", **kate)
    world.enqueue("customer_ingest", correlation_id="order-1", payload={"customer": kate})
    hers = create(world, follow_up={"stage": "payment", "payload": {"customer": kate}} | flow)
    other = create(world, jobs=jobs(1, dedup_key="other"))
    world.call("erase_customer", customer_id=saved["id"])
    assert "kate" not in str(world.rows("select follow_up from giftcard_batches"))
    for batch in (hers, other):
        for job_id in ids(batch):
            world.settle(world.claim_one(job_id), Complete())
    assert (shown(world, hers)["state"], shown(world, hers)["follow_up_job_id"]) == ("ended", None)
    assert shown(world, other)["follow_up_job_id"]
