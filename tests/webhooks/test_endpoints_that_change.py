"""Webhooks on their way while their endpoint changes: off, gone, moved, with other secrets or other keys."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.receiver import Receiver, again, an_endpoint, ask, signed_with, told_of_one, webhooks
from tests.support.world import LOOKUP_KEY, World, an_order

Make = Callable[..., World]

OTHER_KEY = "YW5vdGhlciBrZXkgb2YgMzIgYnl0ZXMgZm9yIGhlcmU="


def test_gone_turns_the_endpoint_off_and_what_waits_is_cancelled(make_world: Make, receiver: Receiver) -> None:
    world = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", GIFTCARD_CONCURRENCY=1)
    made = an_endpoint(world, receiver)
    other = an_endpoint(world, receiver, path="other")
    receiver.answer = lambda asked: asked.answer(410 if asked.path == "/" else 200)
    for _ in range(3):
        world.enqueue("customer_ingest", {"without_order": True, "customer": an_order()["customer"]})
    world.run(limit=100)
    jobs = [job for job in webhooks(world) if job["circuit"] == f"webhook:{made['id']}"]
    # Those whose settles came after it was off were told to the other one alone.
    assert [job["status"] for job in jobs] == ["error", *["cancelled"] * (len(jobs) - 1)]
    assert (jobs[0]["last_error"], jobs[0]["revive_at"]) == ("PermanentError: 127.0.0.1 answered 410", None)
    assert [asked.path for asked in receiver.asked].count("/") == 1
    shown = ask(world, "GET", f"/{made['id']}")
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "it answered 410 Gone")
    told_other = [job for job in webhooks(world) if job["circuit"] == f"webhook:{other['id']}"]
    assert [job["status"] for job in told_other] == ["completed"] * 3


def test_endpoint_that_has_moved_is_not_turned_off_by_its_old_address(telling: World, receiver: Receiver) -> None:
    made = an_endpoint(telling, receiver)

    def move_and_go(asked: Any) -> None:
        ask(telling, "PATCH", f"/{made['id']}", {"url": f"{receiver.url}new"})
        asked.answer(410)

    told_of_one(telling, receiver, move_and_go)
    assert ask(telling, "GET", f"/{made['id']}")["enabled"]


def test_waiting_webhook_goes_to_where_the_endpoint_is_then(telling: World, receiver: Receiver) -> None:
    made = an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 500)
    ask(telling, "PATCH", f"/{made['id']}", {"url": f"{receiver.url}new"})
    assert again(telling, job)["status"] == "completed"
    assert [asked.path for asked in receiver.asked] == ["/", "/new"]


@pytest.mark.parametrize("how", ["off", "deleted"])
def test_webhook_of_an_endpoint_that_is_off_or_gone_is_cancelled_when_its_turn_comes(
    telling: World, receiver: Receiver, how: str
) -> None:
    made = an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 500)
    if how == "off":
        ask(telling, "PATCH", f"/{made['id']}", {"enabled": False})
    else:
        ask(telling, "DELETE", f"/{made['id']}")
    job = again(telling, job)
    expected = f"waiting for webhook endpoint {made['id']}, which is disabled or deleted"
    assert (job["status"], job["last_error"]) == ("cancelled", expected)
    assert len(receiver.asked) == 1
    if how == "off":
        ask(telling, "PATCH", f"/{made['id']}", {"enabled": True})
        telling.requeue(job["id"])
        telling.run()
        assert telling.job(job["id"])["status"] == "completed"
        assert len({asked.headers["webhook-id"] for asked in receiver.asked}) == 1


def test_both_secrets_sign_while_they_change(telling: World, receiver: Receiver) -> None:
    made = an_endpoint(telling, receiver)
    former = made["secret"]
    fresh = ask(telling, "POST", f"/{made['id']}/rotate-secret")["secret"]
    told_of_one(telling, receiver)
    assert [signed_with(receiver.asked[0], secret) for secret in (former, fresh)] == [True, True]
    telling.sql("update giftcard_webhook_endpoints set previous_secret_until = clock_timestamp() - interval '1 second'")
    told_of_one(telling, receiver)
    assert [signed_with(receiver.asked[1], secret) for secret in (former, fresh)] == [False, True]
    last = ask(telling, "POST", f"/{made['id']}/rotate-secret", {"former_hours": 0})["secret"]
    told_of_one(telling, receiver)
    assert [signed_with(receiver.asked[2], secret) for secret in (fresh, last)] == [False, True]


def test_secrets_are_nowhere_in_clear(telling: World, receiver: Receiver, log: Callable[[], Any]) -> None:
    secret = an_endpoint(telling, receiver)["secret"]
    job = told_of_one(telling, receiver, lambda asked: asked.answer(500, f"your secret is {secret}".encode()))
    assert telling.history(job["id"])[0]["detail"]["answer"] == "your secret is [secret]"
    for table in ("giftcard_webhook_endpoints", "giftcard_jobs", "giftcard_job_history"):
        assert secret.removeprefix("whsec_") not in str(telling.sql(f"select * from {table}"))
    assert secret.removeprefix("whsec_") not in str(log())


def test_key_that_is_missing_is_our_fault_and_not_the_webhooks(
    make_world: Make, telling: World, receiver: Receiver
) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 500)
    another = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY)
    job = again(another, job)
    assert job["status"] == "queued"
    assert (
        job["last_error"] == "TransientError: no encryption key decrypts the endpoint's secret: "
        "add the older key to GIFTCARD_ENCRYPTION_KEYS"
    )
    both = make_world(
        GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8",
        GIFTCARD_ENCRYPTION_KEYS=f"{OTHER_KEY}, {telling.settings.giftcard_encryption_keys.get_secret_value()}",  # type: ignore[union-attr]
    )
    assert again(both, job)["status"] == "completed"
    assert receiver.refused == []


def test_without_keys_the_stage_waits(make_world: Make, telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 500)
    report = make_world(GIFTCARD_ENCRYPTION_KEYS=None, GIFTCARD_LOOKUP_KEY=LOOKUP_KEY)
    telling.move_to(job["scheduled_at"])
    assert report.run().parked["webhook"] == "GIFTCARD_ENCRYPTION_KEYS"
    assert telling.job(job["id"])["attempts"] == 1


def test_address_that_may_not_be_called_any_more_is_not_called(
    make_world: Make, telling: World, receiver: Receiver
) -> None:
    an_endpoint(telling, receiver)
    strict = make_world()
    job = told_of_one(strict, receiver)
    assert (job["status"], job["revive_at"], receiver.asked) == ("error", None, [])
    assert "GIFTCARD_ALLOWED_NETWORKS" in job["last_error"]


def test_job_of_another_tenant_reaches_no_endpoint(telling: World, receiver: Receiver) -> None:
    made = an_endpoint(telling, receiver, tenant_id="acme")
    payload = {"endpoint_id": made["id"], "event_id": "msg_1", "body": "{}"}
    (job_id,) = telling.enqueue("webhook", payload, tenant_id="default")
    telling.run()
    assert (telling.job(job_id)["status"], receiver.asked) == ("cancelled", [])
