"""What Square's events do here: customers come in, orders are paid, gift cards change."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.square import SETTINGS, activity, customer, event, events_of, gift_card, payment, taken
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
    world.store.erase_customer(world.value("select id from giftcard_customers"), by="test")
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
    assert world.job(job_id)["last_error"] == "PermanentError: payload: amount Field required"
    assert "must be left out for a customer without an order" in world.job(other)["last_error"]
    assert world.value("select count(*) from giftcard_customers") == 0


# Payments


@pytest.mark.parametrize("kind", ["payment.created", "payment.updated"])
def test_completed_payment_is_kept_for_the_order_that_it_names(world: World, kind: str) -> None:
    assert taken(world, payment("order-1", type=kind))["kind"] == "payment"
    (kept,) = events_of(world)
    assert kept["correlation_id"] == "order-1"
    assert kept["facts"] == {"reference": "hYy9pRFVxpDsO1FB05SunFWUe9JZY", "amount": 2500, "currency": "USD"}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (payment(status="APPROVED"), "not completed"),
        (payment(status="FAILED"), "not completed"),
        (payment(None), "no reference_id"),
        (payment(amount_money=None), "not as expected: amount_money"),
        (payment(amount_money={"amount": -1, "currency": "USD"}), "not as expected: amount_money.amount"),
        (payment(amount_money={"amount": 10**30, "currency": "USD"}), "not as expected: amount_money.amount"),
        (payment(amount_money={"amount": 1.5, "currency": "USD"}), "not as expected: amount_money.amount"),
        (event("payment.updated", object={}), "not as expected: object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_payment_that_pays_no_order_is_ignored(world: World, sent: dict[str, Any], why: str) -> None:
    assert taken(world, sent)["kind"] == "ignored"
    assert [kept["facts"] for kept in events_of(world)] == [{"why": why}]


# Gift cards


@pytest.fixture
def card(world: World) -> Callable[[], tuple[int, str]]:
    """A card of 25 dollars that Square has made; reads what is known of it."""
    statement = """insert into giftcard_cards (tenant_id, correlation_id, provider, provider_ref, number_encrypted,
        number_hash, last4, amount, balance, currency, created_at)
        values ('default', 'order-1', 'http', 'gftc:1', '', 'h', '1635', 2500, 2500, 'USD', now())"""
    world.sql(statement)

    def known() -> tuple[int, str]:
        (row,) = world.sql("select balance, state from giftcard_cards")
        return row["balance"], row["state"]

    return known


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
def test_card_is_what_square_says(world: World, card: Callable[[], Any], sent: Any, known: tuple[int, str]) -> None:
    assert taken(world, sent)["kind"] == "card"
    assert card() == known


def test_blocked_card_stays_so_until_square_says_otherwise(world: World, card: Callable[[], Any]) -> None:
    taken(world, gift_card(2500, state="BLOCKED", at="2026-11-28T10:00:00Z"))
    taken(world, activity(2000, at="2026-11-28T10:01:00Z"))
    assert card() == (2000, "blocked")
    taken(world, gift_card(2000, at="2026-11-28T10:02:00Z"))
    assert card() == (2000, "active")


def test_events_in_any_order_end_with_the_newest(world: World, card: Callable[[], Any]) -> None:
    assert taken(world, gift_card(500, at="2026-11-28T12:00:00Z"))["kind"] == "card"
    assert taken(world, gift_card(1500, at="2026-11-28T11:00:00Z"))["kind"] == "ignored"
    assert card() == (500, "active")
    assert events_of(world)[1]["facts"] == {"why": "not the newest"}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (gift_card(1, id="gftc:2"), "no card of ours"),
        (gift_card(1, currency="EUR"), "another currency"),
        (gift_card(-1), "not as expected: balance_money.amount"),
        (event("gift_card.customer_linked", object={"linked_customer_id": "x"}), "not as expected: object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_card_event_that_is_not_about_our_card_is_ignored(
    world: World, card: Callable[[], Any], sent: Any, why: str
) -> None:
    assert taken(world, sent)["kind"] == "ignored"
    assert [kept["facts"] for kept in events_of(world)] == [{"why": why}]
    assert card() == (2500, "active")
