"""What Square's events do here: customers come in, payments enter the books, gift cards change."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.acts import KIM
from tests.support.square import (
    PAYMENT,
    SETTINGS,
    activity,
    became,
    customer,
    dispute,
    event,
    events_of,
    gift_card,
    minute,
    payment,
    refund,
    taken,
)
from tests.support.square_books import card_of_order, movements, state_of
from tests.support.world import World

Make = Callable[..., World]


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(**SETTINGS)


# Customers


def test_customer_comes_in_without_an_order(world: World) -> None:
    sent = customer()
    assert taken(world, sent)["kind"] == "job"
    job = world.job()
    assert (job["stage"], job["tenant_id"], job["trigger_type"]) == ("customer_ingest", "default", "square")
    assert job["correlation_id"] == f"square:{sent['event_id']}"
    world.run()
    assert world.statuses() == {"completed": 1}
    (row,) = world.sql("select * from giftcard_customers")
    assert (row["external_id"], row["email"]) == ("JDKYHBWT1D4F8MFH63DBMEN8Y4", "kate@example.com")
    assert (row["given_name"], row["family_name"], row["personal_code"]) == ("Kate", "Rodgers", None)


def test_customer_belongs_to_the_tenant_that_is_set(make_world: Make) -> None:
    world = make_world(SQUARE_TENANT_ID="acme", **SETTINGS)
    taken(world, customer())
    world.run()
    assert world.value("select tenant_id from giftcard_customers") == "acme"
    assert events_of(world)[0]["tenant_id"] == "acme"


def test_customer_who_came_in_is_erased_like_any_other(world: World) -> None:
    taken(world, customer())
    world.run()
    world.store.erase_customer(world.value("select id from giftcard_customers"), caller=KIM)
    everything = str(world.sql("select * from giftcard_jobs")) + str(world.sql("select * from giftcard_customers"))
    assert not any(text in everything for text in ("kate@example.com", "Rodgers", "JDKYHB"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"email_address": None}, "no e-mail address"),
        ({"email_address": ""}, "no e-mail address"),
        ({"email_address": "kate"}, "not as expected: customer.email"),
        ({"given_name": "K\x07"}, "not as expected: customer.given_name"),
        ({"given_name": "K" * 201}, "not as expected: customer.given_name"),
        ({"id": None}, "not as expected: id"),
        ({"id": 7}, "not as expected: id"),
    ],
    ids=str,
)
def test_customer_that_cannot_be_ours_is_ignored_and_it_is_kept_why(world: World, changes: Any, why: str) -> None:
    assert taken(world, customer(**changes)) == {"kind": "ignored", "repeated": False}
    assert [kept["facts"] for kept in events_of(world)] == [{"why": why}]
    assert world.statuses() == {}


def test_customer_with_no_name_comes_in(world: World) -> None:
    sent = customer()
    for name in ("given_name", "family_name"):
        del sent["data"]["object"]["customer"][name]
    assert taken(world, sent)["kind"] == "job"
    world.run()
    assert world.statuses() == {"completed": 1}


def test_order_without_an_amount_is_no_customer_without_an_order(world: World) -> None:
    (job_id,) = world.enqueue("customer_ingest", {"customer": {"given_name": "Kate", "email": "kate@example.com"}})
    both = {"without_order": True, "amount": {"amount": 1, "currency": "USD"}}
    (other,) = world.enqueue(
        "customer_ingest", {"customer": {"given_name": "Kate", "email": "kate@example.com"}} | both
    )
    world.run()
    assert world.job(job_id)["last_error"] == "PermanentError: payload: amount is required"
    assert "must be left out for a customer without an order" in world.job(other)["last_error"]
    assert world.value("select count(*) from giftcard_customers") == 0


# Payments


@pytest.mark.parametrize("kind", ["payment.created", "payment.updated"])
def test_completed_payment_is_a_row_that_names_its_order(world: World, kind: str) -> None:
    assert taken(world, payment("order-1", type=kind))["kind"] == "payment"
    (kept,) = events_of(world)
    assert (kept["correlation_id"], kept["facts"]) == ("order-1", {})
    (row,) = world.sql("select * from giftcard_payments")
    assert (row["provider"], row["provider_ref"], row["named_order"]) == ("square", PAYMENT, "order-1")
    assert (row["amount"], row["currency"], row["worth"], row["correlation_id"]) == (2500, "USD", 2500, None)
    assert movements(world) == {f"captured:{PAYMENT}": 2500, f"refunded_total:{PAYMENT}": 0}


NOT_OURS = "not ours: its reference_id does not begin with SQUARE_REFERENCE_PREFIX"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (payment(status="APPROVED"), "not completed"),
        (payment(status="PENDING"), "not completed"),
        (payment(None), NOT_OURS),
        (payment(reference_id="order-1"), NOT_OURS),
        (payment(reference_id="GC:order-1"), NOT_OURS),
        (payment(reference_id="gc:"), NOT_OURS),
        (payment(None, status="CANCELED"), NOT_OURS),
        (payment(amount_money=None), "not as expected: amount_money"),
        (payment(amount_money={"amount": -1, "currency": "USD"}), "not as expected: amount_money.amount"),
        (payment(amount_money={"amount": 10**30, "currency": "USD"}), "not as expected: amount_money.amount"),
        (payment(amount_money={"amount": 1.5, "currency": "USD"}), "not as expected: amount_money.amount"),
        (payment(updated_at="yesterday"), "not as expected: updated_at"),
        (event("payment.updated", object={}), "not as expected: object"),
        (refund(payment_id=None), "no payment_id"),
        (refund(status=None), "not as expected: status"),
        (dispute(id=None), "no id"),
        (dispute(disputed_payment={}), "not as expected: disputed_payment.payment_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_moves_no_money_of_ours_is_ignored(world: World, sent: dict[str, Any], why: str) -> None:
    assert taken(world, sent)["kind"] == "ignored"
    assert became(world) == [("ignored", why)]
    assert world.value("select count(*) from giftcard_payments") == 0


# Gift cards


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        (gift_card(1000), (1000, "active")),
        (gift_card(0), (0, "redeemed")),
        (gift_card(7000), (7000, "active")),
        (gift_card(2500, state="BLOCKED"), (2500, "blocked")),
        (gift_card(0, state="DEACTIVATED"), (0, "blocked")),
        (gift_card(2500, state="PENDING"), (2500, "blocked")),
        (activity(700), (700, "active")),
        (activity(0), (0, "redeemed")),
    ],
    ids=["part", "all", "more", "blocked", "deactivated", "pending", "activity", "last activity"],
)
def test_card_is_what_square_says(world: World, sent: Any, known: tuple[int, str]) -> None:
    card_of_order(world)
    assert taken(world, sent)["kind"] == "card"
    assert state_of(world) == known


def test_blocked_card_stays_so_until_square_says_otherwise(world: World) -> None:
    card_of_order(world)
    taken(world, gift_card(2500, state="BLOCKED", at=minute(0)))
    taken(world, activity(2000, at=minute(1)))
    assert state_of(world) == (2000, "blocked")
    taken(world, gift_card(2000, at=minute(2)))
    assert state_of(world) == (2000, "active")


def test_state_is_not_taken_back_by_an_older_balance(world: World) -> None:
    """State and balance have a time each: an activity says nothing of the state."""
    card_of_order(world)
    taken(world, activity(2000, at=minute(5)))
    assert taken(world, gift_card(2500, state="BLOCKED", at=minute(3)))["kind"] == "card"
    assert state_of(world) == (2000, "blocked")


def test_events_in_any_order_end_with_the_newest(world: World) -> None:
    card_of_order(world)
    assert taken(world, gift_card(500, at=minute(2)))["kind"] == "card"
    assert taken(world, gift_card(1500, at=minute(1)))["kind"] == "ignored"
    assert state_of(world) == (500, "active")
    assert became(world)[1] == ("ignored", "not the newest")


def test_events_before_the_card_is_ours_are_kept_and_applied(world: World) -> None:
    sent = [gift_card(900, at=minute(2)), gift_card(2500, state="BLOCKED", at=minute(1)), activity(500, at=minute(3))]
    others = [gift_card(7, id="gftc:2"), gift_card(1, currency="EUR"), gift_card(2**60, at=minute(9))]
    for one in (*sent, *others):
        assert taken(world, one)["kind"] == "kept"
    assert [one["facts"]["reference"] for one in events_of(world)].count("gftc:1") == 5
    card_of_order(world)
    assert state_of(world) == (500, "active")
    assert became(world)[:5] == [("card", None)] * 3 + [("kept", None), ("ignored", "another currency")]
    # A balance that no card can have does not keep the card from being recorded.
    kind, why = became(world)[5]
    assert (kind, "giftcard_cards_balance_is_not_negative" in str(why)) == ("ignored", True)
    assert taken(world, sent[0]) == {"kind": "card", "repeated": True}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (gift_card(1, currency="EUR"), "another currency"),
        (gift_card(-1), "not as expected: balance_money.amount"),
        (event("gift_card.customer_linked", object={"linked_customer_id": "x"}), "not as expected: object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_card_event_that_says_nothing_of_our_card_is_ignored(world: World, sent: Any, why: str) -> None:
    card_of_order(world)
    assert taken(world, sent)["kind"] == "ignored"
    assert became(world) == [("ignored", why)]
    assert state_of(world) == (2500, "active")
