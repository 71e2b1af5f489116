"""Where money and cards do not match, and what operators decide about it, over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import ADMIN, API, World, an_order, bearer

FLOW = "order/7 ü"
PATH = "/api/v1/giftcards/order%2F7%20%C3%BC"


def ask(world: World, method: str, path: str, body: Any = None, *, token: str = ADMIN, **query: Any) -> Any:
    return world.client.open(path, method=method, json=body, query_string=query, headers=bearer(token))


def ok(world: World, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Any:
    answer = ask(world, method, path, body, **query)
    assert answer.status_code == status, answer.text
    return answer.json


def refused(world: World, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, str, str | None]:
    answer = ask(world, method, path, body, **query)
    assert answer.content_type == "application/problem+json"
    return answer.status_code, answer.json["title"], answer.json.get("field")


def differences(world: World, **query: Any) -> list[tuple[str, int]]:
    found = ok(world, "GET", "/api/v1/reconciliation", **query)["differences"]
    return [(line["kind"], line["amount"]) for line in found]


def audit(world: World) -> list[tuple[str, str, str]]:
    return [(r["by"], r["action"], r["subject"]) for r in world.sql("select * from giftcard_audit order by id")]


@pytest.fixture
def issued(world: World) -> World:
    """An order of any name, with its card: as plain SQL makes it."""
    world.add("customer_ingest", an_order(), correlation_id=FLOW)
    while world.tick()["started"]:
        pass
    assert world.value("select count(*) from giftcard_cards") == 1
    return world


def test_reconciliation_of_a_house_that_matches_is_empty(issued: World) -> None:
    assert ok(issued, "GET", "/api/v1/reconciliation", verify="true") == {"differences": [], "truncated": False}


def test_refund_is_recorded_once_blocks_the_card_and_is_seen(issued: World) -> None:
    refund = {"event_id": "re_1", "kind": "refunded", "amount": {"amount": 700, "currency": "USD"}}
    recorded = ok(issued, "POST", f"{PATH}/payment-events", refund)
    assert (recorded["worth"], recorded["changed"], recorded["provider"]) == (1800, True, "ledger")
    assert recorded["correlation_id"] == FLOW
    assert ok(issued, "POST", f"{PATH}/payment-events", refund) == recorded | {"changed": False}
    assert differences(issued) == [("refunded_after_issue", 700)]
    issued.tick()
    assert differences(issued) == [("paid_without_card", 1800)], "the customer paid that, and cannot spend it"
    shown = issued.store.flow("default", FLOW)
    assert (shown["payment"]["worth"], shown["card"]["state"], shown["card"]["unpaid"]) == (1800, "blocked", 700)
    assert (shown["order"]["free_of_charge"], shown["order"]["cancelled_at"]) == (False, None)
    assert audit(issued) == [("admin token", "payment_event", f"order {FLOW}")]


def test_events_that_contradict_are_conflicts(issued: World) -> None:
    path = f"{PATH}/payment-events"
    refund = {"event_id": "re_1", "kind": "refunded", "amount": {"amount": 700, "currency": "USD"}}
    ok(issued, "POST", path, refund)
    other = refund | {"amount": {"amount": 800, "currency": "USD"}}
    assert refused(issued, "POST", path, other) == (
        409,
        "event re_1 is recorded with other content: another movement needs another event id",
        "event_id",
    )
    euros = {"event_id": "re_2", "kind": "refunded", "amount": {"amount": 1, "currency": "EUR"}}
    assert refused(issued, "POST", path, euros)[0] == 409
    issued.submit(an_order(correlation_id="order-8"))
    reference = issued.value("select provider_ref from giftcard_payments")
    theirs = refund | {"event_id": "re_3", "reference": reference}
    assert refused(issued, "POST", "/api/v1/giftcards/order-8/payment-events", theirs) == (
        *(409, f"payment {reference} is of another order", "reference"),
    )
    assert issued.value("select count(*) from giftcard_payment_events") == 2


def test_event_of_an_order_without_a_payment_is_not_found(world: World) -> None:
    world.submit(an_order(correlation_id="order-8"))
    refund = {"event_id": "re_1", "kind": "refunded", "amount": {"amount": 700}}
    assert refused(world, "POST", "/api/v1/giftcards/order-8/payment-events", refund) == (
        *(404, "order order-8 has no payment yet: name the payment by its reference", "reference"),
    )
    missing = refused(world, "POST", "/api/v1/giftcards/none/payment-events", refund | {"reference": "ch_1"})
    assert missing == (404, "no order has the correlation id none (tenant default)", "correlation_id")


def test_own_payment_service_reports_in_any_order_and_nothing_counts_twice(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL="https://pay.example.com")
    world.submit(an_order(correlation_id="order-8"))
    path = "/api/v1/giftcards/order-8/payment-events"
    money = {"amount": 2500, "currency": "USD"}
    taken = ok(world, "POST", path, {"event_id": "ch_1", "kind": "captured", "amount": money, "reference": "ch_1"})
    assert (taken["provider"], taken["correlation_id"], taken["worth"]) == ("http", None, 2500)
    # The payment job charges under its key, and is told of the same payment.
    name = {"tenant_id": "default", "correlation_id": "order-8", "provider": "http", "provider_ref": "ch_1"}
    world.store.record_payment(**name, idempotency_key="gc_1", amount=2500, currency="USD")
    failed = {"event_id": "re_1", "kind": "refunded", "amount": {"amount": 0}, "as_of": "2026-01-02T00:00:00Z"}
    begun = {"event_id": "re_1", "kind": "refunded", "amount": {"amount": 2500}, "as_of": "2026-01-01T00:00:00Z"}
    assert ok(world, "POST", path, failed)["worth"] == 2500
    assert ok(world, "POST", path, begun) | {"changed": None} == taken | {"correlation_id": "order-8", "changed": None}
    assert ok(world, "POST", path, {"event_id": "dp_1", "kind": "disputed", "amount": money})["worth"] == 0


def test_difference_is_accepted_and_audited(world: World) -> None:
    world.submit(an_order(correlation_id="order-8"))
    event = {"event_id": "c1", "kind": "captured", "amount": {"amount": 99}, "reference": "ch_9"}
    ok(world, "POST", "/api/v1/giftcards/order-8/payment-events", event)
    assert differences(world) == [("wrong_amount", 99)]
    accepted = {"kind": "wrong_amount", "reference": "ch_9", "reason": "a test of theirs"}
    path = "/api/v1/reconciliation/accept"
    assert ok(world, "POST", path, accepted) == {
        "kind": "wrong_amount",
        "tenant_id": "default",
        "item": "ch_9",
        "amount": 99,
    }
    assert differences(world) == []
    assert refused(world, "POST", path, accepted) == (404, "there is no difference wrong_amount of ch_9", "reference")
    assert refused(world, "POST", path, accepted | {"kind": "books_differ"})[0] == 422
    assert audit(world)[-1] == ("admin token", "accept_difference", "wrong_amount ch_9")


def test_order_is_made_free_of_charge_and_gets_its_card(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="http")  # without a URL: the payment is parked
    world.submit(an_order(correlation_id="order-8"))
    path = "/api/v1/giftcards/order-8/free-of-charge"
    assert ok(world, "POST", path, {"reason": "goodwill"}) == {"correlation_id": "order-8", "free_of_charge": True}
    assert ok(world, "POST", path, {"reason": "again"})["free_of_charge"] is True
    assert world.flow("order-8")["order"]["free_of_charge"] is True
    assert audit(world) == [("admin token", "free_of_charge", "order order-8")]
    assert refused(world, "POST", path, {})[::2] == (422, "reason")
    assert refused(world, "POST", path, {"reason": "x"}, tenant_id="acme")[0] == 404


def test_paid_order_cannot_become_free(issued: World) -> None:
    found = refused(issued, "POST", f"{PATH}/free-of-charge", {"reason": "x"})
    assert found == (409, f"order {FLOW} is paid", "correlation_id")


def test_recipient_is_corrected_and_its_values_are_nowhere_else(
    issued: World, log: Callable[[], list[dict[str, Any]]]
) -> None:
    secret = {"email": "eve.secret@example.com", "given_name": "Evesecret"}
    done = ok(issued, "PATCH", f"{PATH}/recipient", secret | {"family_name": None})
    assert done == {"correlation_id": FLOW, "changed": ["email", "family_name", "given_name"]}
    assert ok(issued, "PATCH", f"{PATH}/recipient", secret)["changed"] == []
    issued.sql("update giftcard_jobs set status = 'queued', scheduled_at = now() where stage = 'email'")
    issued.tick()
    kept = str(issued.sql("select * from giftcard_audit")) + str(log())
    assert "secret" not in kept
    assert audit(issued) == [("admin token", "correct_recipient", f"order {FLOW}")]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"email": None}, None),
        ({"email": "kate.secret"}, "email"),
        ({"given_name": "a\nsecret"}, "given_name"),
        ({"family_name": "secret" * 40}, "family_name"),
        ({"external_id": "secret"}, "external_id"),
    ],
)
def test_recipient_that_is_not_valid_is_refused_without_its_value(issued: World, body: Any, field: str | None) -> None:
    answer = ask(issued, "PATCH", f"{PATH}/recipient", body)
    assert (answer.status_code, answer.json.get("field")) == (422, field)
    assert "secret" not in answer.text


def test_card_of_a_paid_order_is_blocked_when_an_operator_wants_it(issued: World) -> None:
    requested = ok(issued, "POST", f"{PATH}/block-card", status=202)
    assert requested["created"] is True
    assert ok(issued, "POST", f"{PATH}/block-card", status=202) == requested | {"created": False}
    issued.tick()
    assert issued.job(requested["job_id"])["status"] == "completed"
    assert issued.value("select state from giftcard_cards") == "blocked"
    assert differences(issued) == [], "a blocked card of a paid order is a decision"
    assert audit(issued) == [("admin token", "block_card", f"order {FLOW}")]


def test_card_that_does_not_exist_cannot_be_blocked(world: World) -> None:
    assert refused(world, "POST", "/api/v1/giftcards/none/block-card") == (
        *(404, "order none has no card", "correlation_id"),
    )


def test_job_of_the_books_leaves_a_paid_card_as_it_is(issued: World) -> None:
    (job_id,) = issued.enqueue("block_card", {}, correlation_id=FLOW)
    issued.tick()
    assert issued.job(job_id)["status"] == "completed"
    assert issued.value("select state from giftcard_cards") == "active"


@pytest.mark.parametrize("action", ["free-of-charge", "recipient", "payment-events", "block-card"])
def test_shops_cannot_decide(world: World, action: str) -> None:
    method = "PATCH" if action == "recipient" else "POST"
    assert ask(world, method, f"/api/v1/giftcards/order-8/{action}", {}, token=API).status_code == 403
    assert ask(world, "GET", "/api/v1/reconciliation", token=API).status_code == 403


@pytest.mark.parametrize("action", ["free-of-charge", "recipient", "payment-events", "block-card"])
def test_names_that_postgres_cannot_hold_are_refused(world: World, action: str) -> None:
    method = "PATCH" if action == "recipient" else "POST"
    answer = ask(world, method, f"/api/v1/giftcards/a%00b/{action}", {"given_name": "Eve"})
    assert answer.status_code == 400


def test_reconciliation_is_a_page_of_one_tenant(world: World) -> None:
    for number in range(3):
        world.sql(
            """select giftcard_record_payment_event('acme', 'http', %s, %s, 'captured', 5, 'USD', 'none')""",
            *(f"ch_{number}", f"c{number}"),
        )
    found = ok(world, "GET", "/api/v1/reconciliation", tenant_id="acme", limit=2)
    assert ([line["reference"] for line in found["differences"]], found["truncated"]) == (["ch_0", "ch_1"], True)
    assert differences(world, tenant_id="default") == []
    assert refused(world, "GET", "/api/v1/reconciliation", limit=1000)[::2] == (422, "limit")
