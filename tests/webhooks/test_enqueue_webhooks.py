"""What is told, to whom, and that it is told in the transaction of the fact."""

import json
import re
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from lib.job import Complete, Error, NextJob, Release, Retry, Snooze
from tests.support.books import differences, pay, take
from tests.support.factory import World
from tests.support.webhook_rows import a_card, body, endpoint, told


@pytest.fixture
def world(connection: psycopg.Connection[Any]) -> World:
    return World(connection)


def test_without_endpoints_nothing_is_told(world: World) -> None:
    world.completed()
    world.dead_letter()
    assert told(world) == []


def test_completed_job_is_told_to_each_endpoint_of_its_tenant_that_wants_it(world: World) -> None:
    first, _, second = endpoint(world), endpoint(world, "giftcard.failed"), endpoint(world, "job.completed")
    endpoint(world, tenant_id="another")
    endpoint(world, enabled=False)
    job_id = world.completed("report", correlation_id="flow-1", dedup_key="x")
    assert told(world) == [("job.completed", f"webhook:{first}"), ("job.completed", f"webhook:{second}")]
    (row, _) = world.rows("select * from giftcard_jobs where stage = 'webhook' and trigger_type = 'event' order by id")
    assert (row["tenant_id"], row["correlation_id"], row["status"], row["attempts"]) == (
        "default",
        "flow-1",
        "queued",
        0,
    )
    assert (row["scheduled_at"], row["trigger_type"]) == (world.now, "event")
    assert row["dedup_key"] == f"{row['payload']['event_id']}:{first}"
    assert row["payload"]["endpoint_id"] == first
    assert re.fullmatch("msg_[0-9a-f]{32}", row["payload"]["event_id"])
    data = {
        "tenant_id": "default", "correlation_id": "flow-1", "job_id": job_id, "stage": "report", "run_no": 1,
        "attempts": 1, "reason": None, "revive_at": None,
    }  # fmt: skip
    assert json.loads(row["payload"]["body"]) == {
        "type": "job.completed", "timestamp": "2035-01-01T12:00:00.000000Z", "data": data,
    }  # fmt: skip


def test_one_event_has_one_id_for_all_endpoints(world: World) -> None:
    endpoint(world), endpoint(world)
    world.completed("report")
    ids = {
        row["id"]
        for row in world.rows("select payload ->> 'event_id' as id from giftcard_jobs where stage = 'webhook'")
    }
    assert len(ids) == 1


@pytest.mark.parametrize(
    "outcome",
    [Retry(delay=5, error="no"), Snooze(delay=5, waiting_for="x"), Release()],
    ids=lambda one: type(one).__name__,
)
def test_what_has_not_ended_is_not_told(world: World, outcome: Any) -> None:
    endpoint(world)
    world.settled(outcome)
    assert told(world) == []


def test_cancelled_job_is_not_told(world: World) -> None:
    endpoint(world)
    world.cancelled()
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.settle(job, Error(error="TransientError: no", revive=60))
    assert world.job(job.id)["status"] == "cancelled"
    assert told(world) == []


def test_webhook_itself_is_told_of_nothing(world: World) -> None:
    endpoint(world)
    world.completed("webhook", circuit="webhook:7")
    world.dead_letter("webhook", circuit="webhook:7")
    assert told(world) == []


def test_dead_letter_of_a_flow_is_told_as_failed_with_its_reason_and_revival(world: World) -> None:
    endpoint(world)
    a_card(world, "order-1")
    error = "TransientError: mail server of kate@example.com: no"
    job = world.claimed("email", correlation_id="order-1")
    world.settle(job, Error(error=error, revive=86_400))
    assert [event for event, _ in told(world)] == ["giftcard.failed", "job.dead_lettered"]
    assert body(world, "giftcard.failed")["data"] == {
        "tenant_id": "default", "correlation_id": "order-1", "job_id": job.id, "stage": "email", "amount": 2500,
        "currency": "USD", "paid": True, "reason": "TransientError: mail server of",
        "revive_at": "2035-01-02T12:00:00+00:00",
    }  # fmt: skip
    assert body(world, "job.dead_lettered")["data"]["reason"] == "TransientError: mail server of"


def test_dead_letter_of_another_stage_is_no_failed_gift_card(world: World) -> None:
    endpoint(world)
    world.dead_letter("http_call")
    world.dead_letter("customer_ingest", payload={"without_order": True, "customer": {}})
    assert [event for event, _ in told(world)] == ["job.dead_lettered"] * 2


def test_interrupted_run_that_uses_up_the_attempts_is_told(world: World) -> None:
    endpoint(world, "job.dead_lettered")
    world.interrupted("report")
    (job,) = world.take_over()
    world.settle(job, Error(error="Interrupted: its function ended", revive=None))
    assert [event for event, _ in told(world)] == ["job.dead_lettered"]


@pytest.mark.parametrize("of", [None, "acme"])
def test_report_is_told_to_the_tenant_it_is_about(world: World, of: str | None) -> None:
    about = of or "default"
    mine = endpoint(world, "report.ready", tenant_id=about)
    endpoint(world, "report.ready", tenant_id="another")
    made = world.call("make_report", tenant_id=about, day="2034-12-31")
    world.settled(Complete(context={"day": "2034-12-31"}), "report", payload={"tenant_id": of} if of else {})
    assert told(world) == [("report.ready", f"webhook:{mine}")]
    data = body(world, "report.ready")["data"]
    assert (data["tenant_id"], data["day"], data["totals"]) == (about, "2034-12-31", made["totals"])


def test_job_that_asks_for_the_reports_of_all_is_no_report(world: World) -> None:
    endpoint(world, "report.ready")
    world.call("make_report", tenant_id="default", day="2034-12-31")
    following = (NextJob(stage="report", dedup_key="default", payload={"tenant_id": "default"}),)
    world.settled(Complete(context={"day": "2034-12-31"}, next=following), "report", payload={"tenant_id": "*"})
    assert told(world) == []


@pytest.mark.parametrize(
    "columns",
    [
        {"stage": "report", "payload": {"tenant_id": {"a": 1}}, "context": {"day": "2035-99-99"}},
        {"stage": "report", "payload": {"tenant_id": None}, "context": {"day": [1]}},
        {"stage": "customer_ingest", "payload": {"without_order": "yes", "amount": "much"}},
        {"stage": "email", "payload": {}, "correlation_id": "ü\u2028🎁\"\\"},
        {"stage": "email", "correlation_id": "x" * 2_500},
    ],
    ids=["day", "day-list", "ingest", "signs", "long"],
)  # fmt: skip
def test_nothing_that_a_row_may_hold_keeps_a_settle_from_telling(world: World, columns: dict[str, Any]) -> None:
    endpoint(world)
    row = {"correlation_id": "c"} | columns
    values = [Jsonb(value) if isinstance(value, dict) else value for value in row.values()]
    # Straight into the table, as other services do.
    world.run(f"insert into giftcard_jobs ({', '.join(row)}) values ({', '.join(['%s'] * len(row))})", *values)
    job_id = world.rows("select id from giftcard_jobs")[0]["id"]
    for outcome in (Error(error="no"), Complete()):
        assert world.settle(world.claim_one(job_id), outcome)["settled"] == "settled"
        world.call("requeue", job_id=job_id, force=True)
    for found in world.rows("select payload ->> 'body' as body from giftcard_jobs where stage = 'webhook'"):
        assert json.loads(found["body"])["data"]["correlation_id"] == row["correlation_id"]


def test_order_whose_webhooks_wait_is_still_paid_without_card(world: World) -> None:
    take(world, "order-1")
    pay(world, "order-1")
    endpoint(world)
    dead = world.dead_letter("issue_card", correlation_id="order-1")
    world.dead_letter("webhook", correlation_id="order-1", circuit="webhook:9")
    (found,) = differences(world)
    assert (found["kind"], found["correlation_id"]) == ("paid_without_card", "order-1")
    assert found["detail"].startswith(f"job {dead} of issue_card is error")
    report = world.call("make_report", tenant_id="default", day="2035-01-01")
    assert report["totals"]["differences"] == 1
