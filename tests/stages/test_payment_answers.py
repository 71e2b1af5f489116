"""What a payment service answers is checked, not believed: amounts, currencies, statuses, ids, orders."""

from collections.abc import Callable
from typing import Any

import pytest

from dev.testing.vendors import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]
Answer = dict[str, Any]

DONE = {"id": "ch_1"}


@pytest.fixture
def world(make_world: Make, vendor: Vendor) -> World:
    return make_world(
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=f"{vendor.url}/charges",
        GIFTCARD_CIRCUIT_THRESHOLD=0,
        MAX_PAYMENT_RETRY_ATTEMPTS=2,
    )


def pay(world: World, order: str = "order-1", **changes: Any) -> dict[str, Any]:
    """Submits an order, if it is a new one; its payment job after a tick."""
    world.submit(an_order(correlation_id=order, **changes))
    world.tick()
    return world.sql("select * from giftcard_jobs where stage = 'payment' and correlation_id = %s", order)[0]


def lines(world: World) -> list[tuple[str, str, int, str]]:
    """The reconciliation: kind, reference, amount and currency of each line."""
    rows = world.sql("select * from giftcard_reconcile(p_verify => true) order by kind")
    return [(row["kind"], row["reference"], row["amount"], row["currency"]) for row in rows]


def accepted(world: World) -> list[tuple[str, str]]:
    rows = world.sql("select correlation_id, provider_ref from giftcard_payments where correlation_id is not null")
    return [(row["correlation_id"], row["provider_ref"]) for row in rows]


@pytest.mark.parametrize(
    "answer",
    [
        DONE,
        {"id": 1},
        DONE | {"amount": 2500, "currency": "USD", "reference": "order-1", "status": "succeeded"},
        DONE | {"amount": 2500, "currency": "usd", "status": "CAPTURED", "another field": [1]},
        DONE | {"amount": None, "currency": None, "status": None, "reference": None},
    ],
)
def test_an_answer_that_fits_is_the_payment(world: World, vendor: Vendor, answer: Answer) -> None:
    vendor.default = (200, answer)
    assert pay(world)["status"] == "completed"
    assert accepted(world) == [("order-1", str(answer["id"]))]
    assert lines(world) == []


@pytest.mark.parametrize(
    ("money", "taken"),
    [
        ({"amount": 9900}, (9900, "USD")),
        ({"amount": 1}, (1, "USD")),
        ({"amount": 10**15}, (10**15, "USD")),
        ({"amount": 2500, "currency": "EUR"}, (2500, "EUR")),
        ({"currency": "jpy"}, (2500, "JPY")),
    ],
)
def test_another_amount_is_recorded_and_not_accepted(
    world: World, vendor: Vendor, money: Answer, taken: tuple[int, str]
) -> None:
    vendor.default = (200, DONE | {"status": "succeeded"} | money)
    job = pay(world)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert "instead of $25.00 as ch_1: refund it there" in job["last_error"]
    assert accepted(world) == []
    assert lines(world) == [("wrong_amount", "ch_1", *taken)]
    world.requeue(job["id"])
    assert pay(world)["status"] == "error"
    assert lines(world) == [("wrong_amount", "ch_1", *taken)]


def test_nothing_taken_is_no_payment(world: World, vendor: Vendor) -> None:
    vendor.default = (200, DONE | {"amount": 0})
    assert pay(world)["status"] == "error"
    assert world.sql("select * from giftcard_payments") == []
    assert [kind for kind, *_ in lines(world)] == ["charge_unknown"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"id": None}, "answered 200 without an id"),
        ({"id": ""}, "answered 200 without an id"),
        ({"id": True}, "answered 200 without an id"),
        ({"id": "x" * 201}, "answered 200 without an id"),
        ({"id": "ch\u00001"}, "answered 200 without an id"),
        ({"id": ["ch_1"]}, "answered 200 without an id"),
        ([], "answered 200 without a JSON object"),
        ("ch_1", "answered 200 without a JSON object"),
        (DONE | {"status": "on fire"}, "answered with an unknown status"),
        (DONE | {"status": ""}, "answered with an unknown status"),
        (DONE | {"status": 1}, "answered with an unknown status"),
        (DONE | {"status": ["succeeded"]}, "answered with an unknown status"),
        (DONE | {"status": {"of": "it"}}, "answered with an unknown status"),
        (DONE | {"amount": 25.0}, "answered with an amount that cannot be read"),
        (DONE | {"amount": "2500"}, "answered with an amount that cannot be read"),
        (DONE | {"amount": True}, "answered with an amount that cannot be read"),
        (DONE | {"amount": -2500}, "answered with an amount that cannot be read"),
        (DONE | {"amount": 10**30}, "answered with an amount that cannot be read"),
        (DONE | {"currency": "US"}, "answered with an amount that cannot be read"),
        (DONE | {"currency": "ＵＳＤ"}, "answered with an amount that cannot be read"),
        (DONE | {"currency": 840}, "answered with an amount that cannot be read"),
        (DONE | {"reference": "order-2"}, "answered for another order"),
        (DONE | {"reference": 1}, "answered for another order"),
    ],
)
def test_what_cannot_be_believed_is_asked_for_again_under_the_same_key(
    world: World, vendor: Vendor, answer: Any, problem: str
) -> None:
    vendor.respond((200, answer))
    vendor.default = (200, DONE)
    job = pay(world)
    assert (job["status"], job["last_error"]) == ("queued", f"TransientError: the payment service {problem}")
    assert world.sql("select * from giftcard_payments") == []
    world.move(10)
    assert pay(world)["status"] == "completed"
    assert len({request.headers["Idempotency-Key"] for request in vendor.requests}) == 1
    assert len(vendor.requests) == 2


def test_what_never_can_be_believed_ends_as_a_charge_that_is_unknown(world: World, vendor: Vendor) -> None:
    vendor.default = (200, DONE | {"reference": "order-2"})
    pay(world)
    world.move(10)
    assert pay(world)["status"] == "error"
    assert [kind for kind, *_ in lines(world)] == ["charge_unknown"]


@pytest.mark.parametrize("status", ["failed", "Declined", "CANCELED", "voided", "rejected"])
@pytest.mark.parametrize("named", [{}, DONE])
def test_a_status_that_refuses_is_a_decline(world: World, vendor: Vendor, status: str, named: Answer) -> None:
    vendor.respond((200, named | {"status": status}))
    job = pay(world)
    assert (job["status"], job["revive_at"]) == ("error", None)
    assert job["last_error"] == f"Declined: the payment service answered with the status {status.lower()}"
    assert lines(world) == []
    vendor.default = (200, DONE)
    world.requeue(job["id"])
    assert pay(world)["status"] == "completed"
    assert len({request.headers["Idempotency-Key"] for request in vendor.requests}) == 2


def test_the_payment_of_another_order_pays_nothing(world: World, vendor: Vendor) -> None:
    vendor.default = (200, DONE)
    assert pay(world, "order-1")["status"] == "completed"
    job = pay(world, "order-2")
    assert (job["status"], "payment ch_1 pays order order-1" in job["last_error"]) == ("error", True)
    assert accepted(world) == [("order-1", "ch_1")]
    assert [kind for kind, *_ in lines(world)] == ["charge_unknown"]


@pytest.mark.parametrize("money", [{}, {"currency": "EUR"}])
def test_money_that_another_order_could_not_accept_pays_no_second_order(
    world: World, vendor: Vendor, money: Answer
) -> None:
    vendor.default = (200, DONE | {"amount": 9900, "currency": "USD"} | money)
    pay(world, "order-1")
    job = pay(world, "order-2", amount={"amount": 9900, "currency": "USD"} | money)
    assert (job["status"], "payment ch_1 names order order-1" in job["last_error"]) == ("error", True)
    assert accepted(world) == []
    assert [kind for kind, *_ in lines(world)] == ["charge_unknown", "wrong_amount"]


def test_an_id_in_another_currency_than_before_is_a_conflict(world: World, vendor: Vendor) -> None:
    vendor.default = (200, DONE)
    pay(world, "order-1")
    job = pay(world, "order-2", amount={"amount": 2500, "currency": "EUR"})
    assert (job["status"], job["attempts"]) == ("error", 1)
    assert "payment ch_1 is in USD, not in EUR" in job["last_error"]
    assert [kind for kind, *_ in lines(world)] == ["charge_unknown"]


def test_a_second_id_for_an_order_is_money_taken_twice(world: World, vendor: Vendor) -> None:
    vendor.default = (200, DONE)
    world.submit(an_order(correlation_id="order-1"))
    world.sql(
        "create function paid_meanwhile() returns trigger language plpgsql as $$ begin "
        "perform public.giftcard_record_payment('default', 'order-1', 'other key', 'http', 2500, 'USD', 'ch_0'); "
        "return null; end $$; create trigger paid_meanwhile after insert on giftcard_effects "
        "for each row when (new.name = 'charge') execute function paid_meanwhile()"
    )
    job = pay(world)
    assert (job["status"], "order order-1 is paid already, by ch_0" in job["last_error"]) == ("error", True)
    assert accepted(world) == [("order-1", "ch_0")]
    assert ("paid_twice", "ch_1", 2500, "USD") in lines(world)
