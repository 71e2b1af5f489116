"""Events with all the fields that Square's documentation has for them (square_events/): each is read as it is sent."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.square import PAYMENT, SETTINGS, became, taken
from tests.support.square_books import card_of_order, movements, state_of, worth
from tests.support.world import World

FOLDER = Path(__file__).with_name("square_events")
GIFT_CARD = "gftc:00113070ba5745f0b2377c1b9570cb03"


def sample(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(**SETTINGS)


def test_each_sample_becomes_what_it_is_about(world: World) -> None:
    kinds = {path.stem: taken(world, sample(path.stem))["kind"] for path in sorted(FOLDER.glob("*.json"))}
    assert kinds == {
        "customer.created": "job",
        "dispute.created": "payment",
        "dispute.state.updated": "payment",
        "gift_card.activity.created": "kept",
        "gift_card.activity.updated": "kept",
        "gift_card.created": "kept",
        "gift_card.customer_linked": "kept",
        "gift_card.updated": "kept",
        "payment.created": "ignored",
        "payment.updated": "payment",
        "payment.updated.refunded": "payment",
        "refund.created": "payment",
        "refund.updated": "payment",
    }
    assert [why for kind, why in became(world) if kind == "ignored"] == ["not completed"]


def test_a_payment_a_refund_and_a_dispute_are_movements_of_one_payment(world: World) -> None:
    refund, dispute = f"refund:{PAYMENT}_refund", "dispute:ORSEVtZAJxb37RA1EiGw"
    captured = {f"captured:{PAYMENT}": 2500, f"refunded_total:{PAYMENT}": 0}
    story = [
        ("payment.updated", 2500, captured),
        ("refund.created", 2000, captured | {refund: 500}),
        ("refund.updated", 2000, captured | {refund: 500}),
        ("payment.updated.refunded", 2000, captured | {f"refunded_total:{PAYMENT}": 500, refund: 500}),
        ("dispute.created", 0, captured | {f"refunded_total:{PAYMENT}": 500, refund: 500, dispute: 2000}),
        ("dispute.state.updated", 2000, captured | {f"refunded_total:{PAYMENT}": 500, refund: 500, dispute: 0}),
    ]
    for name, left, known in story:
        taken(world, sample(name))
        assert (worth(world), movements(world)) == (left, known), name


def test_a_card_follows_its_events(world: World) -> None:
    card_of_order(world, reference=GIFT_CARD)
    for name, known in (
        ("gift_card.created", (0, "blocked")),
        ("gift_card.updated", (2500, "active")),
        ("gift_card.customer_linked", (2500, "active")),
        ("gift_card.activity.created", (1000, "active")),
        ("gift_card.activity.updated", (1000, "active")),
    ):
        assert taken(world, sample(name))["kind"] == "card"
        assert state_of(world, GIFT_CARD) == known, name
