"""Workers are killed at every place of an order's way, and each order comes out with one payment and one card."""

import pytest

from tests.crash.doom import AROUND_EFFECTS, PLACES, point
from tests.crash.shop import Shop

pytestmark = pytest.mark.slow

_NOT_IN_LEDGER = ("before taking", "after taking")


def _kill_at_each(shop: Shop, places: list[tuple[str, str]], environment: dict[str, str]) -> None:
    """Orders with two appointments each, until every place has had its kill.

    A process that dies takes its other runs along, and one of those may pass its own place by (its effect has a result
    already): another order is sent there.
    """
    places = list(places)
    for _ in range(4):
        half = (len(places) + 1) // 2
        for first, second in zip(places[:half], [*places[half:], None], strict=False):
            order = shop.order()
            shop.house.appointments.make(point(order, *first))
            if second is not None:
                another = shop.order() if second == first else order
                shop.house.appointments.make(point(another, *second))
        shop.house.work(until=shop.all_done, environment=environment)
        passed_by = shop.house.appointments.left()
        if not passed_by:
            return
        places = []
        for name in passed_by:
            shop.house.appointments.cancel(name)
            _, stage, when = name.split(" ", 2)
            places.append((stage, when))
    raise AssertionError(f"nobody ever came to {places}")


def test_every_order_survives_a_kill_at_every_place(shop: Shop) -> None:
    """53 kills: each place once, those around money and cards twice."""
    places = [(stage, when) for stage, whens in PLACES.items() for when in whens]
    places += [(stage, when) for stage in ("payment", "issue_card") for when in AROUND_EFFECTS]
    places += [(stage, "after settle") for stage in PLACES]
    _kill_at_each(shop, places, {"GIFTCARD_CONCURRENCY": "3"})
    shop.assert_all_is_right()
    assert len(shop.house.appointments.kept()) == len(places)
    assert shop.house.killed >= 50  # two places can meet in one death


def test_the_ledger_survives_a_kill_at_every_place(shop: Shop) -> None:
    """14 kills around the payments and cards that are rows of our own."""
    places = [
        (stage, when) for stage in ("payment", "issue_card") for when in PLACES[stage] if when not in _NOT_IN_LEDGER
    ]
    places = [place for place in places if place[1] != "after claim"]
    ledger = {"GIFTCARD_PAYMENT_PROVIDER": "ledger", "GIFTCARD_CARD_PROVIDER": "ledger"}
    _kill_at_each(shop, places, {"GIFTCARD_CONCURRENCY": "3", **ledger})
    shop.assert_all_is_right(ledger=True)
    assert not shop.vendor.made, "the ledger asked the vendor"
    assert len(shop.house.appointments.kept()) == len(places)


def test_what_a_killed_worker_left_too_long_ago_is_looked_up_not_repeated(shop: Shop) -> None:
    """The vendor has forgotten the keys by then: a repeat would charge twice, believing it done would charge nobody."""
    house = shop.house
    fates = [(stage, f"{when} taking") for stage in ("payment", "issue_card") for when in ("before", "after")]
    plan = {shop.order(): place for place in fates}
    for order, place in plan.items():
        house.appointments.make(point(order, *place))
    worker = house.worker(GIFTCARD_CONCURRENCY="1")
    while house.appointments.left():
        worker.tick(limit=1000)
    assert house.killed == len(plan)
    house.execute("update giftcard_effects set started_at = started_at - interval '21 hours' where result is null")
    shop.vendor.forget_keys()
    house.work(until=shop.all_done, lanes=1)
    shop.assert_all_is_right()
    generations = house.rows(
        "select correlation_id, stage, generation from giftcard_effects where generation > 1 order by 1"
    )
    never_happened = [(order, stage, 2) for order, (stage, when) in plan.items() if when == "before taking"]
    assert generations == never_happened
