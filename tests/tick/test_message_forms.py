"""Messages in the forms that other services send: a mail by template, the payment of an order, the report of a day."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.support.mail_server import MailServer, a_mail_server
from tests.support.queues import NOTHING, Queues
from tests.support.world import World, an_order

Make = Callable[..., World]
QUEUES = "email_queue:send_mail,payments_queue:payment,reports_queue:report"
PAYMENT = {"amount": 2500, "currency": "USD", "reference": "order-1"}


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    queues = Queues(connection)
    for queue in ("email_queue", "payments_queue", "reports_queue"):
        queues.create(queue)
    return queues


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


def imported(world: World, queue: str) -> dict[str, Any]:
    """A tick; what it imported from a queue."""
    counts: dict[str, Any] = world.tick()["pgmq"][queue]
    return counts


def drain(world: World) -> None:
    while world.tick()["started"]:
        pass


def dead_letter(world: World) -> dict[str, Any]:
    (dead,) = world.sql("select * from giftcard_jobs where status = 'error'")
    return dead


def payments(world: World) -> list[tuple[str, int, str]]:
    rows = world.sql("select correlation_id, amount, currency from giftcard_payments order by id")
    return [(row["correlation_id"], row["amount"], row["currency"]) for row in rows]


def test_a_mail_is_sent(make_world: Make, queues: Queues, mail_server: MailServer) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, SMTP_URL=mail_server.url)
    data = {"heading": "Hello", "paragraphs": ["One", "Two"]}
    queues.send("email_queue", {"to": "kate@example.com", "subject": "News", "template": "plain", "data": data})
    assert imported(world, "email_queue") == NOTHING | {"moved": 1}
    (mail,) = mail_server.mails
    assert (mail["To"], mail["Subject"]) == ("kate@example.com", "News")
    assert world.statuses() == {"completed": 1}


# Payments


@pytest.mark.parametrize(
    "message",
    [
        PAYMENT,
        {"amount": {"amount": 2500, "currency": "USD"}, "reference": "order-1"},
        {"amount": {"amount": 2500, "currency": "USD"}, "currency": "USD", "reference": "order-1"},
        PAYMENT | {"correlation_id": "a name of the sender's"},
    ],
)
@pytest.mark.parametrize("when", ["before its flow has begun", "after its payment"])
def test_the_payment_of_an_order_is_that_orders_payment(world: World, queues: Queues, message: Any, when: str) -> None:
    world.submit(an_order(correlation_id="order-1"))
    if when == "after its payment":
        drain(world)
    queues.send("payments_queue", message)
    assert imported(world, "payments_queue") == NOTHING | {"repeated": 1}
    drain(world)
    assert payments(world) == [("order-1", 2500, "USD")]
    assert world.statuses() == {"completed": 5}
    (card,) = world.sql("select * from giftcard_cards")
    assert (card["amount"], card["customer_id"] is not None) == (2500, True)
    assert queues.archived("payments_queue") == [1]


def test_a_flow_that_began_with_a_message_counts_as_its_order(world: World, queues: Queues) -> None:
    queues.send("payments_queue", an_order() | {"correlation_id": "order-1"})
    queues.send("payments_queue", PAYMENT)
    queues.send("payments_queue", PAYMENT | {"amount": 2501})
    assert imported(world, "payments_queue") == NOTHING | {"moved": 1, "repeated": 1, "conflicts": 1}
    drain(world)
    assert payments(world) == [("pgmq:payments_queue:flow:order-1", 2500, "USD")]


@pytest.mark.parametrize("change", [{"amount": 2501}, {"currency": "EUR"}, {"amount": 25}])
def test_another_amount_than_the_orders_is_a_conflict_and_charges_nothing(
    world: World, queues: Queues, change: Any
) -> None:
    world.submit(an_order(correlation_id="order-1"))
    queues.send("payments_queue", PAYMENT | change)
    assert imported(world, "payments_queue") == NOTHING | {"conflicts": 1}
    drain(world)
    assert payments(world) == [("order-1", 2500, "USD")]
    asked = PAYMENT | change
    assert dead_letter(world)["last_error"] == (
        f"Conflict: the order order-1 is over 2500 USD, the message asks for {asked['amount']} {asked['currency']}: "
        "nothing was charged for it"
    )


@pytest.mark.parametrize(("queue", "reference"), [("payment", "order-2"), ("payment:acme", "order-1")])
def test_a_payment_without_an_order_of_its_tenant_charges_nothing(
    make_world: Make, queues: Queues, queue: str, reference: str
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=f"payments_queue:{queue}")
    world.submit(an_order(correlation_id="order-1"))
    drain(world)
    asked = PAYMENT | {"reference": reference}
    queues.send("payments_queue", asked)
    assert imported(world, "payments_queue") == NOTHING | {"refused": 1}
    assert len(payments(world)) == 1
    dead = dead_letter(world)
    assert dead["last_error"] == (
        f"PermanentError: no order has the correlation id {asked['reference']}: nothing was charged"
    )
    assert '"amount": 2500' in dead["payload"]["message"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"amount": 25.0}, "amount.amount must be a whole number"),
        ({"amount": 25.5}, "amount.amount must be a whole number"),
        ({"amount": "2500"}, "amount.amount must be a whole number"),
        ({"amount": True}, "amount.amount must be a whole number"),
        ({"amount": None}, "amount.amount must be a whole number"),
        ({"amount": 0}, "amount.amount must be at least 1"),
        ({"amount": -2500}, "amount.amount must be at least 1"),
        ({"amount": 10**30}, "amount.amount must be at most 1000000000"),
        ({"amount": {"amount": 25.0, "currency": "USD"}}, "amount.amount must be a whole number"),
        ({"amount": {"amount": 2500, "currency": "EUR"}}, "currency differs from that of amount"),
        ({"currency": "DEM"}, "amount.currency is not the upper-case ISO 4217 code of a currency in use"),
        ({"currency": None}, "amount.currency must be text"),
        ({"reference": 7}, "reference must be text"),
        ({"reference": ""}, "reference must have at least 1 character"),
        ({"tip": 5}, "tip is unknown"),
    ],
)
def test_what_is_no_payment_is_refused_with_the_reason(
    world: World, queues: Queues, change: dict[str, Any], reason: str
) -> None:
    world.submit(an_order(correlation_id="order-1"))
    queues.send("payments_queue", PAYMENT | change)
    assert imported(world, "payments_queue") == NOTHING | {"refused": 1}
    assert dead_letter(world)["last_error"] == f"PermanentError: {reason}"
    drain(world)
    assert payments(world) == [("order-1", 2500, "USD")]


# Reports


def test_a_report_is_that_of_its_day(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="reports_queue:report,email_queue:report:acme")
    queues.send("reports_queue", {"type": "daily", "period": "2026-11-27"})
    queues.send("email_queue", {"type": "daily", "period": "2026-11-26", "tenant_id": "acme"})
    assert imported(world, "reports_queue") == NOTHING | {"moved": 1}
    made = world.sql("select tenant_id, day::text from giftcard_reports order by day")
    assert [tuple(row.values()) for row in made] == [("acme", "2026-11-26"), ("default", "2026-11-27")]
    (job,) = world.sql("select payload, context from giftcard_jobs where tenant_id = 'default'")
    assert (job["payload"], job["context"]["day"]) == ({"day": "2026-11-27"}, "2026-11-27")


def test_a_report_that_is_delivered_again_is_repeated(world: World, queues: Queues) -> None:
    for _ in range(2):
        queues.send("reports_queue", {"type": "daily", "period": "2026-11-27", "correlation_id": "r-1"})
    queues.send("reports_queue", {"type": "daily", "period": "2026-11-26", "correlation_id": "r-1"})
    assert imported(world, "reports_queue") == NOTHING | {"moved": 1, "repeated": 1, "conflicts": 1}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "weekly", "period": "2026-11-27"}, "type must be daily"),
        ({"type": "daily", "period": "2026-11"}, "period is not a day like 2026-01-31"),
        ({"type": "daily", "period": "2026-02-30"}, "period is not a day like 2026-01-31"),
        ({"type": "daily", "period": "yesterday"}, "period is not a day like 2026-01-31"),
        ({"type": "daily", "period": 20261127}, "period must be a date like 2026-12-24"),
        ({"type": "daily"}, "period is required"),
        ({"period": "2026-11-27"}, "type is required"),
        ({"type": "daily", "period": "2026-11-27", "day": "2026-11-26"}, "day is unknown"),
    ],
)
def test_what_is_no_report_is_refused_with_the_reason(
    world: World, queues: Queues, message: dict[str, Any], reason: str
) -> None:
    queues.send("reports_queue", message)
    assert imported(world, "reports_queue") == NOTHING | {"refused": 1}
    assert dead_letter(world)["last_error"] == f"PermanentError: {reason}"
    assert world.sql("select * from giftcard_reports") == []


def test_our_own_forms_are_untouched(world: World, queues: Queues) -> None:
    queues.send("reports_queue", {"day": "2026-01-31"})
    queues.send("payments_queue", an_order())
    report = world.tick()["pgmq"]
    assert (report["reports_queue"]["moved"], report["payments_queue"]["moved"]) == (1, 1)
    drain(world)
    assert [amount for _, amount, _ in payments(world)] == [2500]
    assert world.statuses() == {"completed": 4}
