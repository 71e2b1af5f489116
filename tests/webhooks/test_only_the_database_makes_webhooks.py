"""Webhooks are enqueued by the database alone: no one else may have it sign a message."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from lib.caller import Caller
from lib.errors import Invalid, SettingsError
from lib.job import Complete, Error, NextJob, Outcome
from lib.jobs.hooks import Draft, before_enqueue
from lib.jobs.registry import Registry
from lib.jobs.schemas import EnqueueRequest
from lib.operations import Operations
from lib.stages import load
from tests.support.receiver import Receiver, an_endpoint, ask, told_of_one, webhooks
from tests.support.world import ADMIN, World, a_stage, bearer, settings_of

Make = Callable[..., World]
SENTENCE = "webhooks are enqueued by the database, when a job ends"
FORGED = {"endpoint_id": 1, "event_id": "msg_1", "body": '{"type": "giftcard.issued"}'}


@pytest.fixture
def endpoint(telling: World, receiver: Receiver) -> Iterator[dict[str, Any]]:
    """An endpoint that must not receive anything forged."""
    yield an_endpoint(telling, receiver)
    telling.run()
    assert [asked.body for asked in receiver.asked if b"issued" in asked.body] == []


def test_the_api_refuses_them(telling: World, endpoint: Any) -> None:
    for replace in (False, True):
        job = {"stage": "webhook", "correlation_id": "c", "payload": FORGED | {"endpoint_id": endpoint["id"]}}
        response = telling.client.post("/api/v1/jobs", json={"jobs": [job], "replace": replace}, headers=bearer(ADMIN))
        assert (response.status_code, response.json["field"]) == (422, "jobs.0.stage")
        assert SENTENCE in response.text
    assert webhooks(telling) == []


def test_the_command_line_refuses_them(telling: World, endpoint: Any) -> None:
    wanted = EnqueueRequest.model_validate({"jobs": [{"stage": "webhook", "correlation_id": "c", "payload": FORGED}]})
    operations = Operations(telling.store, lambda: telling.registry, telling.settings, caller=Caller("kate"))
    with pytest.raises(Invalid, match=SENTENCE):
        operations.enqueue(wanted, trigger_type="cli")


def test_schedules_refuse_them(telling: World, endpoint: Any) -> None:
    body = {"schedule": "* * * * *", "stage": "webhook", "payload": FORGED}
    response = telling.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
    assert (response.status_code, response.json["field"]) == (422, "stage")
    report = body | {"stage": "report", "payload": {}}
    made = telling.client.post("/api/v1/schedules", json=report, headers=bearer(ADMIN))
    patch = {"stage": "webhook", "payload": FORGED}
    path = f"/api/v1/schedules/{made.json['id']}"
    assert telling.client.patch(path, json=patch, headers=bearer(ADMIN)).status_code == 422


def test_a_schedule_of_plain_sql_is_paused_with_the_reason(telling: World, endpoint: Any) -> None:
    telling.sql(
        "insert into giftcard_schedules (schedule, stage, payload, next_at) values ('* * * * * *', 'webhook', %s,"
        " now() - interval '1 second')",
        psycopg.types.json.Jsonb(FORGED | {"endpoint_id": endpoint["id"]}),
    )
    telling.run()
    (schedule,) = telling.sql("select paused_by, pause_reason from giftcard_schedules")
    assert SENTENCE in schedule["pause_reason"]
    assert webhooks(telling) == []


@pytest.mark.parametrize("outcome", [Complete, lambda **more: Error(error="no", **more)])
def test_a_handler_may_not_return_one(make_world: Make, outcome: Callable[..., Outcome]) -> None:
    def handler(payload: Any, context: Any) -> Outcome:
        return outcome(next=(NextJob(stage="webhook", payload=FORGED),))

    world = make_world(registry=Registry(dict(load().stages) | {"work": a_stage("work", handler)}))
    job = world.run_job("work")
    assert (job["status"], SENTENCE in job["last_error"]) == ("error", True)
    assert webhooks(world) == []


def test_a_hook_cannot_turn_a_job_into_one(telling: World, endpoint: Any) -> None:
    def turn(draft: Draft) -> None:
        draft.stage = "webhook"

    with before_enqueue.connected_to(turn):
        job = {"stage": "report", "correlation_id": "c", "payload": {"day": "2026-01-31"}}
        response = telling.client.post("/api/v1/jobs", json=job, headers=bearer(ADMIN))
    assert telling.job(response.json["jobs"][0]["id"])["stage"] == "report"


def test_a_queue_may_not_have_the_stage() -> None:
    with pytest.raises(SettingsError, match=r"^GIFTCARD_PGMQ_QUEUES: gives queue 1 the stage webhook"):
        settings_of(GIFTCARD_PGMQ_QUEUES="q:webhook")


def test_those_of_the_database_are_sent(telling: World, receiver: Receiver) -> None:
    made = an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 404)
    assert (job["status"], job["source"], job["trigger_type"]) == ("error", "app", "event")
    assert telling.client.post(f"/api/v1/jobs/{job['id']}/requeue", headers=bearer(ADMIN)).status_code == 200
    ask(telling, "POST", f"/{made['id']}/test")
    telling.drain()
    assert {row["status"] for row in webhooks(telling)} == {"completed"}
    assert "webhook.test" in {json.loads(asked.body)["type"] for asked in receiver.asked}


def test_one_of_the_archive_comes_back(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 404)
    telling.sql("select giftcard_archive_jobs(array[%s]::bigint[], now())", job["id"])
    assert telling.client.post(f"/api/v1/jobs/{job['id']}/restore", headers=bearer(ADMIN)).status_code == 200
    assert telling.job(job["id"])["payload"] == job["payload"]


def test_one_that_plain_sql_has_changed_is_not_signed(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 404)
    sent = len(receiver.asked)
    telling.sql("update giftcard_jobs set payload = payload || %s where id = %s returning id",
                psycopg.types.json.Jsonb({"body": FORGED["body"]}), job["id"])  # fmt: skip
    assert telling.client.post(f"/api/v1/jobs/{job['id']}/requeue", headers=bearer(ADMIN)).status_code == 200
    telling.drain()
    changed = telling.job(job["id"])
    assert (changed["status"], len(receiver.asked)) == ("error", sent)
    assert "plain SQL has written this webhook" in changed["last_error"]
