"""Webhooks on their way to a real receiver, which knows them by the library of Standard Webhooks."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import raw_server as told
from tests.support.cases import CASES
from tests.support.raw_server import redirect
from tests.support.receiver import Receiver, again, an_endpoint, ask, told_of_one, webhooks
from tests.support.world import World, an_order

Make = Callable[..., World]


def test_whole_order_is_told(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver, "giftcard.issued", "giftcard.delivered", "giftcard.failed", "job.completed")
    telling.submit(an_order(correlation_id="order-1"))
    telling.run()
    assert receiver.refused == []
    heard = sorted((message["type"], message["data"].get("stage")) for message in receiver.heard)
    stages = ("customer_ingest", "email", "issue_card", "payment", "personal_code")
    assert heard == [("giftcard.delivered", None), ("giftcard.issued", None), *(("job.completed", s) for s in stages)]
    (card,) = telling.sql("select id, last4 from giftcard_cards")
    (issued,) = (message for message in receiver.heard if message["type"] == "giftcard.issued")
    assert issued["data"] == {
        "tenant_id": "default", "correlation_id": "order-1", "card_id": card["id"], "last4": card["last4"],
        "amount": 2500, "currency": "USD",
    }  # fmt: skip
    assert {job["status"] for job in webhooks(telling)} == {"completed"}


def test_what_is_told_holds_nothing_of_the_person_and_no_number(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver, "giftcard.issued", "giftcard.delivered", "job.completed")
    telling.submit(an_order(message="From Grandma"))
    telling.run()
    everything = b"".join(asked.body for asked in receiver.asked).lower()
    code = telling.value("select personal_code from giftcard_customers")
    for text in ("kate", "rodgers", "example.com", "1520", "grandma", code.lower(), "number"):
        assert text.encode() not in everything, text


def test_message_has_the_headers_of_the_specification(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver)
    (asked,) = receiver.asked
    assert asked.method == "POST"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["webhook-id"] == job["payload"]["event_id"]
    assert asked.body.decode() == job["payload"]["body"]
    now = telling.value("select extract(epoch from clock_timestamp())::float8")
    assert 0 <= now - int(asked.headers["webhook-timestamp"]) < 60


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_is_a_delivery(telling: World, receiver: Receiver, status: int) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, status)
    assert job["status"] == "completed"
    assert telling.history(job["id"])[0]["detail"]["status"] == status


def test_every_attempt_has_the_same_id_and_body_and_a_signature_of_its_own_time(
    telling: World, receiver: Receiver
) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, 503, 500, 429, 401, correlation_id="straße 🎁")
    waits = []
    while job["status"] == "queued":
        (run,) = telling.history(job["id"])[-1:]
        waits.append((run["next_run_at"] - run["finished_at"]).total_seconds())
        job = again(telling, job)
    assert waits == CASES["backoff"]["webhook"]["delays_by_attempt"]
    assert (job["status"], job["attempts"], job["last_error"]) == ("error", 4, "TransientError: 127.0.0.1 answered 401")
    # It revives like any dead letter, a day later by then: an old signature would not fit.
    job = again(telling, job | {"scheduled_at": job["revive_at"]})
    assert job["status"] == "completed"
    assert (len(receiver.asked), receiver.refused) == (5, [])
    assert len({(asked.headers["webhook-id"], asked.body) for asked in receiver.asked}) == 1


@pytest.mark.parametrize(
    "how", [told.hang_up, told.cut, told.nonsense, told.endless_header], ids=lambda how: how.__name__
)
def test_receiver_that_answers_half_or_not_at_all_is_tried_again(telling: World, receiver: Receiver, how: Any) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, how)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].startswith("TransientError: 127.0.0.1 gave no ")
    assert again(telling, job)["status"] == "completed"


@pytest.mark.parametrize("how", [told.never, told.dripping], ids=lambda how: how.__name__)
def test_slow_receiver_is_not_waited_for(make_world: Make, receiver: Receiver, how: Any) -> None:
    world = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", GIFTCARD_STAGE_WEBHOOK_TTR_SECONDS=2)
    an_endpoint(world, receiver)
    job = told_of_one(world, receiver, how)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].startswith("TransientError: 127.0.0.1 did not respond in time")
    assert telling_took(world, job) < 2000


def telling_took(world: World, job: dict[str, Any]) -> int:
    """Milliseconds of the last attempt."""
    took: int = world.history(job["id"])[-1]["detail"]["duration_ms"]
    return took


def test_redirect_is_not_followed(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, redirect(302, f"{receiver.url}elsewhere"))
    assert (job["status"], job["last_error"]) == ("queued", "TransientError: 127.0.0.1 answered 302")
    assert [asked.path for asked in receiver.asked] == ["/"]


def test_retry_after_is_a_floor(telling: World, receiver: Receiver) -> None:
    an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, lambda asked: asked.answer(429, Retry_After="900"))
    (run,) = telling.history(job["id"])
    assert (run["next_run_at"] - run["finished_at"]).total_seconds() == 900


@pytest.mark.parametrize("status", [s for s in CASES["http_status"]["permanent"] if s != 410])
def test_permanent_answer_makes_a_dead_letter_at_once(telling: World, receiver: Receiver, status: int) -> None:
    made = an_endpoint(telling, receiver)
    job = told_of_one(telling, receiver, status)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert ask(telling, "GET", f"/{made['id']}")["enabled"]


def test_endless_failures_of_one_receiver_open_its_circuit_and_no_other(telling: World, receiver: Receiver) -> None:
    ill, well = an_endpoint(telling, receiver, path="ill"), an_endpoint(telling, receiver, path="well")
    receiver.answer = lambda asked: asked.answer(500 if asked.path == "/ill" else 200)
    for _ in range(15):
        telling.enqueue("customer_ingest", {"without_order": True, "customer": an_order()["customer"]})
    telling.run()
    paths = [asked.path for asked in receiver.asked]
    assert paths.count("/well") == 15
    assert CASES["circuit"]["thresholds"]["webhook"] <= paths.count("/ill") < 15
    (circuit,) = telling.sql("select circuit from giftcard_circuits where state = 'open'")
    assert circuit["circuit"] == f"webhook:{ill['id']}"
    assert well["id"] != ill["id"]
