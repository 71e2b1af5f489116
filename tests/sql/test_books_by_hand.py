"""Plain SQL cannot break the books: constraints refuse it by name."""

import psycopg
import pytest

from tests.support.books import event, issue, kinds, pay, take
from tests.support.factory import World


def violated(world: World, statement: str) -> str | None:
    """The name of the constraint that refuses a statement."""
    with pytest.raises(psycopg.Error) as caught:
        world.run(statement)
    return caught.value.diag.constraint_name


BREAKS = {
    "a second payment": (
        "insert into giftcard_payments (tenant_id, correlation_id, provider, provider_ref, amount, currency,"
        " created_at) select tenant_id, correlation_id, provider, 'ch_2', amount, currency, now()"
        " from giftcard_payments",
        "giftcard_payments_order_key",
    ),
    "a payment of another amount": ("update giftcard_payments set amount = 1", "giftcard_payments_terms_fkey"),
    "a payment in another currency": ("update giftcard_payments set currency = 'EUR'", "giftcard_payments_terms_fkey"),
    "a payment of no order": (
        "update giftcard_payments set correlation_id = 'order-9'",
        "giftcard_cards_payment_fkey",
    ),
    "a payment of nothing": ("update giftcard_payments set amount = 0", "giftcard_payments_amount_is_positive"),
    "a payment of an unknown amount": (
        "update giftcard_payments set amount = null",
        "giftcard_payments_accepted_is_known",
    ),
    "a paid order that becomes free": (
        "insert into giftcard_audit (at, by, tenant_id, action, subject)"
        " values (now(), 'eve', 'default', 'free_of_charge', 'order order-7');"
        "update giftcard_orders set free_of_charge = true",
        "giftcard_payments_terms_fkey",
    ),
    "a payment that is deleted": ("delete from giftcard_payments", "giftcard_payment_events_payment_fkey"),
    "an order that is deleted": ("delete from giftcard_orders", "giftcard_payments_terms_fkey"),
    "a second card": (
        "insert into giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref, number_encrypted,"
        " number_hash, last4, amount, balance, currency, created_at) select tenant_id, correlation_id, payment_id,"
        " provider, 'r2', 's', 'h2', '4242', amount, balance, currency, now() from giftcard_cards",
        "giftcard_cards_order_key",
    ),
    "a card over another amount": ("update giftcard_cards set amount = 9900", "giftcard_cards_terms_fkey"),
    "a card in another currency": ("update giftcard_cards set currency = 'JPY'", "giftcard_cards_terms_fkey"),
    "a card without its payment": (
        "update giftcard_cards set payment_id = null",
        "giftcard_cards_have_a_payment_or_are_free",
    ),
    "a card of a free order that is not": (
        "update giftcard_cards set payment_id = null, free_of_charge = true",
        "giftcard_cards_terms_fkey",
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_plain_sql_cannot_break_the_books(world: World, what: str) -> None:
    take(world)
    pay(world)
    issue(world)
    statement, constraint = BREAKS[what]
    assert violated(world, statement) == constraint


@pytest.mark.parametrize("paid", ["not at all", "and refunded", "by another order"])
def test_plain_sql_cannot_make_a_card_that_is_not_paid(world: World, paid: str) -> None:
    take(world)
    take(world, "order-8")
    if paid == "and refunded":
        event(world, "refunded", 1, payment=pay(world)["reference"], event_id="r1")
    elif paid == "by another order":
        pay(world, "order-8")
    card = (
        "insert into giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref, number_encrypted,"
        " number_hash, last4, amount, balance, currency, created_at) values ('default', 'order-7', {}, 'ledger', 'r',"
        " 's', 'h', '4242', 2500, 2500, 'USD', now())"
    )
    payment = "null" if paid == "not at all" else "(select id from giftcard_payments)"
    expected = {
        "not at all": "giftcard_cards_have_a_payment_or_are_free",
        "and refunded": "giftcard_cards_is_paid",
        "by another order": "giftcard_cards_payment_fkey",
    }
    assert violated(world, card.format(payment)) == expected[paid]


@pytest.mark.parametrize(
    "statement",
    [
        "update giftcard_orders set free_of_charge = true",
        "insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at, free_of_charge)"
        " values ('order-9', 'x', 1, 'USD', now(), true)",
    ],
)
def test_plain_sql_cannot_make_an_order_free_of_charge(world: World, statement: str) -> None:
    take(world)
    assert violated(world, statement) == "giftcard_orders_free_of_charge_is_audited"


def test_a_card_that_is_deleted_leaves_a_payment_without_a_card(world: World) -> None:
    take(world)
    pay(world)
    issue(world)
    world.run("delete from giftcard_cards")
    assert kinds(world) == ["paid_without_card"]
    issue(world)
    assert kinds(world) == []


def test_cards_that_are_all_gone_are_found_by_verify(world: World) -> None:
    take(world)
    pay(world)
    issue(world)
    world.run("truncate giftcard_cards")
    assert kinds(world) == ["books_differ"]


def test_a_card_that_is_not_inserted_after_all_is_not_the_payments(world: World) -> None:
    take(world)
    reference = pay(world)["reference"]
    issue(world)
    again = BREAKS["a second card"][0] + " on conflict do nothing"
    assert world.run(again) == 0
    assert kinds(world) == []
    event(world, "refunded", 2500, payment=reference, event_id="re_1")
    assert kinds(world) == ["refunded_after_issue"]


def test_sums_beyond_all_bounds_are_no_difference(world: World) -> None:
    take(world)
    reference = pay(world)["reference"]
    for number in range(10):
        event(world, "refunded", 10**15, payment=reference, event_id=f"re_{number}")
    assert kinds(world) == []
