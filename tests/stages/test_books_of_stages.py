"""Whatever jobs ask for: an order is charged once, has one card over what it costs, and goes to its recipient."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support.servers import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

STAGES = ["personal_code", "payment", "issue_card", "email"]


@pytest.fixture(params=["ledger", "http"])
def world(request: pytest.FixtureRequest, make_world: Make, payments: Vendor, cards: Vendor) -> World:
    """With the ledger, and with services over HTTP."""
    http = {
        "GIFTCARD_PAYMENT_PROVIDER": "http",
        "GIFTCARD_PAYMENT_URL": payments.url,
        "GIFTCARD_CARD_PROVIDER": "http",
        "GIFTCARD_CARD_URL": cards.url,
    }
    return make_world(**(http if request.param == "http" else {}))


def ask(amount: int, currency: str = "USD", **changes: Any) -> dict[str, Any]:
    return an_order(amount={"amount": amount, "currency": currency}, **changes)


def submit(world: World, **changes: Any) -> None:
    assert world.submit(an_order(correlation_id="order-1", **changes)).status_code == 202


def add(world: World, stage: str, payload: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """One more job of the order, run at once."""
    return world.run_job(stage, payload, **({"correlation_id": "order-1", "dedup_key": "2"} | columns))


def requeue(world: World, stage: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The order's job of a stage, requeued by hand with another payload and run."""
    job_id: int = world.job(stage=stage)["id"]
    world.sql("update giftcard_jobs set status = 'queued', payload = %s where id = %s", Jsonb(payload), job_id)
    world.run(only_job_id=job_id, limit=1)
    return world.job(job_id)


def outcome(job: dict[str, Any]) -> tuple[str, str | None]:
    return job["status"], job["last_error"]


def kept(world: World) -> tuple[list[int], list[int]]:
    """The amounts of all payments, and of all cards."""
    paid = world.sql("select worth from giftcard_payments order by id")
    issued = world.sql("select amount from giftcard_cards order by id")
    assert world.sql("select kind from giftcard_reconcile(p_verify => true) where kind <> 'paid_without_card'") == []
    return [row["worth"] for row in paid], [row["amount"] for row in issued]


def made(*vendors: Vendor) -> list[int]:
    return [taken.amount for vendor in vendors for taken in vendor.taken]


# A second job


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_second_payment_of_another_amount_charges_nothing(world: World, payments: Vendor, when: str) -> None:
    submit(world)
    if when == "after":
        world.drain()
    job = add(world, "payment", ask(9900))
    problem = "PermanentError: the payload asks for $99.00, the order is over $25.00"
    assert (outcome(job), job["revive_at"]) == (("error", problem), None)
    world.drain()
    assert kept(world) == ([2500], [2500])
    assert made(payments) in ([], [2500])


def test_a_second_payment_of_the_same_amount_completes_and_charges_once(world: World, payments: Vendor) -> None:
    submit(world)
    world.drain()
    job = add(world, "payment", ask(2500))
    assert job["status"] == "completed"
    world.drain()
    assert kept(world) == ([2500], [2500])
    assert len(payments.keys) == len(payments.taken) <= 1
    assert len(world.sql("select * from giftcard_jobs where stage = 'issue_card'")) == 1


def test_two_payments_at_the_same_time_charge_once(world: World, make_world: Make, payments: Vendor) -> None:
    submit(world)
    first, second = (world.add("payment", ask(2500), correlation_id="order-1", dedup_key=key) for key in "ab")
    calls = 2 if world.settings.giftcard_payment_provider == "http" else 0
    with ThreadPoolExecutor(2) as threads:
        with payments._lock:  # the vendor does nothing before both requests are there
            runs = [threads.submit(world.run, only_job_id=job_id, limit=1) for job_id in (first, second)]
            while len(payments.keys) < calls and not any(run.done() for run in runs):
                time.sleep(0.01)
        assert [run.result().started for run in runs] == [1, 1]
    assert len(payments.keys) == calls
    assert [world.job(job_id)["status"] for job_id in (first, second)] == ["completed", "completed"]
    assert len(set(payments.keys)) == len(payments.taken) <= 1
    world.drain()
    assert kept(world) == ([2500], [2500])


@pytest.mark.parametrize("amount", [2500, 1_000_000_000])
def test_a_second_card_is_never_issued(world: World, cards: Vendor, amount: int) -> None:
    submit(world)
    world.drain()
    job = add(world, "issue_card", ask(amount))
    problem = "PermanentError: the payload asks for $10,000,000.00, the order is over $25.00"
    assert outcome(job) == (("completed", None) if amount == 2500 else ("error", problem))
    assert kept(world) == ([2500], [2500])
    assert len(cards.keys) == len(cards.taken) <= 1


@pytest.mark.parametrize("order", ["none", "not paid"])
def test_without_a_payment_no_card_is_issued(world: World, cards: Vendor, order: str) -> None:
    if order != "none":
        submit(world, amount={"amount": 1_000_000_000, "currency": "USD"})
    job = add(world, "issue_card", ask(1_000_000_000))
    problem = {
        "none": "the flow has no order: start it at customer_ingest",
        "not paid": "the order is not paid: requeue its payment job",
    }[order]
    assert outcome(job) == ("error", f"PermanentError: {problem}")
    assert (kept(world), cards.taken) == (([], []), [])


# Another payload


@pytest.mark.parametrize("stage", ["customer_ingest", *STAGES])
def test_a_corrected_payload_changes_no_order(world: World, stage: str, payments: Vendor, cards: Vendor) -> None:
    submit(world)
    world.drain()
    job = requeue(world, stage, ask(500_000, "JPY"))
    assert outcome(job) == ("error", "PermanentError: the payload asks for ¥500,000, the order is over $25.00")
    world.drain()
    assert kept(world) == ([2500], [2500])
    assert (made(payments) or [2500], made(cards) or [2500]) == ([2500], [2500])


@pytest.mark.parametrize("stage", STAGES)
def test_a_payload_that_was_corrected_before_its_stage_has_run_changes_no_order(world: World, stage: str) -> None:
    submit(world)
    while not world.sql("select id from giftcard_jobs where stage = %s", stage):
        world.run(limit=1)
    job = requeue(world, stage, ask(500_000, "JPY"))
    assert outcome(job) == ("error", "PermanentError: the payload asks for ¥500,000, the order is over $25.00")
    requeue(world, stage, ask(2500))
    world.drain()
    assert kept(world) == ([2500], [2500])


@pytest.mark.parametrize("stage", ["customer_ingest", *STAGES])
def test_a_payload_for_another_customer_changes_no_order(world: World, stage: str) -> None:
    submit(world)
    world.drain()
    job = add(world, stage, an_order(customer={"external_id": "CUST-2"}))
    assert outcome(job) == ("error", "PermanentError: the payload is for another customer than the order")
    assert [row["external_id"] for row in world.sql("select * from giftcard_customers")] == ["CUST-1520"]
