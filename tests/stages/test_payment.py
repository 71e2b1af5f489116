"""Money is taken once: by a real vendor that times out, declines, fails and answers garbage, and by our own ledger."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cases import CASES
from tests.support.servers import Vendor, a_vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

TOKEN = "vendor-token-of-tests"


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with a_vendor() as vendor:
        yield vendor


@pytest.fixture
def world(make_world: Make, vendor: Vendor) -> World:
    return make_world(
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=vendor.url,
        GIFTCARD_PAYMENT_TOKEN=TOKEN,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
    )


@pytest.fixture
def impatient(make_world: Make, vendor: Vendor) -> World:
    """Waits for an answer for less than two seconds."""
    return make_world(
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=vendor.url,
        GIFTCARD_STAGE_PAYMENT_TTR_SECONDS=2,
    )


@pytest.fixture
def ordered(world: World) -> World:
    assert world.submit(an_order(correlation_id="order-1")).status_code == 202
    return world


def payment(world: World) -> dict[str, Any]:
    """The order's payment job, after a tick."""
    world.tick()
    return world.job(stage="payment")


def until_paid(world: World) -> dict[str, Any]:
    for _ in range(6):
        job = payment(world)
        if job["status"] != "queued":
            break
        world.move(100)
    assert job["status"] == "completed", job["last_error"]
    return job


def test_vendor_is_asked_for_the_amount_under_a_key_and_our_token(ordered: World, vendor: Vendor) -> None:
    assert payment(ordered)["status"] == "completed"
    (taken,) = vendor.taken
    assert (taken.amount, taken.currency) == (2500, "USD")
    assert vendor.bodies == [{"amount": 2500, "currency": "USD", "reference": "order-1"}]
    assert vendor.tokens == [f"Bearer {TOKEN}"]
    assert vendor.keys[0].startswith("gc_")
    (paid,) = ordered.sql("select * from giftcard_payments")
    assert (paid["provider"], paid["provider_ref"], paid["idempotency_key"]) == ("http", taken.reference, taken.key)


@pytest.mark.parametrize("lost", ["cut", "garbage", "nameless"])
def test_money_taken_without_an_answer_is_asked_for_under_the_same_key_and_taken_once(
    ordered: World, vendor: Vendor, lost: str
) -> None:
    vendor.then(lost)
    job = payment(ordered)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert len(vendor.taken) == 1
    until_paid(ordered)
    assert len(vendor.keys) == 2
    assert len(set(vendor.keys)) == len(vendor.taken) == 1
    assert ordered.value("select provider_ref from giftcard_payments") == vendor.taken[0].reference


def test_client_gives_up_before_the_ttr_and_money_taken_meanwhile_is_taken_once(
    impatient: World, ordered: World, vendor: Vendor
) -> None:
    vendor.then("silent")
    job = payment(impatient)
    assert job["status"] == "queued"
    assert job["last_error"].startswith("TransientError: 127.0.0.1: ReadTimeout")
    assert len(vendor.taken) == 1
    ordered.move(10)
    until_paid(ordered)
    assert len(vendor.keys) == 2
    assert len(set(vendor.keys)) == len(vendor.taken) == 1


def test_transient_answers_are_tried_again(make_world: Make, ordered: World, vendor: Vendor) -> None:
    patient = make_world(
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=vendor.url,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
        MAX_PAYMENT_RETRY_ATTEMPTS=25,
    )
    answers = [*CASES["http_status"]["transient"], "gone"]
    vendor.then(*answers)
    for attempts in range(1, len(answers) + 1):
        job = payment(patient)
        assert (job["status"], job["attempts"]) == ("queued", attempts), job["last_error"]
        patient.move(100)
    assert payment(patient)["status"] == "completed"
    assert len(set(vendor.keys)) == len(vendor.taken) == 1


def test_retry_after_is_a_floor_under_the_delay(ordered: World, vendor: Vendor) -> None:
    vendor.then((429, {"Retry-After": "7"}), (503, {"Retry-After": "999999"}), (503, {"Retry-After": "soon"}))
    waits = []
    for _ in range(3):
        job = payment(ordered)
        (run,) = ordered.history(job["id"])[-1:]
        waits.append((run["next_run_at"] - run["finished_at"]).total_seconds())
        ordered.move(waits[-1])
    assert waits[:2] == [7, 24 * 3600]
    assert 4 <= waits[2] <= 5.2


def test_answers_that_say_the_order_is_at_fault_end_the_job(world: World, vendor: Vendor) -> None:
    for status in (status for status in CASES["http_status"]["permanent"] if status != 402):
        vendor.then(status)
        world.submit(an_order(correlation_id=f"order-{status}"))
        world.tick()
        job = world.sql("select * from giftcard_jobs where stage = 'payment' order by id desc")[0]
        assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
        assert job["last_error"] == f"PermanentError: the payment service answered {status}"


def test_declined_payment_is_not_revived_and_asks_under_a_new_key_after_a_requeue(
    ordered: World, vendor: Vendor
) -> None:
    vendor.then("decline")
    job = payment(ordered)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert job["last_error"] == "Declined: the payment service declined (402)"
    ordered.move(48 * 3600)
    assert ordered.tick()["revived"] == 0
    ordered.requeue(job["id"])
    assert until_paid(ordered)["status"] == "completed"
    assert len(set(vendor.keys)) == 2
    assert len(vendor.taken) == 1


def test_decline_that_nobody_heard_is_heard_at_the_next_try(ordered: World, vendor: Vendor) -> None:
    vendor.then("gone")
    key = payment(ordered)["id"] and vendor.keys[0]
    vendor.do(key, vendor.bodies[0], decline=True)
    ordered.move(10)
    assert payment(ordered)["status"] == "error"
    assert set(vendor.keys) == {key}


def test_old_charge_is_looked_up_when_its_key_may_have_died(ordered: World, vendor: Vendor) -> None:
    vendor.then("cut")
    payment(ordered)
    ordered.move(21 * 3600)
    assert until_paid(ordered)["status"] == "completed"
    assert vendor.looked_up == vendor.keys == [vendor.taken[0].key]


def test_old_charge_that_never_happened_is_made_under_a_new_key(ordered: World, vendor: Vendor) -> None:
    vendor.then("gone")
    payment(ordered)
    ordered.move(21 * 3600)
    until_paid(ordered)
    assert vendor.looked_up == vendor.keys[:1]
    assert len(set(vendor.keys)) == 2
    assert len(vendor.taken) == 1


def test_lookup_that_fails_decides_nothing(ordered: World, vendor: Vendor, mocker: Any) -> None:
    vendor.then("cut")
    payment(ordered)
    ordered.move(21 * 3600)
    vendor.answers[vendor.keys[0]] = (201, {"no": "id"})
    job = payment(ordered)
    assert (job["status"], job["attempts"], len(vendor.keys)) == ("queued", 2, 1)


def test_person_decides_that_the_money_was_taken(ordered: World, vendor: Vendor) -> None:
    vendor.then("gone")
    job = payment(ordered)
    ordered.sql(
        "select public.giftcard_decide_effect(%s, 'charge', true, '{\"reference\": \"ch_by_hand\"}')", job["id"]
    )
    until_paid(ordered)
    assert ordered.value("select provider_ref from giftcard_payments") == "ch_by_hand"
    assert vendor.taken == []


def test_old_charge_is_checked_when_it_is_looked_up(ordered: World, vendor: Vendor) -> None:
    vendor.then("cut")
    payment(ordered)
    ordered.move(21 * 3600)
    vendor.answers[vendor.keys[0]] = (201, {"id": "ch_1", "amount": 9900})
    job = payment(ordered)
    assert (job["status"], "took $99.00 instead of $25.00 as ch_1" in job["last_error"]) == ("error", True)
    assert [row["kind"] for row in ordered.sql("select kind from giftcard_reconcile()")] == ["wrong_amount"]


def test_vendor_without_an_address_parks_the_stage(make_world: Make) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="http")
    assert world.tick()["parked"]["payment"] == "GIFTCARD_PAYMENT_URL"


def test_vendor_that_is_down_opens_the_circuit_of_payments_alone(make_world: Make, vendor: Vendor) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL=vendor.url, GIFTCARD_CONCURRENCY=1)
    vendor.then(*[503] * 10)
    for number in range(4):
        world.submit(an_order(customer={"external_id": f"C-{number}", "email": f"c{number}@example.com"}))
    reports = [world.tick(), world.tick()]
    assert [report["circuits_opened"] for report in reports].count(["payment"]) == 1
    assert len(vendor.keys) == 3
    assert world.value("select count(*) from giftcard_customers where personal_code is not null") == 4


@pytest.mark.parametrize("forgotten", [False, True])
def test_ledger_takes_the_money_once_whatever_is_remembered_of_it(make_world: Make, forgotten: bool) -> None:
    world = make_world()
    world.submit(an_order(correlation_id="order-1"))
    job = payment(world)
    (paid,) = world.sql("select * from giftcard_payments")
    assert (paid["amount"], paid["currency"], paid["provider"]) == (2500, "USD", "ledger")
    if forgotten:
        # As if the function had been killed between the payment and its record.
        world.sql("update giftcard_effects set result = null, finished_at = null where stage = 'payment'")
        world.move(21 * 3600)
    world.requeue(job["id"], force=True)
    assert payment(world)["status"] == "completed"
    assert [row["provider_ref"] for row in world.sql("select * from giftcard_payments")] == [paid["provider_ref"]]
