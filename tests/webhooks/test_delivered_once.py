"""One fact, one event: in one transaction, however often its job runs and whoever else has it."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error
from tests.support.factory import World, done
from tests.support.webhook_rows import a_card, body, endpoint, told


@pytest.fixture
def world(connection: psycopg.Connection[Any]) -> World:
    return World(connection)


def test_failed_gift_card_can_be_issued_after_its_revival(world: World) -> None:
    endpoint(world, "giftcard.failed", "giftcard.issued")
    a_card(world, "order-1")
    dead = world.dead_letter("issue_card", correlation_id="order-1", revive=60)
    world.later(61)
    (job,) = [job for job in world.claim(10) if job.id == dead]
    world.settle(job, Error(error="TransientError: still no", revive=60))
    world.later(61)
    (job,) = [job for job in world.claim(10) if job.id == dead]
    world.settle(job, Complete())
    assert [event for event, _ in told(world)] == ["giftcard.failed", "giftcard.failed", "giftcard.issued"]
    ids = world.rows("select distinct payload ->> 'event_id' from giftcard_jobs where stage = 'webhook'")
    assert len(ids) == 3


def test_card_is_issued_and_delivered_once_however_often_its_jobs_run(world: World) -> None:
    endpoint(world, "giftcard.issued", "giftcard.delivered")
    a_card(world, "order-1")
    for stage in ("issue_card", "email"):
        job_id = world.completed(stage, correlation_id="order-1")
        world.call("requeue", job_id=job_id, force=True)
        world.settle(world.claim_one(job_id), Complete())
    assert [event for event, _ in told(world)] == ["giftcard.issued", "giftcard.delivered"]
    for event in ("giftcard.issued", "giftcard.delivered"):
        assert body(world, event)["data"] == {
            "tenant_id": "default", "correlation_id": "order-1", "card_id": 1, "last4": "4242", "amount": 2500,
            "currency": "USD",
        }  # fmt: skip


def test_a_second_job_of_an_order_issues_and_delivers_no_second_card(world: World) -> None:
    endpoint(world, "giftcard.issued", "giftcard.delivered")
    a_card(world, "order-1")
    for stage in ("issue_card", "email"):
        for key in ("", "again"):
            world.completed(stage, correlation_id="order-1", dedup_key=key)
    assert [event for event, _ in told(world)] == ["giftcard.issued", "giftcard.delivered"]


def test_job_that_a_person_runs_again_is_told_again_under_another_id(world: World) -> None:
    endpoint(world, "job.completed")
    job_id = world.completed("report")
    world.call("requeue", job_id=job_id, force=True)
    world.settle(world.claim_one(job_id), Complete())
    keys = world.rows("select distinct dedup_key from giftcard_jobs where stage = 'webhook'")
    assert len(keys) == 2


def test_no_event_without_its_fact_and_no_fact_without_its_event(database_url: str) -> None:
    with psycopg.connect(database_url) as open_one, psycopg.connect(database_url, autocommit=True) as other:
        settling, looking = World(open_one), World(other)
        endpoint(looking)
        job = looking.claimed("report")
        settling.settle(job, Complete())
        assert (looking.job(job.id)["status"], told(looking)) == ("running", [])
        open_one.rollback()
        assert (looking.job(job.id)["status"], told(looking)) == ("running", [])
        settling.settle(job, Complete())
        open_one.commit()
        assert (looking.job(job.id)["status"], len(told(looking))) == ("completed", 1)
        # And where the telling fails, the fact does not come about.
        looking.run("alter table giftcard_jobs add constraint no_webhooks check (stage <> 'webhook') not valid")
        job = looking.claimed("report")
        with pytest.raises(psycopg.errors.CheckViolation):
            settling.settle(job, Complete())
        open_one.rollback()
        assert looking.job(job.id)["status"] == "running"


def test_lost_lease_is_not_told_and_a_repeated_settle_tells_nothing_more(world: World) -> None:
    endpoint(world)
    job = world.claimed()
    world.by_hand(job.id)
    assert world.settle(job, Complete())["settled"] == "lease_lost"
    assert told(world) == []
    again = world.claim_one(job.id)
    for _ in range(2):
        assert world.settle(again, Complete())["settled"] == "settled"
    assert len(told(world)) == 1


def test_many_jobs_of_one_settle_are_told_to_all_endpoints(world: World) -> None:
    for _ in range(3):
        endpoint(world, "job.completed")
    world.call("enqueue", jobs=[{"stage": "email", "correlation_id": f"flow-{n}"} for n in range(500)])
    world.settle_all(*map(done, world.claim(500)))
    assert len(told(world)) == 1500


def test_webhook_carries_the_trace_of_its_flow_and_nothing_else_of_its_context(world: World) -> None:
    endpoint(world)
    world.completed("report", context={"trace": {"sentry-trace": "abc"}, "secret": "no"})
    world.completed("report")
    contexts = [
        row["context"] for row in world.rows("select context from giftcard_jobs where stage = 'webhook' order by id")
    ]
    assert contexts == [{"trace": {"sentry-trace": "abc"}}, {}]
