"""Whatever happens to orders, payments and cards, in whatever order: what came in is on cards, or on a line.

Random sequences of everything that the books take, right and wrong, repeated and out of order. After each step the sums
and links of the books hold; in the end all money that is here equals what the cards are worth, but for the amounts of
the reconciliation's lines.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.books import KATE, OPEN, differences, on_lines
from tests.support.factory import World

FLOWS = st.sampled_from(("order-1", "order-2"))
AMOUNTS = st.sampled_from((500, 2500, 9900))
CURRENCIES = st.sampled_from(("USD", "USD", "USD", "EUR"))
PAYMENTS = st.sampled_from(("ch_1", "ch_2", "ch_3"))
MINUTES = st.integers(0, 5)

STEPS = st.one_of(
    st.tuples(st.just("take"), FLOWS, AMOUNTS, CURRENCIES),
    st.tuples(st.just("pay"), FLOWS, PAYMENTS, AMOUNTS, CURRENCIES),
    st.tuples(st.just("capture"), FLOWS, PAYMENTS, AMOUNTS, CURRENCIES),
    st.tuples(st.just("event"), st.sampled_from(("refunded", "disputed", "voided")), PAYMENTS, AMOUNTS, MINUTES),
    st.tuples(st.just("total"), PAYMENTS, AMOUNTS, MINUTES),
    st.tuples(st.just("issue"), FLOWS, AMOUNTS, CURRENCIES),
    st.tuples(st.just("block"), FLOWS),
    st.tuples(st.just("spend"), FLOWS, st.sampled_from((0, 500))),
    st.tuples(st.just("free"), FLOWS),
    st.tuples(st.just("cancel"), FLOWS),
)
# An order as it should go, as far as it comes; what happens then may be anything.
LIVES = st.tuples(FLOWS, PAYMENTS, AMOUNTS, st.sampled_from((1, 2, 3, 3))).map(
    lambda life: [
        ("take", life[0], life[2], "USD"),
        ("pay", life[0], life[1], life[2], "USD"),
        ("issue", life[0], life[2], "USD"),
    ][: life[3]]
)
OURS = ("GC404", "GC409")


def _take(world: World, flow: str, amount: int, currency: str) -> None:
    content = {"customer": KATE, "amount": {"amount": amount, "currency": currency}}
    world.call("take_order", tenant_id="default", correlation_id=flow, order=content, body_hash="x")


def _pay(world: World, flow: str, payment: str, amount: int, currency: str) -> None:
    money = {"provider": "http", "provider_ref": payment, "amount": amount, "currency": currency}
    order = {"tenant_id": "default", "correlation_id": flow}
    world.call("record_payment", **order, **money, idempotency_key=f"key of {payment}")


def _capture(world: World, flow: str, payment: str, amount: int, currency: str) -> None:
    record(world, "captured", payment, amount, event_id=f"captured:{payment}", currency=currency, order=flow)


def _event(world: World, kind: str, payment: str, amount: int, minute: int) -> None:
    record(world, kind, payment, amount, event_id=f"{kind}:{payment}:{amount % 3}", minute=minute)


def _total(world: World, payment: str, amount: int, minute: int) -> None:
    record(world, "refunded", payment, amount, event_id=f"total:{payment}", minute=minute, is_total=True)


def _issue(world: World, flow: str, amount: int, currency: str) -> None:
    card = {"provider_ref": f"card of {flow}", "number_encrypted": "e", "number_hash": flow, "last4": "4242"}
    order = {"tenant_id": "default", "correlation_id": flow}
    world.call("record_card", **order, provider="http", amount=amount, currency=currency, **card)


def _block(world: World, flow: str) -> None:
    world.call("block_card", tenant_id="default", correlation_id=flow)


def _spend(world: World, flow: str, left: int) -> None:
    world.run("update giftcard_cards set balance = least(balance, %s) where correlation_id = %s", left, flow)


def _free(world: World, flow: str) -> None:
    world.call("make_free_of_charge", tenant_id="default", correlation_id=flow, by="kate", reason="test")


def _cancel(world: World, flow: str) -> None:
    world.run("update giftcard_orders set cancelled_at = now() where correlation_id = %s", flow)


ACTS: dict[str, Callable[..., None]] = {
    "take": _take,
    "pay": _pay,
    "capture": _capture,
    "event": _event,
    "total": _total,
    "issue": _issue,
    "block": _block,
    "spend": _spend,
    "free": _free,
    "cancel": _cancel,
}


def act(world: World, what: str, *more: Any) -> bool:
    """Takes a step. What the books refuse changes nothing."""
    try:
        ACTS[what](world, *more)
    except psycopg.Error as error:
        if error.sqlstate not in OURS:
            raise
        return False
    return True


def record(
    world: World,
    kind: str,
    payment: str,
    amount: int,
    *,
    event_id: str,
    currency: str = "USD",
    order: str | None = None,
    minute: int | None = None,
    is_total: bool = False,
) -> None:
    assert world.now
    as_of = None if minute is None else (world.now + timedelta(minutes=minute)).isoformat()
    event = {"event_id": event_id, "kind": kind, "amount": amount, "currency": currency, "is_total": is_total}
    where = {"tenant_id": "default", "provider": "http", "provider_ref": payment, "named_order": order}
    world.call("record_payment_event", **where, **event, as_of=as_of)


def come_to_rest(world: World) -> None:
    """Every job that the books have enqueued is done, with a provider that blocks."""
    for row in world.rows("select correlation_id from giftcard_jobs where stage = 'block_card' and status = 'queued'"):
        world.call("block_card", tenant_id="default", correlation_id=row["correlation_id"])
    world.run("update giftcard_jobs set status = 'completed' where status = 'queued'")


def sums(world: World) -> dict[str, int]:
    """By currency: what is open."""
    return {row["currency"]: row["open"] for row in world.rows(OPEN) if row["open"]}


def check(world: World) -> None:
    """What holds at any time."""
    assert world.rows("select * from giftcard_verify_books()") == []
    unpaid = """select c.id from giftcard_cards c
                  join giftcard_orders o on (o.tenant_id, o.correlation_id) = (c.tenant_id, c.correlation_id)
                  left join giftcard_payments p on p.id = c.payment_id
                 where (c.amount, c.currency) <> (o.amount, o.currency)
                    or not o.free_of_charge and (p.amount, p.currency, p.correlation_id)
                       is distinct from (o.amount, o.currency, o.correlation_id)"""
    assert world.rows(unpaid) == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives=st.lists(LIVES, min_size=1, max_size=3), steps=st.lists(STEPS, min_size=6, max_size=25))
def test_money_is_on_cards_or_on_a_line(
    world: World, lives: list[list[tuple[Any, ...]]], steps: list[tuple[Any, ...]]
) -> None:
    with world.connection.transaction(force_rollback=True):
        for step in [step for life in lives for step in life] + steps:
            act(world, *step)
            check(world)
        come_to_rest(world)
        check(world)
        assert sums(world) == on_lines(differences(world))


EVENTS = st.lists(
    st.tuples(st.sampled_from(("refunded", "disputed", "voided")), AMOUNTS, st.integers(0, 2), MINUTES)
    | st.tuples(st.just("total"), AMOUNTS, st.just(0), MINUTES),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, order=st.randoms(use_true_random=False), repeated=st.integers(0, 3))
def test_events_of_a_payment_come_to_the_same_in_any_order(
    world: World, events: list[tuple[Any, ...]], order: Any, repeated: int
) -> None:
    worth = []
    for attempt in range(2):
        arriving = [("captured", 9900, 0, 0), *events, *events[:repeated]]
        if attempt:
            order.shuffle(arriving)
        with world.connection.transaction(force_rollback=True):
            for kind, amount, number, minute in arriving:
                is_total = kind == "total"
                name = "refunded" if is_total else kind
                record(world, name, "ch_1", amount, event_id=f"{kind}:{number}", minute=minute, is_total=is_total)
            worth.append(world.rows("select worth, amount from giftcard_payments"))
            check(world)
    assert worth[0] == worth[1]
