"""What others lost in money and gift cards, played again. docs/proof.md has the table."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.servers import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

DAY = 24 * 3600


@pytest.fixture
def make(make_world: Make, payments: Vendor, cards: Vendor) -> Make:
    """Worlds whose payments and cards are those of vendors over HTTP."""
    http = {
        "GIFTCARD_PAYMENT_PROVIDER": "http",
        "GIFTCARD_PAYMENT_URL": payments.url,
        "GIFTCARD_CARD_PROVIDER": "http",
        "GIFTCARD_CARD_URL": cards.url,
    }
    return lambda **more: make_world(**(http | more))


def submit(world: World, key: str = "order-1", **changes: Any) -> int:
    return world.submit(an_order(correlation_id=key, **changes)).status_code


def assert_delivered_once(world: World, payments: Vendor, cards: Vendor) -> None:
    assert len(payments.taken) == len(cards.taken) == 1
    assert world.value("select count(*) from giftcard_payments") == 1
    assert world.value("select count(*) from giftcard_cards") == 1
    assert world.sql("select stage from giftcard_jobs where status <> 'completed'") == []


def test_the_key_of_a_charge_outlives_what_changes_between_two_attempts(
    make: Make, payments: Vendor, cards: Vendor
) -> None:
    """The first answer is lost; then the job's row, its run, the settings and the encryption key are others."""
    world = make()
    payments.then("cut")
    submit(world)
    world.run()
    job = world.job(stage="payment")
    assert job["status"] == "queued"
    changed = Jsonb(job["context"] | {"note": "by hand"})
    world.sql(
        "update giftcard_jobs set context = %s, run_no = 7, attempts = 0, priority = 5, trigger_type = 'manual'"
        " where id = %s",
        changed,
        job["id"],
    )
    other = {"GIFTCARD_ENCRYPTION_KEYS": base64.urlsafe_b64encode(b"k" * 32).decode(), "GIFTCARD_PAYMENT_TOKEN": "new"}
    later = make(GIFTCARD_VENDOR_KEY_HOURS=10, **other)
    later.move(100)
    later.drain()
    assert len(payments.keys) == 2
    assert len(set(payments.keys)) == 1
    assert payments.bodies[0] == payments.bodies[1]
    assert_delivered_once(later, payments, cards)


def test_an_order_that_is_sent_again_a_year_later_charges_nothing(make: Make, payments: Vendor, cards: Vendor) -> None:
    """Vendors have forgotten the keys, and the jobs are pruned, also from the archive: the order is still known."""
    world = make()
    submit(world)
    world.drain()
    for days in (31, 400):
        world.move(days * DAY)
        world.tick()
        world.move(3600)
        world.tick()
    assert world.row_counts()["giftcard_jobs"] == world.row_counts()["giftcard_jobs_archive"] == 0
    payments.forget()
    cards.forget()
    assert submit(world) == 202
    world.drain()
    assert_delivered_once(world, payments, cards)
    assert submit(world, amount={"amount": 100, "currency": "USD"}) == 409


def test_what_a_failover_has_lost_is_not_charged_or_issued_again(make: Make, payments: Vendor, cards: Vendor) -> None:
    """A replica takes over that lacks the last seconds: the vendors have acted, and no row knows of it."""
    world = make()
    submit(world)
    world.drain()
    lost = "effects, giftcard_payments, giftcard_payment_events, giftcard_cards, giftcard_job_history"
    world.sql(f"truncate giftcard_{lost} cascade")
    world.sql("delete from giftcard_jobs where stage <> 'customer_ingest'")
    world.sql("update giftcard_jobs set status = 'queued', attempts = 0, scheduled_at = now()")
    world.drain()
    assert len(payments.keys) == len(cards.keys) == 2
    assert len(set(payments.keys)) == len(set(cards.keys)) == 1
    assert_delivered_once(world, payments, cards)


@pytest.mark.slow
def test_an_outage_of_a_vendor_is_asked_about_by_one_probe_a_minute(make: Make, payments: Vendor) -> None:
    """Sixty orders wait: no herd comes back each minute, none of them uses up its attempts, all are paid in the end."""
    world = make(GIFTCARD_JOBS_PER_CRON_RUN=1000)
    for n in range(60):
        submit(world, f"order-{n}", customer={"external_id": f"C{n}", "email": f"k{n}@example.com"})
    payments.then(*[503] * 1000)
    asked = []
    for _ in range(15):
        before = len(payments.keys)
        world.run()
        asked.append(len(payments.keys) - before)
        world.move(60)
    assert asked[0] <= 5 + 3  # those that had begun when the third one failed
    assert set(asked[1:]) <= {0, 1}
    payments.calm()
    for _ in range(5):
        world.drain()
        world.move(60)
    assert len(payments.taken) == 60
    assert world.statuses() == {"completed": 300}
