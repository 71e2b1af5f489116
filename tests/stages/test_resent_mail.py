"""A mail is sent twice only on request, and then it really is: to a real mail server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import ADMIN, World, an_order, bearer

FLOW = "order-7"
PATH = f"/api/v1/giftcards/{FLOW}"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture
def world(make_world: Callable[..., World], mail_server: MailServer) -> World:
    world = make_world(SMTP_URL=mail_server.url, GIFTCARD_CIRCUIT_THRESHOLD=0)
    world.submit(an_order(correlation_id=FLOW))
    return world


def resend(world: World, *, status: int = 202, **body: Any) -> Any:
    headers = bearer(ADMIN)
    answer = world.client.post(f"{PATH}/resend", json={"reason": "it is lost"} | body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json


def test_each_request_sends_one_mail_to_the_address_of_the_order(world: World, mail_server: MailServer) -> None:
    world.drain()
    assert resend(world)["done"] == "created"
    assert resend(world)["done"] == "waiting"
    world.drain()
    assert resend(world, email="Anna@Example.com")["changed"] == ["email"]
    world.drain()
    assert mail_server.recipients == [["kate@example.com"], ["kate@example.com"], ["Anna@example.com"]]
    numbers = {mail.get_body(("plain",)).get_content() for mail in mail_server.mails}
    assert len(numbers) == 1, "it is the same card"
    # Mail programs drop a second mail of one Message-ID.
    assert len({mail["Message-ID"] for mail in mail_server.mails}) == 3
    # Forced requeues send nothing more.
    for job in world.flow(FLOW)["jobs"]:
        if job["stage"] == "email":
            world.requeue(job["id"], force=True)
    world.drain()
    assert len(mail_server.mails) == 3


def test_a_refused_mail_goes_to_the_corrected_address_once(world: World, mail_server: MailServer) -> None:
    mail_server.rcpt = "550 no such user"
    world.drain()
    (job,) = [job for job in world.flow(FLOW)["jobs"] if job["stage"] == "email"]
    assert job["status"] == "error"
    mail_server.rcpt = None
    done = resend(world, email="anna@example.com")
    assert (done["done"], done["job_id"]) == ("requeued", job["id"])
    world.drain()
    assert mail_server.recipients == [["anna@example.com"]]


def test_a_mail_for_a_later_day_is_not_sent_early(make_world: Callable[..., World], mail_server: MailServer) -> None:
    world = make_world(SMTP_URL=mail_server.url)
    world.submit(an_order(correlation_id=FLOW, deliver_at="2099-01-31T12:00:00Z"))
    world.drain()
    done = resend(world, email="anna@example.com")
    assert (done["done"], done["scheduled_at"][:10], done["changed"]) == ("waiting", "2099-01-31", ["email"])
    world.drain()
    assert mail_server.mails == []


def test_a_resend_keeps_the_semantics_of_its_stage(make_world: Callable[..., World], mail_server: MailServer) -> None:
    world = make_world(SMTP_URL=mail_server.url, GIFTCARD_STAGE_EMAIL_SEMANTICS="at_most_once")
    world.submit(an_order(correlation_id=FLOW))
    world.drain()
    job = world.job(resend(world)["job_id"])
    assert (job["semantics"], job["trigger_type"], job["source"]) == ("at_most_once", "operator", "app")
    assert job["payload"]["customer"]["email"] == "kate@example.com"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("update giftcard_orders set cancelled_at = now()", "order order-7 is cancelled: its card is not sent"),
        ("update giftcard_cards set state = 'blocked'", "the card of order order-7 is blocked: it is not sent"),
        ("update giftcard_orders set details = '{}'", "the customer of order order-7 was erased: there is no address"),
        ("delete from giftcard_cards", "order order-7 has no card to send"),
    ],
)
def test_what_must_not_be_sent_is_refused(world: World, mail_server: MailServer, statement: str, sentence: str) -> None:
    world.drain()
    world.sql(statement)
    refused = resend(world, status=409, email="anna@example.com")
    assert (refused["title"], refused["field"]) == (sentence, "correlation_id")
    world.drain()
    assert (len(mail_server.mails), world.value("select count(*) from giftcard_audit")) == (1, 0)


@pytest.mark.parametrize("body", [{"reason": ""}, {"reason": None}, {"email": "kate"}, {"given_name": "Eve"}])
def test_a_request_that_is_not_valid_names_its_field(world: World, body: dict[str, Any]) -> None:
    assert resend(world, status=422, **body)["field"] == next(iter(body))


def test_an_unknown_order_is_not_found(world: World) -> None:
    answer = world.client.post("/api/v1/giftcards/none/resend", json={"reason": "x"}, headers=bearer(ADMIN))
    assert (answer.status_code, answer.json["field"]) == (404, "correlation_id")
