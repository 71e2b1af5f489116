"""Each kind of difference, in all that is read: the list, status, doctor, metrics, alerts and the day's report."""

from typing import Any

import pytest

from lib.giftcards.decisions import DIFFERENCES
from tests.support.books import event, kinds, pay
from tests.support.differences import MAKE, one_of_each, order
from tests.support.due import ANN, notified
from tests.support.factory import STAGES, World

# What the flow of a kind has besides: a charge that is unknown because a payment is missing, and so on.
ALSO = {"issue_unknown": {"paid_without_card"}}


def listed(world: World, **more: Any) -> dict[str, set[str]]:
    """The kinds of each flow, as the reconciliation lists them."""
    found: dict[str, set[str]] = {}
    for line in world.ask("list_differences", **more)["differences"]:
        found.setdefault(line["correlation_id"], set()).add(line["kind"])
    return found


def test_there_is_one_of_each_kind() -> None:
    assert set(MAKE) == set(DIFFERENCES)


def test_each_kind_is_listed_with_what_to_do(world: World) -> None:
    one_of_each(world)
    assert listed(world) == {kind: {kind} | ALSO.get(kind, set()) for kind in MAKE}
    lines = world.ask("list_differences", verify=True)["differences"]
    assert all(line["amount"] > 0 and line["currency"] == "USD" for line in lines), "nothing else is found by verify"
    assert all(line["action"].endswith(".") and line["detail"] and line["reference"] for line in lines)
    assert [line["since"] for line in lines] == sorted(line["since"] for line in lines)
    assert listed(world, tenant_id="acme") == {}


@pytest.mark.parametrize("kind", MAKE)
def test_each_kind_can_be_accepted_until_its_amount_changes(world: World, kind: str) -> None:
    MAKE[kind](world, kind)
    (line,) = [line for line in world.ask("list_differences")["differences"] if line["kind"] == kind]
    accepted = {"kind": kind, "tenant_id": "default", "item": line["reference"], "by": "kate", "reason": "known"}
    assert world.call("accept_difference", **accepted)["amount"] == line["amount"]
    assert kind not in listed(world).get(kind, set())
    world.run("update giftcard_accepted_differences set amount = amount + 1")
    assert kind in listed(world)[kind]


def test_every_reader_counts_the_same(world: World) -> None:
    one_of_each(world)
    counts = dict.fromkeys(MAKE, 1) | {"paid_without_card": 2}
    status = world.call("status", stages=dict(STAGES))
    shown: dict[str, int] = {}
    for line in status["differences"]:
        shown[line["kind"]] = shown.get(line["kind"], 0) + 1
    assert shown == counts
    assert world.call("doctor")["differences"] == counts
    assert world.call("metrics")["differences"] == counts
    report = world.call("make_report", tenant_id="default", day=str(world.now.date() if world.now else ""))
    assert {line["kind"]: line["items"] for line in report["differences"]} == counts
    assert report["totals"]["differences"] == sum(counts.values())


def test_each_kind_is_an_alert_of_its_own(world: World) -> None:
    one_of_each(world)
    raised = {condition: kind for condition, kind in notified(world)[ANN].items() if condition.startswith("books:")}
    assert raised == {f"books:{kind}": "raised" for kind in MAKE}
    details = {alert["condition"]: alert["detail"] for alert in world.ask("active_alerts")}
    assert {kind for kind in MAKE if details[f"books:{kind}"]["spent"]} == {"disputed_after_issue"}
    assert details["books:paid_without_card"]["items"] == 2
    assert notified(world) == {}


def test_alert_is_repeated_for_a_newer_difference_and_once_an_hour(world: World) -> None:
    order(world, "first")
    world.later(600)
    assert notified(world)[ANN] == {"books:paid_without_card": "raised"}
    order(world, "second")
    world.later(600)
    assert notified(world) == {}, "it was sent ten minutes ago"
    world.later(3000)
    assert notified(world)[ANN] == {"books:paid_without_card": "repeated"}
    world.later(3600)
    assert notified(world) == {}, "nothing is newer"
    world.run("update giftcard_orders set cancelled_at = now()")
    assert notified(world)[ANN] == {"books:paid_without_card": "resolved", "books:paid_but_cancelled": "raised"}


def test_many_of_one_kind_hide_no_other(world: World) -> None:
    for number in range(150):
        event(world, "captured", 1, payment=f"ch_{number}", event_id=f"c{number}", named_order=f"none-{number}")
    world.later(60)
    order(world, "order-7")
    world.later(600)
    assert set(notified(world)[ANN]) == {"books:money_without_order", "books:paid_without_card"}


def block(world: World, balance: int | None = None) -> None:
    world.call("block_card", tenant_id="default", correlation_id="order-7", balance=balance)


def amounts(world: World) -> list[tuple[str, str, int]]:
    lines = world.ask("list_differences", verify=True)["differences"]
    return [(line["kind"], line["reference"], line["amount"]) for line in lines]


def test_a_card_that_was_blocked_in_time_is_no_difference_once_all_money_is_back(world: World) -> None:
    reference = order(world, "order-7", card=True)
    event(world, "refunded", 700, payment=reference, event_id="re_1")
    block(world)
    assert amounts(world) == [("paid_without_card", reference, 1800)], "the customer paid that, and cannot spend it"
    assert pay(world, "order-7")["worth"] == 1800
    event(world, "refunded", 1800, payment=reference, event_id="re_2")
    assert amounts(world) == []


def test_a_dispute_that_is_won_after_the_block_leaves_money_without_a_card(world: World) -> None:
    reference = order(world, "order-7", card=True)
    event(world, "disputed", 2500, payment=reference, event_id="dp_1", as_of="2026-11-01T12:00Z")
    block(world, 2000)
    assert amounts(world) == [("disputed_after_issue", "default order-7", 2500)]
    event(world, "disputed", 0, payment=reference, event_id="dp_1", as_of="2026-11-02T12:00Z")
    assert amounts(world) == [("paid_without_card", reference, 2000)]


def test_an_operators_block_of_a_paid_card_is_a_decision_until_money_moves(world: World) -> None:
    reference = order(world, "order-7", card=True)
    world.later(60)
    world.call("request_block", tenant_id="default", correlation_id="order-7", by="kate")
    block(world)
    assert amounts(world) == []
    world.later(60)
    event(world, "refunded", 0, payment=reference, event_id="re_1")
    assert amounts(world) == [("paid_without_card", reference, 2500)]


def test_the_money_of_a_cancelled_order_stays_a_line_when_its_card_is_blocked(world: World) -> None:
    MAKE["card_of_cancelled_order"](world, "order-7")
    block(world)
    (paid,) = world.rows("select provider_ref from giftcard_payments")
    assert amounts(world) == [("paid_but_cancelled", paid["provider_ref"], 2500)]
    event(world, "refunded", 2500, payment=paid["provider_ref"], event_id="re_1")
    assert amounts(world) == []


def test_a_refund_of_an_unknown_payment_does_not_hide_an_unknown_charge(world: World) -> None:
    MAKE["charge_unknown"](world, "order-7")
    event(world, "refunded", 2500, payment="mistyped", event_id="re_1", named_order="order-7")
    assert {kind for kind, *_ in amounts(world)} == {"charge_unknown", "refund_without_payment"}


def test_an_accepted_difference_hides_no_later_one_of_the_same_amount(world: World) -> None:
    reference = order(world, "order-7", card=True)
    refund = {"payment": reference, "event_id": "re_1"}
    event(world, "refunded", 500, **refund, as_of="2035-01-01T12:00:00Z")
    accepted = {"kind": "refunded_after_issue", "tenant_id": "default", "item": "default order-7"}
    world.call("accept_difference", **accepted, by="kate", reason="our loss")
    assert kinds(world) == []
    world.later(60)
    event(world, "refunded", 500, **refund, as_of="2035-01-01T12:01:00Z")
    assert kinds(world) == [], "the same refund, described anew"
    event(world, "refunded", 0, **refund, as_of="2035-01-01T12:02:00Z")
    event(world, "refunded", 500, payment=reference, event_id="re_2")
    assert kinds(world) == ["refunded_after_issue"]


def test_a_charge_that_happened_by_a_decision_is_a_line_until_it_is_recorded(world: World) -> None:
    MAKE["charge_unknown"](world, "order-7")
    (job,) = world.rows("select id from giftcard_jobs")
    decision = {"happened": True, "result": {"reference": "ch_1"}, "by": "kate"}
    world.ask("decide_effect", job_id=job["id"], name="charge", **decision)
    assert kinds(world) == ["charge_unknown"]
    pay(world, "order-7", provider="http", provider_ref="ch_1")
    assert kinds(world) == ["paid_without_card"]


def test_money_that_arrives_in_parts_is_a_line_while_the_order_waits_for_it(world: World) -> None:
    order(world, "order-7", paid=False)
    world.enqueue("payment", correlation_id="order-7")
    for part in (1000, 1500):
        event(world, "captured", part, payment="sq_1", event_id=f"c{part}", provider="square", named_order="order-7")
    assert amounts(world) == [("wrong_amount", "sq_1", 2500)]
