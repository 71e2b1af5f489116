"""Whose events count: those of our merchant, and of our locations where money moves."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.square import (
    SETTINGS,
    activity,
    became,
    customer,
    dispute,
    event,
    events_of,
    gift_card,
    payment,
    refund,
    taken,
)
from tests.support.square_books import card_of_order, differences, state_of
from tests.support.world import World

Make = Callable[..., World]

MONEY = [payment, refund, dispute]
ALL = [*MONEY, customer, lambda: gift_card(5), lambda: activity(5), lambda: event("a.b", object={})]


def nothing_happened(world: World) -> bool:
    books = "select (select count(*) from giftcard_payments) + (select count(*) from giftcard_payment_events)"
    return world.statuses() == {} and world.value(books) == 0 and differences(world) == []


@pytest.mark.parametrize("other", ["MLEFBHHSJGVHD", None], ids=str)
@pytest.mark.parametrize("make", ALL)
def test_event_of_another_merchant_changes_nothing(make_world: Make, make: Callable[[], Any], other: Any) -> None:
    world = make_world(**SETTINGS)
    assert taken(world, make() | {"merchant_id": other})["kind"] == "ignored"
    assert became(world) == [("ignored", "another merchant")]
    assert events_of(world)[0]["correlation_id"] is None
    assert nothing_happened(world)


@pytest.mark.parametrize("make", MONEY)
def test_money_of_another_location_changes_nothing(make_world: Make, make: Callable[..., Any]) -> None:
    world = make_world(**SETTINGS)
    assert taken(world, make(location_id="ANOTHER"))["kind"] == "ignored"
    assert became(world) == [("ignored", "another location")]
    assert nothing_happened(world)
    # Without a location the merchant alone decides.
    assert taken(world, make(location_id=None))["kind"] == "payment"


@pytest.mark.parametrize("make", MONEY)
def test_each_of_several_locations_counts(make_world: Make, make: Callable[..., Any]) -> None:
    world = make_world(**SETTINGS | {"SQUARE_LOCATION_ID": "FIRST, SECOND"})
    kinds = [taken(world, make(location_id=name))["kind"] for name in ("FIRST", "SECOND", "THIRD")]
    assert kinds == ["payment", "payment", "ignored"]


@pytest.mark.parametrize("make", MONEY)
def test_without_the_settings_every_merchant_and_location_counts(make_world: Make, make: Callable[..., Any]) -> None:
    world = make_world(**SETTINGS | {"SQUARE_MERCHANT_ID": None, "SQUARE_LOCATION_ID": None})
    sent = make(location_id="ANOTHER") | {"merchant_id": "another"}
    assert taken(world, sent)["kind"] == "payment"


def test_card_may_be_used_at_any_location_of_the_merchant(make_world: Make) -> None:
    world = make_world(**SETTINGS)
    card_of_order(world)
    sent = activity(700)
    sent["data"]["object"]["gift_card_activity"]["location_id"] = "ANOTHER"
    assert taken(world, sent)["kind"] == "card"
    assert state_of(world) == (700, "active")
