"""The report of a day: what counts, to which day, for whom; kept, made again, listed."""

from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

from lib.job import Error, Retry
from tests.support.books import event
from tests.support.factory import NOON, World
from tests.support.pages import fenced
from tests.support.yesterday import MIDNIGHT, MOMENT, TODAY, YESTERDAY, issue, order, pay, report, world

__all__ = ["world"]


# Money


def test_orders_payments_and_cards_are_counted_and_added_up_by_currency(world: World) -> None:
    order(world)
    order(world, "order-2", amount=1000)
    order(world, "order-3", amount=300, currency="JPY")
    pay(world)
    pay(world, "order-2", amount=1000)
    issue(world)
    made = report(world)
    assert made["currencies"] == [
        {"currency": "JPY", "orders": 1, "orders_amount": 300}
        | dict.fromkeys(("payments", "payments_amount", "cards", "cards_amount"), 0),
        {"currency": "USD", "orders": 2, "orders_amount": 3500, "payments": 2, "payments_amount": 3500}
        | {"cards": 1, "cards_amount": 2500},
    ]
    assert {name: made["totals"][name] for name in ("orders", "payments", "cards")} == {
        "orders": 3,
        "payments": 2,
        "cards": 1,
    }


def test_a_day_goes_from_midnight_to_midnight_in_utc_wherever_the_session_is(world: World) -> None:
    for number, at in enumerate((-MOMENT, timedelta(0), timedelta(days=1) - MOMENT, timedelta(days=1))):
        order(world, f"order-{number}", at=MIDNIGHT - timedelta(days=1) + at)
    counts = [report(world, YESTERDAY + timedelta(days=n))["totals"]["orders"] for n in (-1, 0, 1)]
    assert counts == [1, 2, 1]


def test_one_tenants_day_knows_nothing_of_anothers(world: World) -> None:
    order(world, tenant_id="acme", amount=7)
    pay(world, tenant_id="acme")
    world.settled(Error(error="PermanentError: no"), tenant_id="acme")
    mine, theirs = report(world), report(world, tenant_id="acme")
    assert set(mine["totals"].values()) == {0}
    assert (mine["currencies"], mine["failures"], mine["differences"]) == ([], [], [])
    assert (theirs["totals"]["orders"], theirs["totals"]["dead_letters"]) == (1, 1)


def test_sums_of_the_largest_amounts_are_right(world: World) -> None:
    most = 10**15
    for number in range(20):
        order(world, f"order-{number}", amount=most)
    assert report(world)["currencies"][0]["orders_amount"] == 20 * most > 2**53


# Differences


def test_differences_are_counted_and_added_up_by_kind_and_currency(world: World) -> None:
    for flow in ("served", "stuck", "waiting", "dead", "refunded"):
        pay(world, flow)
    issue(world, "served")
    issue(world, "refunded")
    world.enqueue("issue_card", correlation_id="waiting", delay_seconds=86_400 * 30)
    world.dead_letter("issue_card", correlation_id="dead")
    event(world, "refunded", 700, payment="ledger:key of default refunded", event_id="r1")
    event(world, "captured", 5, payment="ch_9", event_id="c1", currency="JPY")
    made = report(world)
    assert made["differences"] == [
        {"kind": "money_without_order", "currency": "JPY", "items": 1, "amount": 5},
        {"kind": "paid_without_card", "currency": "USD", "items": 2, "amount": 5000},
        {"kind": "refunded_after_issue", "currency": "USD", "items": 1, "amount": 700},
    ]
    assert made["totals"]["differences"] == 4
    assert report(world, tenant_id="acme")["differences"] == []


def test_differences_reach_back_and_not_beyond_the_day(world: World) -> None:
    pay(world)
    made = [report(world, YESTERDAY + timedelta(days=n))["totals"]["differences"] for n in (-1, 0, 1)]
    assert made == [0, 1, 1]


# The last days


def test_the_last_14_days_are_those_up_to_the_day(world: World) -> None:
    for days_ago, flow in ((14, "a"), (13, "b"), (1, "c"), (0, "d"), (0, "e"), (-1, "f")):
        world.now = NOON - timedelta(days=1 + days_ago)
        issue(world, flow)
    days = report(world)["last_days"]
    assert [day["day"] for day in days] == [str(YESTERDAY - timedelta(days=n)) for n in range(13, -1, -1)]
    assert [day["cards"] for day in days] == [1, *[0] * 11, 1, 2]


# Which day


def test_without_a_day_it_is_yesterday_by_the_clock_of_the_database(world: World) -> None:
    assert report(world, None, at=MIDNIGHT)["day"] == str(YESTERDAY)
    assert report(world, None, at=MIDNIGHT - MOMENT)["day"] == str(YESTERDAY - timedelta(days=1))


def test_a_day_that_is_not_over_says_so(world: World) -> None:
    assert not report(world, TODAY, at=MIDNIGHT + timedelta(days=1) - MOMENT)["complete"]
    assert report(world, TODAY, at=MIDNIGHT + timedelta(days=1))["complete"]


@pytest.mark.parametrize("day", [TODAY + timedelta(days=1), date(1999, 12, 31), "infinity", "-infinity"])
def test_a_day_that_has_not_begun_or_cannot_be_meant_is_refused(world: World, day: Any) -> None:
    with pytest.raises(psycopg.Error) as refused:
        report(world, day)
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("GC400", "day")


@pytest.mark.parametrize("tenant_id", ["", None])
def test_nobodys_report_is_refused(world: World, tenant_id: Any) -> None:
    with pytest.raises(psycopg.Error) as refused:
        report(world, tenant_id=tenant_id)
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("GC400", "tenant_id")


# Kept and listed


def kept(world: World, day: date = YESTERDAY, tenant_id: str = "default") -> Any:
    return world.ask("report", tenant_id=tenant_id, day=day)


def test_a_report_is_kept_as_it_was_made_and_made_again_replaces_it(world: World) -> None:
    order(world)
    first = report(world)
    order(world, "order-2", at=MIDNIGHT - MOMENT)
    assert kept(world) == first
    second = report(world, at=NOON + timedelta(hours=1))
    assert (first["totals"]["orders"], second["totals"]["orders"]) == (1, 2)
    assert kept(world) == second
    assert world.rows("select count(*) as rows from giftcard_reports") == [{"rows": 1}]


def test_a_report_that_was_not_made_does_not_exist(world: World) -> None:
    report(world, tenant_id="acme")
    with pytest.raises(psycopg.Error, match="tenant default has no report of 2034-12-31: make it first") as refused:
        kept(world)
    assert refused.value.sqlstate == "GC404"


def pages(world: World, **wanted: Any) -> list[list[tuple[str, str]]]:
    found, older = [], None
    while True:
        page = world.ask("list_reports", **wanted, older=older)
        found.append([(row["day"], row["tenant_id"]) for row in page["reports"]])
        older = page["older"]
        if older is None:
            return found


def test_pages_of_reports_meet_each_once_the_newest_first(world: World) -> None:
    everything = [(YESTERDAY - timedelta(days=n), tenant) for n in range(3) for tenant in ("z/1", "b", "a")]
    for day, tenant in everything:
        report(world, day, tenant_id=tenant)
    told = [(str(day), tenant) for day, tenant in everything]
    assert pages(world, limit=4) == [told[:4], told[4:8], told[8:]]
    assert pages(world, limit=9) == [told]
    assert pages(world, tenant_id="z/1", limit=1) == [[told[0]], [told[3]], [told[6]]]
    assert pages(world, tenant_id="nobody", limit=1) == [[]]


def test_a_list_has_the_totals(world: World) -> None:
    order(world)
    made = report(world)
    names = ("tenant_id", "day", "made_at", "complete", "totals")
    assert world.ask("list_reports")["reports"] == [{name: made[name] for name in names}]


def test_a_cursor_that_is_none_is_refused(world: World) -> None:
    with pytest.raises(psycopg.Error) as refused:
        world.ask("list_reports", older="7")
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("GC400", "older")


# Whose


def test_tenants_of_a_day_are_those_in_which_something_happened(world: World) -> None:
    order(world, tenant_id="ordered")
    order(world, tenant_id="the day before", at=MIDNIGHT - timedelta(days=1) - MOMENT)
    order(world, tenant_id="the day after", at=MIDNIGHT)
    pay(world, tenant_id="paid")
    issue(world, tenant_id="issued")
    world.settled(Retry(delay=5, error="TransientError: no"), tenant_id="failed")
    world.completed(tenant_id="all well")
    world.dead_letter(tenant_id="failed")
    assert world.ask("report_tenants", day=YESTERDAY) == ["failed", "issued", "ordered", "paid"]
    assert world.ask("report_tenants", day=YESTERDAY, limit=2) == ["failed", "issued"]
    assert world.ask("report_tenants", day=YESTERDAY, limit=2, after="issued") == ["ordered", "paid"]
    assert world.ask("report_tenants", day=YESTERDAY - timedelta(days=5)) == []


def test_the_schedule_that_the_page_shows_can_be_made(world: World) -> None:
    (statement,) = fenced("reports", language="sql")
    assert world.run(statement) == 1
    (row,) = world.rows("select stage, schedule, payload, timezone from giftcard_schedules")
    assert (row["stage"], row["payload"], row["timezone"]) == ("report", {"tenant_id": "*"}, "UTC")
