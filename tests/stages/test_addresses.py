"""Every address that is accepted reaches header and envelope as it was given; every other is refused at the door."""

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from lib.giftcards.mail_message import MailMessage
from lib.giftcards.orders import Order
from lib.giftcards.schemas import RecipientPatch
from lib.monitoring.trial import send_mail
from lib.validation import field_errors
from tests.cli.conftest import Door
from tests.support.addresses import INVALID, VALID
from tests.support.alerts import check, failures, open_circuits
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.order_files import import_lines, read
from tests.support.world import ADMIN, API, World, an_order, bearer

Make = Callable[..., World]
Send = Callable[[EmailMessage], tuple[str, list[str], EmailMessage]]

SENT_AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
JSON = {"Content-Type": "application/json"}
# One of each kind: tests/jobs/test_mail_headers.py sends to all.
KINDS = [
    "a!b%c@example.com",
    " kate@example.com ",
    "kate@BU\u0308CHER.de",
    "ka\u0308te@example.com",
    "\u5c71\u7530@example.com",
]
FROM = "Cards <cards@example.com>"
MAIL = {"subject": "Hello", "template": "plain", "data": {"heading": "Hi", "paragraphs": "x"}}


@pytest.fixture(scope="module")
def server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture
def mails(server: MailServer) -> MailServer:
    for kept in (server.mails, server.recipients, server.senders):
        kept.clear()
    return server


def order(email: str, name: str = "Kate") -> dict[str, Any]:
    return an_order(customer={"email": email, "given_name": name, "external_id": uuid.uuid4().hex})


def csv(*emails: str) -> list[str]:
    quoted = ('"' + email.replace('"', '""') + '"' for email in emails)
    rows = (f"{uuid.uuid4().hex},Kate,{email},25.00,USD" for email in quoted)
    return ["external_id,given_name,email,amount,currency", *rows]


def to(message: EmailMessage) -> list[str]:
    return [address.addr_spec for address in message["To"].addresses]


# The doors

MODELS: dict[str, Callable[[str], BaseModel]] = {
    "customer.email": lambda text: Order.model_validate(order(text)),
    "email": lambda text: RecipientPatch.model_validate({"email": text}),
    "to": lambda text: MailMessage.model_validate(MAIL | {"to": text}),
}


@pytest.mark.parametrize("text", INVALID)
@pytest.mark.parametrize("field", MODELS)
def test_other_address_is_refused_with_its_field_and_not_repeated(field: str, text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        MODELS[field](text)
    ((named, words),) = field_errors(raised.value)
    assert named == field
    assert "eve" not in words
    assert "example" not in words


def test_api_refuses_all_others(world: World) -> None:
    for text in INVALID:
        body = json.dumps(order(text))
        response = world.client.post("/api/v1/giftcards", data=body, headers=bearer(API) | JSON)
        assert response.json
        assert (response.status_code, response.json["field"]) in ((422, "customer.email"), (400, "customer.email")), (
            text
        )
        assert "eve" not in response.text
    assert world.statuses() == {}


def test_csv_refuses_all_others() -> None:
    # Blanks and line breaks around a cell are not part of its value.
    rows = [
        row
        for text in INVALID
        if text.strip() == text
        for row in read("\n".join(csv(text)).encode("utf-8", "surrogatepass"))
    ]
    assert len(rows) >= len(INVALID) - 10
    for row in rows:
        assert row.order is None
        assert "email" in (row.problem or "")
        assert "eve" not in (row.problem or "")


def test_test_mail_of_the_cli_refuses_all_others(make_world: Make, mails: MailServer) -> None:
    world = make_world(SMTP_URL=mails.url, MAIL_FROM=FROM)
    private = {"kate@localhost", "kate@example", "kate@exam_ple.com", "kate@ab--cd.com", "kate@127.0.0.1"}
    for text in INVALID:
        if "\0" in text or text in private or "@shop." in text or "xn--" in text or text.endswith("c0m1"):
            continue
        result = Door(world.app, world).run("test", "mail", "--", text)
        assert result.exit_code == 2, text
        assert "ADDRESS must be a mail address" in result.output or "control character" in result.output
    assert mails.mails == []


# From each door to the mail server


def of_api(world: World, text: str) -> None:
    assert world.submit(order(text)).status_code == 202


def of_csv(world: World, text: str) -> None:
    done = import_lines(world, csv(text))
    assert (done.created, done.wrong) == (1, [])


def of_plain_sql(world: World, text: str) -> None:
    world.add("customer_ingest", order(text))


def of_a_correction(world: World, text: str) -> None:
    flow = world.submit(order("wrong@example.com")).json
    assert flow
    response = world.client.patch(
        f"/api/v1/giftcards/{flow['correlation_id']}/recipient", json={"email": text}, headers=bearer(ADMIN)
    )
    assert response.status_code == 200, response.text


def of_send_mail(world: World, text: str) -> None:
    body = {"stage": "send_mail", "payload": MAIL | {"to": text}, "correlation_id": uuid.uuid4().hex}
    response = world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN))
    assert response.status_code == 202, response.text


def test_each_intake_sends_to_what_it_accepts(make_world: Make, mails: MailServer) -> None:
    world = make_world(SMTP_URL=mails.url, MAIL_FROM=FROM, GIFTCARD_JOBS_PER_CRON_RUN=1000, GIFTCARD_CONCURRENCY=10)
    for intake in (of_api, of_csv, of_plain_sql, of_a_correction, of_send_mail):
        for text in KINDS:
            intake(world, text)
    for _ in range(6):
        world.tick()
    assert set(world.statuses()) == {"completed"}
    expected = sorted(5 * [VALID[text] for text in KINDS])
    assert sorted(recipient for (recipient,) in mails.recipients) == expected
    assert sorted(address for mail in mails.mails for address in to(mail)) == expected


def test_alerts_and_test_mails_reach_what_settings_name(make_world: Make, mails: MailServer, log: Any) -> None:
    """In ASCII only; one with an encoded word is a channel that fails, and stops nothing else."""
    ascii_ = [text for text in VALID if text == VALID[text] and text.isascii()]
    encoded = "=?utf-8?q?eve?=@example.com"
    world = make_world(SMTP_URL=mails.url, MAIL_FROM=FROM, GIFTCARD_ALERT_RECIPIENTS=",".join([encoded, *ascii_]))
    open_circuits(world, "a")
    check(world)
    assert sorted(mails.recipients) == sorted([text] for text in ascii_)
    assert [to(mail) for mail in mails.mails] == mails.recipients
    problem = "PermanentError: address 1 of GIFTCARD_ALERT_RECIPIENTS is not a mail address"
    assert failures(log) == [("mail 1", problem)]
    for text in ascii_:
        assert send_mail(world.settings, text)[0]["sent"]
        assert (mails.recipients[-1], to(mails.mails[-1])) == ([text], [text])


def test_address_that_only_smtputf8_takes_ends_its_job_alone(make_world: Make) -> None:
    """It is no fault of the server: other mails go on."""
    with a_mail_server(utf8=False) as server:
        world = make_world(SMTP_URL=server.url, GIFTCARD_CIRCUIT_THRESHOLD=1)
        world.enqueue("send_mail", MAIL | {"to": "k\u00e4te@example.com"})
        world.enqueue("send_mail", MAIL | {"to": "kate@b\u00fccher.de"})
        world.tick()
        assert world.statuses() == {"error": 1, "completed": 1}
        assert server.recipients == [["kate@xn--bcher-kva.de"]]
        assert "SMTPUTF8" in world.sql("select last_error from giftcard_jobs where status = 'error'")[0]["last_error"]
