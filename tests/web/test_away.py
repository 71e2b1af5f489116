"""A database that fails: 503, never the caller's fault, and what became of the request is said as far as it is true."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Misconfigured, Unavailable
from tests.support.world import ADMIN, API, CRON, World, an_order, bearer

Make = Callable[..., World]

SAFE = "repeat the request: it is safe"
PERHAPS = "it may have been carried out: look before you repeat it"
UNDONE = "nothing was changed: repeat the request"
NEXT = "nothing was lost: the next call continues where this one stopped"
ENDPOINT = {"url": "https://example.com/hooks", "events": ["giftcard.issued"]}
SCHEDULE = {"name": "n", "schedule": "0 8 * * *", "timezone": "UTC", "is_recurring": True, "stage": "email"}
ACCEPT = {"kind": "paid_twice", "reference": "ch_1", "reason": "x"}
REFUND = {"event_id": "r1", "kind": "refunded", "amount": {"amount": 1, "currency": "USD"}}
LIMIT = {"kind": "stage", "name": "email"}
JOB = {"stage": "email", "correlation_id": "order-1", "payload": an_order()}

# Every request that changes something: its body, and what is said if it may have been carried out.
CHANGES: dict[str, tuple[str, str, Any, str]] = {
    "cron.tick": ("POST", "/api/cron/giftcard-jobs", None, NEXT),
    "cron.run": ("POST", "/api/jobs/run", None, NEXT),
    "inbound_webhooks.from_square": ("POST", "/api/webhooks/square", None, SAFE),
    "jobs.enqueue": ("POST", "/api/v1/jobs", JOB, SAFE),
    "reports.create": ("POST", "/api/v1/reports", None, SAFE),
    "schedules.pause": ("POST", "/api/v1/schedules/1/pause", {"by": "kate"}, SAFE),
    "webhooks.update": ("PATCH", "/api/v1/webhook-endpoints/1", {"enabled": False}, SAFE),
    "orders.submit": ("POST", "/api/v1/giftcards", an_order(), PERHAPS),
    "archive.restore": ("POST", "/api/v1/jobs/1/restore", None, PERHAPS),
    "circuits.reset": ("POST", "/api/v1/circuits/email/reset", None, PERHAPS),
    "jobs.cancel": ("POST", "/api/v1/jobs/1/cancel", None, PERHAPS),
    "jobs.cancel_flow": ("POST", "/api/v1/flows/order-1/cancel", None, PERHAPS),
    "jobs.requeue": ("POST", "/api/v1/jobs/1/requeue", None, PERHAPS),
    "jobs.requeue_jobs": ("POST", "/api/v1/jobs/requeue", {"all": True}, PERHAPS),
    "bulk.create": ("POST", "/api/v1/operations", {"action": "cancel", "all": True, "reason": "x"}, PERHAPS),
    "bulk.stop": ("POST", "/api/v1/operations/1/stop", None, SAFE),
    "batches.create": ("POST", "/api/v1/batches", {"open": True}, PERHAPS),
    "batches.add": ("POST", "/api/v1/batches/1/jobs", {"jobs": [JOB]}, SAFE),
    "batches.seal": ("POST", "/api/v1/batches/1/seal", None, SAFE),
    "batches.cancel": ("POST", "/api/v1/batches/1/cancel", {"reason": "x"}, PERHAPS),
    "batches.requeue": ("POST", "/api/v1/batches/1/requeue", {"reason": "x"}, PERHAPS),
    "decisions.accept": ("POST", "/api/v1/reconciliation/accept", ACCEPT, PERHAPS),
    "decisions.make_free": ("POST", "/api/v1/giftcards/order-1/free-of-charge", {"reason": "x"}, SAFE),
    "decisions.correct_recipient": ("PATCH", "/api/v1/giftcards/order-1/recipient", {"given_name": "Eve"}, SAFE),
    "decisions.record_event": ("POST", "/api/v1/giftcards/order-1/payment-events", REFUND, SAFE),
    "decisions.block_card": ("POST", "/api/v1/giftcards/order-1/block-card", None, SAFE),
    "decisions.resend": ("POST", "/api/v1/giftcards/order-1/resend", {"reason": "x"}, PERHAPS),
    "orders.search": ("POST", "/api/v1/orders/search", {"text": "order-1"}, SAFE),
    "limits.set_limit": ("PUT", "/api/v1/limits", LIMIT | {"runs": 2}, PERHAPS),
    "limits.remove": ("POST", "/api/v1/limits/remove", LIMIT, PERHAPS),
    "schedules.create": ("POST", "/api/v1/schedules", SCHEDULE | {"payload": an_order()}, PERHAPS),
    "schedules.update": ("PATCH", "/api/v1/schedules/1", {"name": "x"}, PERHAPS),
    "schedules.delete": ("DELETE", "/api/v1/schedules/1", None, PERHAPS),
    "schedules.resume": ("POST", "/api/v1/schedules/1/resume", None, PERHAPS),
    "schedules.run": ("POST", "/api/v1/schedules/1/run", None, PERHAPS),
    "stages.pause": ("POST", "/api/v1/stages/email/pause", {"by": "kate"}, PERHAPS),
    "stages.resume": ("POST", "/api/v1/stages/email/resume", {"by": "kate"}, PERHAPS),
    "tokens.create": ("POST", "/api/v1/tokens", {"name": "shop", "scopes": ["admin"]}, PERHAPS),
    "tokens.revoke": ("DELETE", "/api/v1/tokens/shop", None, SAFE),
    "webhooks.create": ("POST", "/api/v1/webhook-endpoints", ENDPOINT, PERHAPS),
    "webhooks.delete": ("DELETE", "/api/v1/webhook-endpoints/1", None, PERHAPS),
    "webhooks.rotate_secret": ("POST", "/api/v1/webhook-endpoints/1/rotate-secret", None, PERHAPS),
    "webhooks.test": ("POST", "/api/v1/webhook-endpoints/1/test", None, PERHAPS),
}


class Broken:
    """A wire whose every call fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        raise self.error

    def close(self) -> None:
        pass


def ask(world: World, endpoint: str, **more: Any) -> Any:
    method, path, body, _ = CHANGES[endpoint]
    token = CRON if endpoint == "cron.tick" else ADMIN
    response = world.client.open(path, method=method, json=body, headers=bearer(token) | more)
    assert (response.status_code, response.json["title"]) == (503, "the database is away"), response.text
    return response.json["detail"]


def asked(world: World) -> list[str]:
    """All but Square's, which has a signature."""
    return [endpoint for endpoint in CHANGES if endpoint != "inbound_webhooks.from_square"]


def test_every_endpoint_that_changes_something_is_in_this_table(world: World) -> None:
    rules = world.app.url_map.iter_rules()
    assert {rule.endpoint for rule in rules if (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}} == set(CHANGES)


def test_what_may_have_happened_is_said(make_world: Make) -> None:
    world = make_world(wire=Broken(Unavailable("lost during the call")))
    for endpoint in asked(world):
        assert (endpoint, ask(world, endpoint)) == (endpoint, CHANGES[endpoint][3])


def test_what_certainly_did_not_happen_is_said(make_world: Make) -> None:
    world = make_world(wire=Broken(Unavailable("never sent", undone=True)))
    for endpoint in asked(world):
        expected = CHANGES[endpoint][3]
        if expected == PERHAPS and endpoint not in ("jobs.requeue_jobs", "batches.cancel"):  # they work in steps
            expected = UNDONE
        assert (endpoint, ask(world, endpoint)) == (endpoint, expected)


def test_an_order_with_a_key_of_its_own_can_be_sent_again(make_world: Make) -> None:
    world = make_world(wire=Broken(Unavailable("lost during the call")))
    assert ask(world, "orders.submit", **{"Idempotency-Key": "k"}) == SAFE
    named = world.client.post("/api/v1/giftcards", json=an_order() | {"correlation_id": "order-1"}, headers=bearer(API))
    assert named.json["detail"] == SAFE


def test_reading_again_is_safe(make_world: Make) -> None:
    world = make_world(wire=Broken(Unavailable("lost during the call")))
    answer = world.client.get("/api/v1/jobs", headers=bearer(ADMIN))
    assert (answer.status_code, answer.json["detail"]) == (503, SAFE)


@pytest.mark.parametrize("kind", [Unavailable, Misconfigured])
def test_what_a_trigger_of_somebody_says_is_logged_without_persons(
    make_world: Make, log: Callable[[], list[dict[str, Any]]], kind: Any
) -> None:
    world = make_world(wire=Broken(kind("kate@example.com may not", sqlstate="P0001")))
    answer = world.client.post("/api/v1/giftcards", json=an_order(), headers=bearer(API))
    assert answer.status_code == 503
    (line,) = [line for line in log() if line["event"] == "request_failed"]
    assert (line["error"], line["sqlstate"]) == ("[email] may not", "P0001")
    assert "kate" not in answer.text
