"""Orders that are paid at Square: they wait for the event of their payment, and it wakes them."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Snooze
from tests.support.acts import KIM
from tests.support.factory import World as Rows
from tests.support.square import PAYMENT, SETTINGS, payment, refund, taken
from tests.support.square_books import differences
from tests.support.webhook_rows import seen_waiting
from tests.support.world import World, an_order

Make = Callable[..., World]

PAID_THERE = SETTINGS | {"GIFTCARD_PAYMENT_PROVIDER": "square"}
DAY = 86_400


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(**PAID_THERE)


def ordered(world: World, correlation_id: str = "order-1", **changes: Any) -> dict[str, Any]:
    """Its payment job, after a tick."""
    assert world.submit(an_order(correlation_id=correlation_id, **changes)).status_code == 202
    world.run()
    (job,) = world.sql("select * from giftcard_jobs where correlation_id = %s and stage = 'payment'", correlation_id)
    return job


def test_order_waits_for_its_payment_without_losing_an_attempt(world: World) -> None:
    job = ordered(world)
    assert (job["status"], job["attempts"]) == ("queued", 0)
    assert job["last_error"] == "waiting for the payment of $25.00 at Square"
    (run,) = world.history(job["id"])
    assert (run["next_run_at"] - run["finished_at"]).total_seconds() == DAY
    world.move(DAY)
    world.run()
    assert world.job(job["id"])["status"] == "queued"
    assert world.value("select count(*) from giftcard_payments") == 0


def test_event_makes_the_order_due_at_once_and_it_comes_to_its_card(world: World) -> None:
    job = ordered(world)
    assert taken(world, payment())["kind"] == "payment"
    assert world.job(job["id"])["scheduled_at"] <= world.value("select clock_timestamp()")
    world.run()
    assert world.statuses() == {"completed": 5}
    (paid,) = world.sql("select * from giftcard_payments")
    assert (paid["provider"], paid["provider_ref"]) == ("square", PAYMENT)
    assert (paid["amount"], paid["currency"], paid["card_id"]) == (2500, "USD", 1)


def test_payment_that_comes_before_its_order_is_not_lost(world: World) -> None:
    taken(world, payment())
    assert ordered(world)["status"] == "completed"
    assert world.statuses() == {"completed": 5}


def test_payment_wakes_its_own_order_alone(make_world: Make) -> None:
    world = make_world(**PAID_THERE | {"GIFTCARD_JOBS_PER_CRON_RUN": 100})
    first, second = ordered(world, "order-1"), ordered(world, "order-2")
    (other,) = world.enqueue("payment", an_order(), tenant_id="acme", correlation_id="order-1")
    world.run()
    taken(world, payment("order-1"))
    world.run()
    statuses = [world.job(number)["status"] for number in (first["id"], second["id"], other)]
    assert statuses == ["completed", "queued", "queued"]


@pytest.mark.parametrize(
    ("changes", "paid"),
    [
        ({"amount": 2499}, "$24.99"),
        ({"amount": 2501}, "$25.01"),
        ({"amount_money": {"amount": 2500, "currency": "EUR"}}, "€25.00"),
        ({"amount_money": {"amount": 2500, "currency": "JPY"}}, "¥2,500"),
    ],
)
def test_payment_of_another_amount_is_named_and_a_right_one_lets_the_order_go_on(
    world: World, changes: dict[str, Any], paid: str
) -> None:
    job = ordered(world)
    taken(world, payment(**changes))
    assert world.job(job["id"])["scheduled_at"] <= world.value("select clock_timestamp()")
    world.run()
    job = world.job(job["id"])
    assert (job["status"], job["attempts"]) == ("queued", 0)
    assert job["last_error"] == f"waiting for the payment of $25.00 at Square: {paid} were paid instead"
    assert [kind for kind, *_ in differences(world)] == ["wrong_amount"]
    taken(world, payment(id="another"))
    world.run()
    assert world.statuses() == {"completed": 5}
    assert world.value("select provider_ref from giftcard_payments where correlation_id = 'order-1'") == "another"
    # The wrong one is still to be refunded.
    assert [kind for kind, *_ in differences(world)] == ["paid_twice"]


def test_second_payment_is_a_line_of_the_reconciliation(world: World) -> None:
    ordered(world)
    taken(world, payment())
    taken(world, payment(id="second"))
    world.run()
    assert world.value("select provider_ref from giftcard_payments where correlation_id = 'order-1'") == PAYMENT
    assert differences(world) == [("paid_twice", "order-1", 2500)]
    taken(world, refund(of="second"))
    assert differences(world) == []


def test_payment_of_an_order_that_never_comes_is_a_line_of_the_reconciliation(world: World) -> None:
    taken(world, payment("order-9"))
    assert differences(world) == [("money_without_order", "order-9", 2500)]


@pytest.mark.parametrize("length", [37, 38])
def test_order_whose_reference_is_too_long_for_square_ends_at_once(world: World, length: int) -> None:
    job = ordered(world, "o" * length)
    if length == 37:
        assert job["status"] == "queued"
        taken(world, payment("o" * length))
        world.run()
        assert world.statuses() == {"completed": 5}
    else:
        assert (job["status"], job["revive_at"]) == ("error", None)
        assert "its reference would have 41 characters, Square allows 40" in job["last_error"]


def test_prefix_of_references_is_ours_to_choose(make_world: Make) -> None:
    world = make_world(SQUARE_REFERENCE_PREFIX="shop-7/", **PAID_THERE)
    ordered(world)
    assert taken(world, payment("order-1"))["kind"] == "ignored"
    assert taken(world, payment(reference_id="shop-7/order-1"))["kind"] == "payment"
    world.run()
    assert world.statuses() == {"completed": 5}


def test_several_events_of_one_payment_are_one_payment(world: World) -> None:
    job = ordered(world)
    for kind in ("payment.created", "payment.updated", "payment.updated"):
        taken(world, payment(type=kind))
    world.run()
    taken(world, payment())
    world.run()
    assert world.job(job["id"])["run_no"] == 2
    assert world.value("select count(*) from giftcard_payments") == 1
    assert world.statuses() == {"completed": 5}


def test_order_that_was_cancelled_stays_so(world: World) -> None:
    job = ordered(world)
    world.store.cancel_flow("default", "order-1", caller=KIM)
    assert taken(world, payment())["kind"] == "payment"
    world.run()
    assert world.job(job["id"])["status"] == "cancelled"


@pytest.mark.parametrize("missing", SETTINGS)
def test_without_a_setting_of_square_the_stage_waits_for_it(make_world: Make, missing: str) -> None:
    world = make_world(**PAID_THERE | {missing: None})
    world.submit(an_order())
    assert world.run().parked["payment"] == missing
    assert world.job(stage="payment")["attempts"] == 0


def test_payment_that_comes_while_the_order_looks_for_it_wakes_it_all_the_same(database_url: str) -> None:
    """The run has looked and found nothing; its snooze is settled after the event."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = Rows(connection)
        job = rows.claimed("payment", correlation_id="order-1")
        rows.later(1)
        assert rows.call("make_due", tenant_id="default", correlation_id="order-1", stage="payment")
        rows.later(1)
        rows.settle(job, Snooze(delay=DAY, waiting_for="the payment"))
        assert rows.job(job.id)["scheduled_at"] == rows.now - timedelta(seconds=1)
        # It counts for that run alone.
        (again,) = rows.claim(10)
        rows.settle(again, Snooze(delay=DAY, waiting_for="the payment"))
        assert rows.from_now(rows.job(job.id)["scheduled_at"]) == DAY


def test_wake_and_snooze_at_the_same_moment_end_with_a_job_that_is_due(database_url: str) -> None:
    """The event's transaction holds the row; the snooze waits for it and heeds it."""
    with psycopg.connect(database_url) as open_one, psycopg.connect(database_url, autocommit=True) as other:
        event, rows = Rows(open_one), Rows(other)
        job = rows.claimed("payment", correlation_id="order-1")
        event.later(1)
        event.call("make_due", tenant_id="default", correlation_id="order-1", stage="payment")
        snooze = Snooze(delay=DAY, waiting_for="the payment")
        with seen_waiting(lambda: rows.settle(job, snooze), at=rows, holder=event, url=database_url):
            open_one.commit()
        row = rows.job(job.id)
        assert (row["status"], row["scheduled_at"]) == ("queued", event.now)


def test_wake_changes_nothing_that_has_ended_or_is_due(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = Rows(connection)
        for verb in (rows.completed, rows.dead_letter, rows.cancelled, rows.enqueue):
            job_id = verb("payment", correlation_id=verb.__name__)
            before = rows.job(job_id)
            rows.later(1)
            assert not rows.call("make_due", tenant_id="default", correlation_id=verb.__name__, stage="payment")
            assert rows.job(job_id) == before


def test_run_that_was_woken_and_completes_is_complete(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = Rows(connection)
        job = rows.claimed("payment", correlation_id="order-1")
        rows.later(1)
        rows.call("make_due", tenant_id="default", correlation_id="order-1", stage="payment")
        assert rows.settle(job, Complete())["status"] == "completed"


@pytest.mark.slow
def test_tick_that_lingers_sees_the_payment_within_a_second_or_two(make_world: Make) -> None:
    world = make_world(**PAID_THERE | {"GIFTCARD_TICK_LINGER": "1", "GIFTCARD_TICK_BUDGET_SECONDS": "12"})
    job = ordered_without_lingering(world)
    # Something else is due soon: that is what it lingers for.
    world.enqueue("payment", an_order(), scheduled_at=world.value("select clock_timestamp() + interval '10 seconds'"))
    tick = threading.Thread(target=world.run)
    tick.start()
    while world.value("select count(*) from giftcard_ticks where ended_at is null") == 0:
        time.sleep(0.01)  # it lingers from its first call on: nothing is due
    came = time.monotonic()
    taken(world, payment())
    while world.job(job["id"])["status"] != "completed":
        assert time.monotonic() - came < 3
        time.sleep(0.05)
    world.stop.set()
    tick.join()


def ordered_without_lingering(world: World) -> dict[str, Any]:
    world.submit(an_order(correlation_id="order-1"))
    world.run(linger=False)
    return world.job(stage="payment")
