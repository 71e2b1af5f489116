"""A whole order, from the door through the clock to the mail in a real mail server."""

import io
import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from typing import Any

import pytest
import segno

from lib.giftcards.cards import has_valid_check_digit, vault_of
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import World, a_world, an_order

STAGES = ["customer_ingest", "personal_code", "payment", "issue_card", "email"]
MESSAGE = "С днём рождения, Kate! 🎁"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture
def world(database_url: str, mail_server: MailServer) -> Iterator[World]:
    sender = "Gift Cards <cards@shop.example>"
    with a_world(database_url, GIFTCARD_ENV="production", SMTP_URL=mail_server.url, MAIL_FROM=sender) as world:
        yield world


def card_number(world: World) -> str:
    sealed = world.value("select number_encrypted from public.giftcard_cards")
    return vault_of(world.settings).open(sealed)


def part(mail: EmailMessage, subtype: str) -> str:
    body = mail.get_body((subtype,))
    assert body is not None
    return str(body.get_content())


def everything_stored(world: World) -> str:
    return "\n".join(
        str(row["t"]) for table in world.row_counts() for row in world.sql(f"select t::text as t from public.{table} t")
    )


def test_order_becomes_a_card_in_the_customers_mailbox(world: World, mail_server: MailServer) -> None:
    taken = world.submit(an_order(message=MESSAGE))
    assert taken.status_code == 202
    correlation_id = taken.json["correlation_id"]
    assert taken.json["status_url"] == f"/api/v1/giftcards/{correlation_id}"
    assert [step["status"] for step in world.flow(correlation_id)["jobs"]] == ["queued"]

    report = world.tick()
    assert (report["started"], report["completed"], report["stopped_because"]) == (5, 5, "drained")

    flow = world.flow(correlation_id)
    assert [(step["stage"], step["status"], step["attempts"]) for step in flow["jobs"]] == [
        (stage, "completed", 1) for stage in STAGES
    ]
    number = card_number(world)
    assert has_valid_check_digit(number)
    assert (flow["payment"]["amount"], flow["payment"]["currency"]) == (2500, "USD")
    shown = {name: flow["card"][name] for name in ("last4", "amount", "balance", "currency", "state")}
    assert shown == {"last4": number[-4:], "amount": 2500, "balance": 2500, "currency": "USD", "state": "active"}
    (customer,) = world.sql("select * from public.giftcard_customers")
    assert (customer["external_id"], customer["personal_code"]) == ("CUST-1520", "KATE1520")

    (mail,) = mail_server.mails
    grouped = " ".join(re.findall("....", number))
    assert mail_server.recipients == [["kate@example.com"]]
    assert (mail["From"], mail["Subject"]) == ("Gift Cards <cards@shop.example>", "Your $25.00 gift card")
    assert re.fullmatch(r"<gc_[0-9a-f]{48}@shop\.example>", mail["Message-ID"])
    for text in (part(mail, "plain"), part(mail, "html")):
        assert all(said in text for said in (grouped, "KATE1520", "$25.00", MESSAGE))


def test_mail_shows_the_card_number_as_a_qr_code(world: World, mail_server: MailServer) -> None:
    world.submit()
    world.tick()
    (mail,) = mail_server.mails
    (image,) = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    expected = io.BytesIO()
    segno.make(card_number(world), error="m", micro=False).save(expected, kind="png", scale=6)
    assert image.get_content() == expected.getvalue()
    assert f'src="cid:{image["Content-ID"].strip("<>")}"' in part(mail, "html")


def test_card_number_is_nowhere_but_in_the_mail(
    world: World, log: Callable[[], list[dict[str, Any]]], mail_server: MailServer
) -> None:
    correlation_id = world.submit(an_order(message=MESSAGE)).json["correlation_id"]
    report = world.tick()
    number = card_number(world)
    seen = f"{everything_stored(world)} {log()} {report} {world.flow(correlation_id)}".replace(" ", "")
    assert number not in seen
    assert world.job(stage="email")["context"]["card_last4"] == number[-4:]
    assert number in str(mail_server.mails[0]).replace(" ", "")


def test_same_idempotency_key_and_body_order_one_card(world: World, mail_server: MailServer) -> None:
    answers = [world.submit(Idempotency_Key="order-7") for _ in range(2)]
    world.tick()
    answers.append(world.submit(Idempotency_Key="order-7"))
    world.tick()
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    counts = world.row_counts()
    assert [counts[f"giftcard_{table}"] for table in ("orders", "payments", "cards")] == [1, 1, 1]
    assert len(mail_server.mails) == 1


def test_customer_keeps_the_code_of_the_first_order(world: World, mail_server: MailServer) -> None:
    for email in ("kate@example.com", "kate.rodgers@example.com"):
        world.submit(an_order(customer={"email": email}))
        world.tick()
    assert [mail["To"].addresses[0].addr_spec for mail in mail_server.mails] == [
        "kate@example.com",
        "kate.rodgers@example.com",
    ]
    assert all("KATE1520" in part(mail, "plain") for mail in mail_server.mails)
    assert world.value("select count(*) from public.giftcard_customers") == 1


def test_customer_without_an_id_is_known_by_the_address(world: World) -> None:
    for email in ("kate@example.com", "Kate@Example.com"):
        world.submit(an_order(customer={"email": email, "external_id": None}))
    world.tick()
    (customer,) = world.sql("select * from public.giftcard_customers")
    assert re.fullmatch(r"KATE\d{4}", customer["personal_code"])
    assert world.value("select count(*) from public.giftcard_cards") == 2


def test_mail_waits_for_its_day_and_the_card_does_not(world: World, mail_server: MailServer) -> None:
    tomorrow = world.value("select now() + interval '1 day'").isoformat()
    world.submit(an_order(deliver_at=tomorrow))
    report = world.tick()
    assert (report["completed"], mail_server.mails) == (4, [])
    assert world.value("select count(*) from public.giftcard_cards") == 1
    world.move(23 * 3600)
    assert world.tick()["started"] == 0
    world.move(3600)
    assert world.tick()["completed"] == 1
    assert len(mail_server.mails) == 1


def test_tenants_do_not_see_each_other(world: World) -> None:
    for tenant in ("north", "south"):
        assert world.submit(an_order(tenant_id=tenant, correlation_id="order-1")).status_code == 202
    world.tick()
    codes = world.sql("select tenant_id, personal_code from public.giftcard_customers order by tenant_id")
    assert [(row["tenant_id"], row["personal_code"]) for row in codes] == [("north", "KATE1520"), ("south", "KATE1520")]
    assert world.flow("order-1", tenant_id="north")["card"] != world.flow("order-1", tenant_id="south")["card"]


def test_recipient_unknown_to_the_mail_server_is_a_dead_letter_with_its_card_made(
    world: World, mail_server: MailServer
) -> None:
    mail_server.rcpt = "550 no such user"
    world.submit()
    report = world.tick()
    assert (report["completed"], report["errored"]) == (4, 1)
    job = world.job(stage="email")
    assert (job["status"], job["revive_at"], job["attempts"]) == ("error", None, 1)
    mail_server.rcpt = None
    world.requeue(job["id"])
    assert world.tick()["completed"] == 1
    assert len(mail_server.mails) == 1


def test_mail_whose_time_is_past_already_is_due_at_once(world: World) -> None:
    world.submit(an_order(deliver_at="2020-12-24T18:00:00Z"))
    world.run(limit=4)
    mail = world.job(stage="email")
    assert (mail["scheduled_at"] - mail["created_at"]).total_seconds() >= 0
