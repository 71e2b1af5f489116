"""Flows that begin elsewhere or take another turn: stages read the order, and payload and context change none of it."""

from collections.abc import Callable
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.acts import KIM
from tests.support.queues import Queues
from tests.support.world import World, an_order

Make = Callable[..., World]


@pytest.fixture
def recipients(tmp_path: Path) -> Callable[[], list[str]]:
    """Reads who got a mail."""
    folder = tmp_path / "mails"
    return lambda: sorted(message_from_bytes(file.read_bytes(), policy=default)["To"] for file in folder.glob("*"))


@pytest.fixture
def done(world: World) -> World:
    """An order that has its card and its mail."""
    world.submit(an_order(correlation_id="order-1"))
    world.drain()
    assert world.statuses() == {"completed": 5}
    return world


KATE = "Kate Rodgers <kate@example.com>"
EVE = {"external_id": "EVE-1", "given_name": "Eve", "email": "eve@example.com"}


def add(world: World, stage: str, payload: dict[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    """One more job of the order, run at once."""
    return world.run_job(stage, payload or an_order(), **({"correlation_id": "order-1", "dedup_key": "2"} | columns))


def totals(world: World) -> tuple[list[int], list[int]]:
    assert world.sql("select kind from giftcard_reconcile(p_verify => true)") == []
    paid = world.sql("select worth from giftcard_payments order by id")
    issued = world.sql("select amount from giftcard_cards order by id")
    return [row["worth"] for row in paid], [row["amount"] for row in issued]


# The recipient is the order's


def test_a_mail_goes_to_the_orders_recipient_whatever_address_is_asked_for(done: World, recipients: Any) -> None:
    job = add(done, "email", an_order(customer={"email": "eve@example.com", "given_name": "Eve"}))
    assert job["status"] == "completed"
    assert recipients() == [KATE, KATE]


@pytest.mark.parametrize("stage", ["personal_code", "issue_card", "email"])
def test_a_job_of_another_tenant_has_no_part_in_the_order(done: World, recipients: Any, stage: str) -> None:
    job = add(done, stage, an_order(customer=EVE), tenant_id="acme")
    problem = "PermanentError: the flow has no order: start it at customer_ingest"
    assert (job["status"], job["last_error"]) == ("error", problem)
    assert (recipients(), totals(done)) == ([KATE], ([2500], [2500]))


def test_a_code_is_for_the_orders_customer_whatever_the_context_names(done: World) -> None:
    done.submit(an_order(correlation_id="order-2", customer=EVE))
    done.run(only_stage="customer_ingest")
    eve = done.value("select id from giftcard_customers where external_id = 'EVE-1'")
    job = add(done, "personal_code", context=psycopg.types.json.Jsonb({"customer_id": eve}))
    assert (job["status"], job["context"]["personal_code"][:4]) == ("completed", "KATE")
    assert done.value("select personal_code from giftcard_customers where id = %s", eve) is None


def test_a_second_arrival_with_another_customer_changes_nobody(done: World) -> None:
    before = done.sql("select * from giftcard_customers")
    job = add(done, "customer_ingest", an_order(customer=EVE))
    problem = "PermanentError: the payload is for another customer than the order"
    assert (job["status"], job["last_error"]) == ("error", problem)
    assert done.sql("select * from giftcard_customers") == before


def test_a_second_arrival_with_another_name_updates_nobody(done: World) -> None:
    names = "select given_name, email from giftcard_customers"
    before = done.sql(names)
    assert add(done, "customer_ingest", an_order(customer={"given_name": "Eve", "email": "eve@example.com"}))
    assert done.sql(names) == before


# Flows that begin elsewhere


def test_a_flow_by_plain_sql_is_an_order_like_any(world: World, recipients: Any) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, payload) values ('order-1', 'customer_ingest', %s)",
        psycopg.types.json.Jsonb(an_order()),
    )
    world.drain()
    assert (world.statuses(), totals(world), recipients()) == ({"completed": 5}, ([2500], [2500]), [KATE])


def test_a_flow_that_begins_with_its_payment_needs_no_customer(world: World, recipients: Any, tmp_path: Path) -> None:
    world.add("payment", an_order(), correlation_id="order-1")
    world.drain()
    assert (world.statuses(), totals(world), recipients()) == ({"completed": 3}, ([2500], [2500]), [KATE])
    (file,) = (tmp_path / "mails").iterdir()
    mail = message_from_bytes(file.read_bytes(), policy=default)
    for part in mail.walk():
        if part.get_content_maintype() == "text":
            assert "ersonal code" not in part.get_content()
            assert "None" not in part.get_content()


@pytest.mark.parametrize("stage", ["personal_code", "issue_card", "email"])
def test_a_flow_cannot_begin_at_another_stage(world: World, recipients: Any, stage: str) -> None:
    job = add(world, stage)
    problem = "PermanentError: the flow has no order: start it at customer_ingest"
    assert (job["status"], job["last_error"]) == ("error", problem)
    assert (recipients(), totals(world)) == ([], ([], []))


def test_a_flow_by_message_is_an_order_like_any(
    make_world: Make, connection: psycopg.Connection[Any], recipients: Any
) -> None:
    queues = Queues(connection)
    queues.create("orders", an_order() | {"correlation_id": "order-1"}, an_order() | {"correlation_id": "order-1"})
    world = make_world(GIFTCARD_PGMQ_QUEUES="orders:customer_ingest")
    world.drain()
    assert (world.statuses(), totals(world), recipients()) == ({"completed": 5}, ([2500], [2500]), [KATE])


def test_the_first_job_fixes_the_order_of_a_flow(world: World) -> None:
    dear = an_order(amount={"amount": 9900, "currency": "USD"})
    for payload in (an_order(), dear):
        world.add("payment", payload, correlation_id="order-1", dedup_key=str(payload["amount"]["amount"]))
    world.run(limit=1)
    world.drain()
    assert totals(world) == ([2500], [2500])
    (dead,) = world.sql("select last_error from giftcard_jobs where status = 'error'")
    assert dead["last_error"] == "PermanentError: the payload asks for $99.00, the order is over $25.00"


# Orders that take another turn


@pytest.mark.parametrize("stage", ["customer_ingest", "personal_code", "payment", "issue_card", "email"])
def test_no_stage_works_for_a_cancelled_order_until_it_is_reopened(world: World, recipients: Any, stage: str) -> None:
    world.submit(an_order(correlation_id="order-1"))
    while not world.sql("select id from giftcard_jobs where stage = %s", stage):
        world.run(limit=1)
    world.store.cancel_flow("default", "order-1", caller=KIM)
    before = world.row_counts()
    job = add(world, stage)
    assert (job["status"], job["last_error"].startswith("PermanentError: the order is cancelled")) == ("error", True)
    assert [world.row_counts()[f"giftcard_{name}"] for name in ("payments", "cards", "effects")] == [
        before[f"giftcard_{name}"] for name in ("payments", "cards", "effects")
    ]
    (cancelled,) = world.sql("select id from giftcard_jobs where status = 'cancelled'")
    world.requeue(cancelled["id"])
    world.drain()
    assert (totals(world), recipients()) == (([2500], [2500]), [KATE])


def test_a_dead_letter_of_a_cancelled_order_is_the_way_to_reopen_it(done: World, recipients: Any) -> None:
    """Its flow was cancelled while a job was running: no job of it is cancelled, and the next one died."""
    assert done.store.cancel_flow("default", "order-1", caller=KIM)["cancelled"] == 0
    job = add(done, "email")
    assert job["last_error"] == "PermanentError: the order is cancelled: to reopen it, cancel this job, then requeue it"
    done.requeue(job["id"])
    done.drain()
    assert recipients() == [KATE], "requeueing a dead letter must not reopen it"
    done.store.cancel(job["id"], caller=KIM)
    done.requeue(job["id"])
    done.drain()
    assert (totals(done), recipients()) == (([2500], [2500]), [KATE, KATE])


def test_an_order_free_of_charge_is_not_charged_and_has_its_card(world: World, recipients: Any) -> None:
    world.submit(an_order(correlation_id="order-1"))
    world.store.make_free_of_charge("default", "order-1", reason="goodwill", caller=KIM)
    world.drain()
    assert (totals(world), recipients()) == (([], [2500]), [KATE])
    assert world.job(stage="payment")["context"]["payment"] == "free of charge"
    assert world.sql("select * from giftcard_effects where name = 'charge'") == []


@pytest.mark.parametrize("stage", ["customer_ingest", "personal_code", "payment", "issue_card", "email"])
def test_nothing_is_done_for_a_customer_who_was_erased(world: World, recipients: Any, stage: str) -> None:
    world.submit(an_order(correlation_id="order-1"))
    world.run(limit=1)
    customer = world.value("select id from giftcard_customers")
    world.store.erase_customer(customer, caller=KIM)
    job = add(world, stage)
    assert (job["status"], job["last_error"]) == ("error", "PermanentError: the customer of this order was erased")
    assert (totals(world), recipients()) == (([], []), [])
    assert "Kate" not in str(world.sql("select * from giftcard_customers, giftcard_orders"))
