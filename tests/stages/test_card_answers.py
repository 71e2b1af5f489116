"""What a card service answers is checked: another card than the order's is not kept, and is not forgotten."""

from collections.abc import Callable
from typing import Any

import pytest

from dev.testing.vendors import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

NUMBER = "9911000000000008"
DONE = {"id": "card_1", "number": NUMBER}


@pytest.fixture
def world(make_world: Make, vendor: Vendor) -> World:
    return make_world(
        GIFTCARD_CARD_PROVIDER="http", GIFTCARD_CARD_URL=f"{vendor.url}/cards", GIFTCARD_CIRCUIT_THRESHOLD=0
    )


def issue(world: World, order: str = "order-1") -> dict[str, Any]:
    """Submits an order; its card's job after a tick."""
    world.submit(an_order(correlation_id=order))
    world.tick()
    return world.sql("select * from giftcard_jobs where stage = 'issue_card' and correlation_id = %s", order)[0]


def lines(world: World) -> list[tuple[str, str]]:
    rows = world.sql("select kind, correlation_id from giftcard_reconcile(p_verify => true) order by kind")
    return [(row["kind"], row["correlation_id"]) for row in rows]


UNKNOWN = [("issue_unknown", "order-1"), ("paid_without_card", "order-1")]


@pytest.mark.parametrize(
    "money", [{}, {"amount": 2500, "currency": "usd", "status": "ACTIVE", "reference": "order-1"}, {"amount": None}]
)
def test_an_answer_that_fits_is_the_card(world: World, vendor: Vendor, money: dict[str, Any]) -> None:
    vendor.default = (201, DONE | money)
    assert issue(world)["status"] == "completed"
    assert world.value("select last4 from giftcard_cards") == "0008"
    assert lines(world) == []


@pytest.mark.parametrize(
    ("money", "text"),
    [
        ({"amount": 250_000}, "$2,500.00"),
        ({"amount": 0}, "$0.00"),
        ({"currency": "JPY"}, "¥2,500"),
        ({"amount": 1, "currency": "EUR"}, "€0.01"),
    ],
)
def test_a_card_over_another_amount_is_not_kept(world: World, vendor: Vendor, money: dict[str, Any], text: str) -> None:
    vendor.default = (201, DONE | money)
    job = issue(world)
    problem = f"the card service issued {text} instead of $25.00 as card_1: block it there"
    assert (job["status"], job["last_error"]) == ("error", f"PermanentError: {problem}")
    assert world.sql("select * from giftcard_cards") == []
    assert lines(world) == UNKNOWN


@pytest.mark.parametrize(
    "answer", [{"reference": "order-2"}, {"status": "unheard of"}, {"amount": "2500"}, {"currency": ""}, {"id": {}}]
)
def test_what_cannot_be_believed_is_asked_for_again(world: World, vendor: Vendor, answer: dict[str, Any]) -> None:
    vendor.respond((201, DONE | answer))
    vendor.default = (201, DONE)
    assert issue(world)["status"] == "queued"
    world.move(10)
    assert issue(world)["status"] == "completed"
    assert len({request.headers["Idempotency-Key"] for request in vendor.requests}) == 1


@pytest.mark.parametrize("second", [DONE, DONE | {"id": "card_2"}, DONE | {"number": "9911000000000016"}])
def test_the_card_of_another_order_is_not_given_away_twice(
    world: World, vendor: Vendor, second: dict[str, Any]
) -> None:
    vendor.respond((201, DONE), (201, second))
    assert issue(world)["status"] == "completed"
    job = issue(world, "order-2")
    assert (job["status"], "cannot be kept, block it at its provider" in job["last_error"]) == ("error", True)
    assert NUMBER not in job["last_error"]
    assert [row["correlation_id"] for row in world.sql("select * from giftcard_cards")] == ["order-1"]
    assert lines(world) == [("issue_unknown", "order-2"), ("paid_without_card", "order-2")]


def test_a_looked_up_card_is_checked_in_the_same_way(world: World, vendor: Vendor) -> None:
    vendor.respond("cut", (200, DONE | {"amount": 9900}))
    assert issue(world)["status"] == "queued"
    world.move(21 * 3600)
    job = issue(world)
    assert [request.method for request in vendor.requests] == ["POST", "GET"]
    assert (job["status"], "issued $99.00 instead of $25.00" in job["last_error"]) == ("error", True)
    assert lines(world) == UNKNOWN
