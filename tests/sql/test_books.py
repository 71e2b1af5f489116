"""The books: an order's facts are fixed, it has one payment and one card over them, and nothing differs in silence."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from lib.giftcards import money
from tests.support.books import event, issue, kinds, pay, take
from tests.support.factory import World


def refused(act: Callable[..., Any], *arguments: Any, **more: Any) -> str | None:
    """SQLSTATE of the refusal, or the name of the violated constraint."""
    with pytest.raises(psycopg.Error) as caught:
        act(*arguments, **more)
    return caught.value.diag.constraint_name or caught.value.sqlstate


# An order is taken in once


def test_an_order_is_taken_in_once_and_stays_as_it_was(world: World) -> None:
    books = take(world)
    assert books["order"] == {
        "page_id": world.rows("select page_id from giftcard_orders")[0]["page_id"],
        "amount": 2500,
        "currency": "USD",
        "customer_id": None,
        "free_of_charge": False,
        "cancelled": False,
        "details": {"customer": {"given_name": "Kate", "email": "kate@example.org", "external_id": "C-1"}},
    }
    assert take(world, amount=99, currency="EUR") == books
    assert world.ask("books", tenant_id="acme", correlation_id="order-7") is None


@pytest.mark.parametrize("change", ["amount = 1", "currency = 'EUR'", "customer_id = 2", "customer_id = null"])
def test_facts_of_an_order_cannot_be_changed(world: World, change: str) -> None:
    take(world)
    world.run("update giftcard_orders set customer_id = 1")
    assert refused(world.run, f"update giftcard_orders set {change}") == "giftcard_orders_facts_are_fixed"


def test_an_order_keeps_its_customer(world: World) -> None:
    take(world)
    who = {"tenant_id": "default", "given_name": "Kate", "family_name": None, "correlation_id": "order-7"}
    world.call("save_customer", external_id="C-1", email="kate@example.org", **who)
    other = {"external_id": "C-2", "email": "eve@example.org"}
    assert refused(world.call, "save_customer", **other, **who) == "GC409"
    assert [c["external_id"] for c in world.rows("select external_id from giftcard_customers")] == ["C-1"]


# One payment


def test_an_order_is_paid_once_and_repeating_it_is_harmless(world: World) -> None:
    take(world)
    first = pay(world, idempotency_key="gc_1")
    assert (first["reference"], first["amount"], first["worth"]) == ("ledger:gc_1", 2500, 2500)
    assert pay(world, idempotency_key="gc_1") == first == world.ask("find_payment", idempotency_key="gc_1")
    assert len(world.rows("select * from giftcard_payment_events")) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 9900},
        {"currency": "EUR"},
        {"idempotency_key": "gc_2"},
        {"provider_ref": "ch_2"},
        {"provider": "http"},
    ],
)
def test_a_payment_that_differs_from_the_recorded_one_is_refused(world: World, other: dict[str, Any]) -> None:
    take(world)
    pay(world, idempotency_key="gc_1")
    assert refused(pay, world, **({"idempotency_key": "gc_1"} | other)) == "GC409"
    assert world.rows("select amount, currency, provider_ref from giftcard_payments") == [
        {"amount": 2500, "currency": "USD", "provider_ref": "ledger:gc_1"}
    ]


@pytest.mark.parametrize("other", [{"amount": 9900}, {"amount": 1}, {"currency": "EUR"}])
def test_a_payment_of_another_amount_is_not_accepted(world: World, other: dict[str, Any]) -> None:
    take(world)
    assert refused(pay, world, **other) == "GC409"


def test_what_no_order_asks_for_is_not_paid(world: World) -> None:
    assert refused(pay, world, amount=2500, currency="USD") == "GC404"
    take(world)
    take(world, "order-8")
    pay(world, provider="http", provider_ref="ch_1")
    assert refused(pay, world, "order-8", provider="http", provider_ref="ch_1") == "GC409"
    assert refused(pay, world, "order-8", idempotency_key="key of default order-7") == "GC409"
    world.run("update giftcard_orders set cancelled_at = now() where correlation_id = 'order-8'")
    assert refused(pay, world, "order-8") == "GC409"


# One card, only for what is paid


def test_an_order_has_one_card_and_repeating_it_is_harmless(world: World) -> None:
    take(world)
    payment = pay(world)
    first = issue(world)
    assert issue(world) == first
    (card,) = world.rows("select * from giftcard_cards")
    assert (card["balance"], card["amount"], card["state"], card["unpaid"]) == (2500, 2500, "active", 0)
    assert world.rows("select id, card_id from giftcard_payments") == [{"id": payment["id"], "card_id": card["id"]}]
    for other in ({"number_hash": "2"}, {"provider_ref": "2"}, {"amount": 1}, {"currency": "EUR"}):
        assert refused(issue, world, **other) == "GC409"


def test_a_card_has_the_orders_customer(world: World) -> None:
    take(world)
    who = {"tenant_id": "default", "external_id": "C-1", "given_name": "Kate", "family_name": None}
    customer = world.call("save_customer", email="kate@example.org", correlation_id="order-7", **who)["id"]
    world.call("assign_code", customer_id=customer, candidates=("KATE0001",))
    pay(world)
    issue(world)
    card = world.ask("books", tenant_id="default", correlation_id="order-7")["card"]
    assert (card["last4"], card["personal_code"], card["number_encrypted"]) == ("4242", "KATE0001", "secret")


def test_a_number_that_another_card_has_is_a_conflict_by_name(world: World) -> None:
    for flow in ("order-7", "order-8"):
        take(world, flow)
        pay(world, flow)
    issue(world, number_hash="same")
    assert refused(issue, world, "order-8", number_hash="same") == "giftcard_cards_number_key"


@pytest.mark.parametrize("order", ["none", "not paid"])
def test_without_a_payment_there_is_no_card(world: World, order: str) -> None:
    if order == "none":
        assert refused(issue, world, amount=100, currency="USD") == "GC404"
    else:
        take(world)
        assert refused(issue, world) == "GC409"
    assert world.rows("select * from giftcard_cards") == []


@pytest.mark.parametrize("other", [{"amount": 1_000_000_000}, {"currency": "JPY"}])
def test_a_card_over_another_amount_is_refused(world: World, other: dict[str, Any]) -> None:
    take(world)
    pay(world)
    assert refused(issue, world, **other) == "GC409"


def test_four_digits_are_four_digits(world: World) -> None:
    take(world)
    pay(world)
    assert refused(issue, world, last4="42424242") == "giftcard_cards_last4_is_four_digits"


def test_a_free_order_needs_no_payment_and_accepts_none(world: World) -> None:
    take(world)
    free = {"tenant_id": "default", "correlation_id": "order-7", "by": "kate", "reason": "goodwill"}
    world.call("make_free_of_charge", **free)
    assert refused(pay, world) == "GC409"
    issue(world)
    assert kinds(world) == []
    (audit,) = world.rows("select by, action, subject, details from giftcard_audit")
    assert audit["details"].pop("reason") == "goodwill"
    assert (audit["by"], audit["action"], audit["subject"]) == ("kate", "free_of_charge", "order order-7")


@pytest.mark.parametrize("state", ["paid", "cancelled", "being charged"])
def test_an_order_that_is_paid_for_cannot_become_free(world: World, state: str) -> None:
    take(world)
    if state == "paid":
        pay(world)
    elif state == "cancelled":
        world.run("update giftcard_orders set cancelled_at = now()")
    else:
        job = world.claimed("payment", correlation_id="order-7")
        world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge", of_flow=True)
    free = {"tenant_id": "default", "correlation_id": "order-7", "by": "kate", "reason": "goodwill"}
    assert refused(world.call, "make_free_of_charge", **free) == "GC409"
    assert world.rows("select * from giftcard_audit") == []


@pytest.mark.parametrize("currency", [*money._NO_DIGITS.split(), *money._THREE_DIGITS.split(), "USD", "EUR", "XTS"])
def test_money_in_refusals_has_the_digits_of_its_currency(world: World, currency: str) -> None:
    digits = money.minor_digits(currency)
    (row,) = world.rows("select giftcard_format_money(-1234567, %s) as text", currency)
    assert row["text"] == f"{Decimal(-1234567).scaleb(-digits)} {currency}"


def test_a_payment_wakes_each_job_that_waits_for_it(world: World) -> None:
    take(world)
    later = {"correlation_id": "order-7", "scheduled_at": "2036-01-01T00:00:00Z"}
    jobs = [world.enqueue("payment", dedup_key=key, **later) for key in ("", "again")]
    others = [world.enqueue("payment", correlation_id="order-8"), world.enqueue("email", **later)]
    before = world.snapshot(*others)
    event(world, "captured", 2500, payment="ch_1", event_id="captured:ch_1", named_order="order-7")
    assert [world.job(job)["scheduled_at"] for job in jobs] == [world.now, world.now]
    assert world.snapshot(*others) == before
