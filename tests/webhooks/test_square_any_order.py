"""Whatever Square sends, in whatever order and however often: the same books, and each difference is named."""

from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.postgres import Embedded
from tests.support import square
from tests.support.square import SETTINGS, minute, money, taken
from tests.support.square_books import accept, card, order
from tests.support.world import World, a_world

pytestmark = pytest.mark.slow

MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PRICE = 2500
# What each payment names, and its amount: it does not change at Square once it is completed.
PAYMENTS = {"a": ("order", PRICE), "b": ("order", 2000), "c": ("nothing", PRICE), "d": ("order", PRICE)}
RECORD = "the card is recorded"

names = st.sampled_from(sorted(PAYMENTS))
times = st.integers(0, 5)
amounts = st.sampled_from([0, 1, 500, 2000, PRICE])
payments = st.tuples(
    st.just("payment"), names, st.sampled_from(["COMPLETED", "COMPLETED", "CANCELED", "FAILED", "APPROVED"]), amounts,
    times,
)  # fmt: skip
refunds = st.tuples(
    st.just("refund"), names, st.sampled_from(["PENDING", "COMPLETED", "REJECTED", "FAILED"]), amounts, times
)
disputes = st.tuples(
    st.just("dispute"), names, st.sampled_from(["EVIDENCE_REQUIRED", "PROCESSING", "WON", "LOST"]), amounts, times
)
cards = st.tuples(st.just("card"), st.just("card"), st.sampled_from(["ACTIVE", "BLOCKED", "activity"]), amounts, times)
stories = st.lists(payments | refunds | disputes | cards, min_size=1, max_size=12, unique=True)
numbers = count()


@pytest.fixture(scope="module")
def world(postgres: Embedded, template: str) -> Iterator[World]:
    """One for all examples, each about orders of its own."""
    postgres.start()
    url = postgres.create_database("square_any_order", template=template)
    with a_world(url, **SETTINGS) as world:
        yield world


def event_of(what: str, name: str, state: str, amount: int, time: int, *, of: str) -> dict[str, Any]:
    """One line of a story, told of these orders."""
    at, id = minute(time), f"{name} of {of}"
    if what == "payment":
        named, paid = PAYMENTS[name]
        sent = square.payment(f"{named}-{of}", id=id, amount=paid, status=state, at=at, refunded_money=money(amount))
    elif what == "refund":
        sent = square.refund(amount, of=id, id=f"r {id}", status=state, at=at)
    elif what == "dispute":
        sent = square.dispute(state, amount=amount, of=id, id=f"d {id}", at=at)
    elif state == "activity":
        sent = square.activity(amount, id=id, at=at)
    else:
        sent = square.gift_card(amount, state=state, id=id, at=at)
    return deepcopy(sent)


def told(world: World, story: list[Any]) -> dict[str, Any]:
    """What the books hold after it, without the names that are this telling's own."""
    of = f"t{next(numbers)}t"
    order(world, f"order-{of}")
    order(world, f"other-{of}")
    accept(world, f"other-{of}")
    for line in story:
        if line == RECORD:
            card(world, f"other-{of}", reference=f"card of {of}")
        else:
            taken(world, event_of(*line, of=of))
    queries = {
        "payments": "select provider_ref, named_order, amount, currency, worth from giftcard_payments"
        " where provider_ref like %s and provider = 'square' order by provider_ref",
        "events": "select e.event_id, e.kind, e.amount, e.is_total, e.as_of from giftcard_payment_events e"
        " where e.event_id like %s and provider = 'square' order by e.event_id",
        "card": "select state, balance, state_as_of, balance_as_of from giftcard_cards where provider_ref like %s",
        "lines": "select kind, reference, amount, currency from giftcard_reconcile(p_verify => true, p_limit => 100000)"
        " where reference like %s order by reference, kind",
    }
    found = {name: world.sql(query, f"% of {of}") for name, query in queries.items()}
    world.sql("delete from giftcard_payment_events where payment_id in (select id from giftcard_payments"
              " where provider_ref like %s)", f"% of {of}")  # fmt: skip
    world.sql("delete from giftcard_payments where provider_ref like %s", f"% of {of}")
    return {
        name: [{key: str(value).replace(of, "#") for key, value in row.items()} for row in rows]
        for name, rows in found.items()
    }


def worths(story: list[Any]) -> dict[str, int]:
    """What each payment is worth, computed anew: of each description the newest, of two of one time the larger."""
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for what, name, state, amount, time in (line for line in story if line != RECORD):
        if what == "payment" and state != "APPROVED":
            told = {"captured": PAYMENTS[name][1]}
            told |= {"total": amount} if state == "COMPLETED" else {"voided": PAYMENTS[name][1]}
        elif what == "refund":
            told = {"refund": amount if state in ("PENDING", "COMPLETED") else 0}
        elif what == "dispute":
            told = {"dispute": 0 if state == "WON" else amount}
        else:
            told = {}
        for kind, value in told.items():
            newest[name, kind] = max(newest.get((name, kind), (-1, 0)), (time, value))
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (name, kind), (_, value) in newest.items():
        sums[name][kind] = value
    return {
        name: of["captured"] - max(of["total"], of["refund"]) - of["voided"] - of["dispute"]
        for name, of in sums.items()
    }


def lines(worth: dict[str, int], known: set[str]) -> list[tuple[str, str, int]]:
    """The reconciliation's, of payments that name an order: of it nothing runs, and it accepts none of them."""
    found = []
    for name, value in sorted(worth.items()):
        named, _ = PAYMENTS[name]
        if value > 0 and name in known:
            kind = "money_without_order" if named == "nothing" else "paid_without_card"
            found.append((kind if named == "nothing" or value == PRICE else "wrong_amount", name, value))
    return found


@MANY
@given(story=stories, data=st.data())
def test_any_order_ends_in_the_same_books_and_each_difference_is_named(
    world: World, story: list[Any], data: st.DataObject
) -> None:
    once = told(world, [*story, RECORD])
    again = data.draw(st.lists(st.sampled_from(story), max_size=5))
    other = data.draw(st.permutations([*story, *again, RECORD]))
    assert told(world, other) == once
    worth = worths(story)
    assert {row["provider_ref"].split(" ")[0]: int(row["worth"]) for row in once["payments"]} == worth
    named = [(row["kind"], row["reference"].split(" ")[0], int(row["amount"])) for row in once["lines"]]
    assert [line for line in named if line[1] in PAYMENTS] == lines(worth, set(worth))


@MANY
@given(events=st.lists(payments | refunds | disputes, min_size=1, max_size=8), data=st.data())
def test_paid_order_ends_with_the_same_card(world: World, events: list[Any], data: st.DataObject) -> None:
    """The order is paid and its card issued first; then what happens to the payment comes in any order."""

    def unpaid(story: list[Any]) -> tuple[int, int]:
        of = f"t{next(numbers)}t"
        order(world, f"order-{of}")
        first = event_of("payment", "a", "COMPLETED", 0, 0, of=of)
        taken(world, first)
        accept(world, f"order-{of}", provider="square", provider_ref=f"a of {of}")
        card(world, f"order-{of}", reference=f"paid of {of}")
        for _, *line in story:
            taken(world, event_of(_, "a", *line[1:], of=of))
        row = world.sql("select unpaid, worth from giftcard_cards c join giftcard_payments p on p.card_id = c.id"
                        " where c.provider_ref = %s", f"paid of {of}")[0]  # fmt: skip
        blocking = "select count(*) from giftcard_jobs where stage = 'block_card' and correlation_id = %s"
        assert row["unpaid"] == 0 or world.value(blocking, f"order-{of}") == 1
        return row["unpaid"], row["worth"]

    assert unpaid(data.draw(st.permutations(events))) == unpaid(events)
