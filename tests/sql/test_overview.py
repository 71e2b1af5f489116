"""The overview as a whole: its names, today, what does not match in the books, hostile rows, and what it costs."""

import json
from typing import Any

import psycopg
import pytest

from tests.support.books import issue, pay, take
from tests.support.factory import STAGES, World
from tests.support.overview import add_run, add_tick, fold, overview

NAMES = {
    "now", "schema", "ticks", "stages", "circuits", "circuits_more", "oldest_due", "dead", "dead_more", "differences",
    "all_paused", "today", "runs", "starts", "doctor", "killed", "endpoints_off",
}  # fmt: skip
MIDNIGHT = "2035-01-01T00:00:00+00:00"
HUGE = "ß" * 100_000


def today(world: World, **more: Any) -> dict[str, Any]:
    shown: dict[str, Any] = overview(world, **more)["today"]
    return shown


def test_an_empty_database_has_an_overview(world: World) -> None:
    shown = world.call("overview")
    assert set(shown) == NAMES
    assert (shown["now"], shown["schema"]) == ("2035-01-01T12:00:00+00:00", 1)
    for name in ("stages", "circuits", "dead"):
        assert shown[name] == []
    assert [shown[name] for name in ("oldest_due", "all_paused", "circuits_more", "dead_more")] == [
        None, None, False, False
    ]  # fmt: skip
    assert shown["differences"] == {"count": 0, "capped": False, "lines": []}
    assert shown["doctor"] == world.call("doctor") | {"clock": shown["doctor"]["clock"]}


def test_an_answer_changes_only_when_something_happens(world: World) -> None:
    world.open_circuit("payment")
    world.dead_letter()
    world.enqueue(delay_seconds=-60)
    assert world.now
    add_tick(world, world.now, lasted=0)
    add_run(world, world.now)

    def told() -> dict[str, Any]:
        return {name: value for name, value in overview(world).items() if name not in ("now", "doctor")}

    world.later(1)
    before = told()
    world.later(9)
    assert told() == before
    world.enqueue()
    assert told() != before


def test_it_reads_only(world: World) -> None:
    world.run("set transaction read only")
    assert set(overview(world)) == NAMES


# Today


def test_nothing_happened_today(world: World) -> None:
    assert today(world) == {"since": MIDNIGHT, "orders": 0, "cards": 0, "mails": 0, "capped": False, "sums": []}


def test_orders_payments_cards_and_mails_since_the_beginning_of_the_day(world: World) -> None:
    for flow, amount, currency, tenant in (("a", 2500, "USD", "one"), ("b", 100, "USD", "two"), ("c", 7, "JPY", "two")):
        take(world, flow, amount=amount, currency=currency, tenant=tenant)
    pay(world, "a", tenant="one")
    issue(world, "a", tenant="one")
    pay(world, "b", tenant="two")
    world.completed("email")
    world.completed("payment")
    world.dead_letter("email")
    assert today(world) == {
        "since": MIDNIGHT, "orders": 3, "cards": 1, "mails": 1, "capped": False, "sums": [
            {"currency": "USD", "ordered": 2600, "paid": 2600, "issued": 2500},
            {"currency": "JPY", "ordered": 7, "paid": 0, "issued": 0},
        ],
    }  # fmt: skip


def test_today_begins_when_the_caller_asks(world: World) -> None:
    take(world, "a")
    world.completed("email")
    world.later(60)
    take(world, "b")
    later = today(world, since="2035-01-01T12:00:30+00:00")
    assert [later[name] for name in ("since", "orders", "mails")] == ["2035-01-01T12:00:30+00:00", 1, 0]
    assert [today(world, since="2034-01-01Z")[name] for name in ("orders", "mails")] == [2, 1]
    assert today(world, since="2036-01-01Z")["orders"] == 0


def test_what_is_from_the_future_did_not_happen_today(world: World) -> None:
    world.later(3600)
    take(world, "a")
    world.completed("email")
    world.later(-3600)
    assert [today(world)[name] for name in ("orders", "mails")] == [0, 0]


def test_of_more_than_ten_thousand_the_newest_are_counted(world: World) -> None:
    world.run(
        """insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at)
             select n, 'h', 1000000000000000, 'USD', %s from generate_series(1, 10001) n""",
        world.now,
    )
    shown = today(world)
    assert (shown["orders"], shown["capped"]) == (10_000, True)
    assert shown["sums"][0]["ordered"] == 10**19


# Differences


def test_the_five_oldest_differences_are_shown_and_all_are_counted(world: World) -> None:
    for number in range(7):
        take(world, f"order-{number}")
        pay(world, f"order-{number}")
        world.later(1)
    shown = overview(world)["differences"]
    assert (shown["count"], shown["capped"]) == (7, False)
    assert [line["correlation_id"] for line in shown["lines"]] == [f"order-{number}" for number in range(5)]
    assert shown["lines"] == world.ask("list_differences", limit=5)["differences"]


# Hostile rows


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("ticks", {"source": HUGE, "error": HUGE, "stopped_because": "failed", "started": 2**31 - 1}),
        ("stages", {"paused_by": HUGE, "reason": HUGE, "paused_at": "infinity", "stage": "email"}),
        ("stages", {"paused_by": None, "reason": None, "paused_at": "-infinity", "stage": "*"}),
        ("circuits", {"circuit": "email", "state": "open", "open_until": "infinity", "changed_at": "infinity"}),
        ("circuits", {"circuit": ":", "state": "half_open", "open_until": "-infinity", "failures": -5}),
        ("jobs", {"stage": "email", "correlation_id": HUGE[:300], "last_error": HUGE, "status": "error"}),
        ("jobs", {"stage": "x" * 2000, "correlation_id": "x", "tenant_id": "y" * 2000, "scheduled_at": "-infinity"}),
        ("jobs", {"stage": 'a"\\{}', "correlation_id": "x", "status": "running", "lease_expires_at": "infinity"}),
    ],
)
def test_whatever_a_row_holds_there_is_an_overview(world: World, table: str, row: dict[str, Any]) -> None:
    assert world.now
    if table == "ticks":
        add_tick(world, world.now, **row)
    else:
        names, places = ", ".join(row), ", ".join(["%s"] * len(row))
        world.run(f"insert into giftcard_{table} ({names}) values ({places})", *row.values())
    if table == "circuits":
        change = "insert into giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause) values"
        world.run(f"{change} (%s, 'closed', 'open', 'infinity', %s)", row["circuit"], "9" * 30 + " failures in a row")
    world.enqueue()
    text = json.dumps(overview(world) | {"doctor": None})
    assert '"infinity"' not in text
    assert '"-infinity"' not in text
    assert len(text) < 60_000


def test_arguments_of_another_kind_are_ignored_or_refused(world: World) -> None:
    assert set(world.call("overview", stages={}, missing={}, since=None)) == NAMES
    with pytest.raises(psycopg.Error) as caught:
        world.call("overview", since="soon")
    assert caught.value.sqlstate == "22007"


# What it costs


def _pages(world: World, call: str, *values: object) -> int:
    (row,) = world.rows(f"explain (analyze, buffers, format json) {call}", *values)
    plan = row["QUERY PLAN"][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_a_tick_without_work_counts_nothing(world: World) -> None:
    def due() -> bool:
        return "counters" in world.begin().step.maintenance

    assert not due()
    world.completed()
    assert not due()  # too young: others may be about to commit
    world.later(10)
    assert due()
    assert world.call("begin_maintenance", task="counters")
    assert not due()  # another tick does it
    world.later(50)
    assert due()
    assert fold(world) == 1
    assert not due()


@pytest.mark.slow
def test_a_full_database_costs_a_bounded_number_of_pages(world: World) -> None:
    for statement in FULL:
        world.run(statement)
    world.connection.commit()
    counted = _pages(world, "select giftcard_update_counters(5000, %s)", world.now)
    world.call("update_counters", limit=100_000)
    world.connection.commit()
    touched = _pages(world, "select giftcard_overview(%s, '{}', null, %s)", json.dumps(STAGES), world.now)
    assert counted < 12_000
    assert touched < 30_000


FULL = (
    # 50,000 runs of a week, a tenth of them of the last hour
    """insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
         select n, 1, 1, 'stage' || n % 8, case when n % 50 = 0 then 'FAILED' else 'SUCCESS' end, t, t, t
           from (select n, timestamptz '2035-01-01 11:59:40Z' - case when n <= 45000 then interval '167 hours'
                           else interval '1 hour' end * n / 50000 as t from generate_series(1, 50000) n) s""",
    """insert into giftcard_ticks (key, source, owner, started_at, live_until, ended_at, stopped_because, stages)
         select gen_random_uuid(), 'cron', 'o', t, t + interval '2 min', t + interval '9 s', 'drained', '{}'
           from generate_series(timestamptz '2034-12-25Z', '2035-01-01 12:00Z', interval '1 minute') t""",
    """insert into giftcard_jobs (correlation_id, stage, circuit, attempts, scheduled_at)
         select n, 'stage' || n % 8, 'stage' || n % 8 || ':' || n % 5, n % 3, timestamptz '2035-01-01Z'
           from generate_series(1, 24000) n""",
    """insert into giftcard_jobs (correlation_id, stage, circuit, status, last_error)
         select 'd' || n, 'stage' || n % 8, 'stage' || n % 8, 'error', 'E: HTTP 503 for ' || n
           from generate_series(1, 3000) n""",
    """insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at)
         select n, 'h', 100, 'USD', timestamptz '2035-01-01Z' + interval '1 s' * n from generate_series(1, 12000) n""",
)
