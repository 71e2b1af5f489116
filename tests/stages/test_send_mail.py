"""The stage send_mail: a mail by template, and a real mail server that is down, or says no."""

from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from lib.giftcards.mail_message import TEMPLATE_FOLDER, template_names
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import ADMIN, API, World, bearer

Make = Callable[..., World]

DATA: dict[str, Any] = {"heading": "Hello Kate", "paragraphs": ["Your order is on its way.", "See you soon."]}
DETAILS = [{"label": "Order", "value": "A-1"}, {"label": "Sum", "value": 25}]
MAIL = {"to": "kate@example.com", "subject": "Your order", "template": "plain", "data": DATA}


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture
def world(make_world: Make, mail_server: MailServer) -> World:
    return make_world(SMTP_URL=mail_server.url, GIFTCARD_CIRCUIT_THRESHOLD=0)


def run(world: World, **changes: Any) -> dict[str, Any]:
    """The mail's job, after a tick."""
    (job_id,) = world.enqueue("send_mail", MAIL | changes)
    world.tick()
    return world.job(job_id)


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body
    content: str = body.get_content()
    return content


def test_text_and_html_say_the_same(world: World, mail_server: MailServer) -> None:
    assert run(world)["status"] == "completed"
    (mail,) = mail_server.mails
    assert (mail["To"], mail["Subject"], mail["From"]) == (
        "kate@example.com", "Your order", "Gift cards <giftcards@localhost>"
    )  # fmt: skip
    assert part(mail, "plain").splitlines() == [
        "Hello Kate", "", "Your order is on its way.", "", "See you soon."
    ]  # fmt: skip
    html = part(mail, "html")
    assert all(text in html for text in ("Hello Kate</h1>", "on its way.</p>", "See you soon.</p>"))


def test_details_are_a_table(world: World, mail_server: MailServer) -> None:
    assert run(world, template="details", data=DATA | {"details": DETAILS})["status"] == "completed"
    (mail,) = mail_server.mails
    assert part(mail, "plain").splitlines()[-2:] == ["Order: A-1", "Sum: 25"]
    assert ">Order</th>" in part(mail, "html")


def test_data_is_escaped_in_html_and_plain_in_text(world: World, mail_server: MailServer) -> None:
    hostile = '<script>alert("1")</script> {{ 7 * 7 }} & Söhne'
    run(
        world,
        template="details",
        data={"heading": hostile, "paragraphs": hostile, "details": [{"label": hostile, "value": hostile}]},
    )
    (mail,) = mail_server.mails
    html, text = part(mail, "html"), part(mail, "plain")
    assert ("<script>" in html, html.count("&lt;script&gt;"), html.count("{{ 7 * 7 }} &amp; Söhne")) == (False, 5, 5)
    assert text.count(hostile) == 4


@pytest.mark.parametrize(
    "subject", ["Grüße 🎁", "x" * 200, "=?utf-8?q?Hello=0ABcc:_eve=40example.com?=", "a: b; c, <d@e.f>", "=?x?=" * 40]
)
def test_a_subject_adds_no_header(world: World, mail_server: MailServer, subject: str) -> None:
    assert run(world, subject=subject)["status"] == "completed"
    (mail,) = mail_server.mails
    assert mail["Subject"] == subject.replace("=?", "= ?")
    assert (mail["Bcc"], mail_server.recipients) == (None, [["kate@example.com"]])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"to": "kate"}, "payload: to is not a valid e-mail address"),
        ({"to": "a@example.com, b@example.com"}, "payload: to is not a valid e-mail address"),
        ({"to": ["a@example.com"]}, "payload: to must be text"),
        ({"to": "Kate <kate@example.com>"}, "payload: to is not a valid e-mail address"),
        ({"to": "a@example.com\nBcc: b@example.com"}, "payload: to contains a control character, U+000A"),
        ({"subject": "a\r\nBcc: b@example.com"}, "payload: subject contains a control character, U+000D"),
        ({"subject": " "}, "payload: subject must have at least 1 character"),
        ({"subject": "x" * 201}, "payload: subject must have at most 200 characters"),
        ({"template": "welcome"}, "payload: template is not a template: the templates are details, plain"),
        ({"template": "../mail"}, "payload: template is not a template: the templates are details, plain"),
        ({"template": "plain.html"}, "payload: template is not a template: the templates are details, plain"),
        ({"data": ["x"]}, "payload: data must be an object"),
        ({"cc": "a@example.com"}, "payload: cc is unknown"),
        ({"data": {}}, "data does not fit the template plain: 'heading' is undefined"),
        ({"data": {"heading": "x"}}, "data does not fit the template plain: 'paragraphs' is undefined"),
        ({"data": DATA | {"paragraphs": 7}}, "data does not fit the template plain: 'int' object is not iterable"),
        (
            {"template": "details", "data": DATA | {"details": {"a": 1}}},
            "data does not fit the template details: 'str object' has no attribute 'label'",
        ),
        ({"template": "details"}, "data does not fit the template details: 'details' is undefined"),
    ],
)
def test_what_is_no_mail_is_a_dead_letter_with_the_reason(
    world: World, mail_server: MailServer, change: dict[str, Any], reason: str
) -> None:
    job = run(world, **change)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert job["last_error"] == f"PermanentError: {reason}"
    assert mail_server.mails == []


def test_the_api_refuses_an_unknown_template_at_once(world: World) -> None:
    job = {"stage": "send_mail", "correlation_id": "m-1", "payload": MAIL | {"template": "welcome"}}
    answer = world.client.post("/api/v1/jobs", json={"jobs": [job]}, headers=bearer(API))
    assert answer.status_code in (401, 403, 422)
    answer = world.client.post("/api/v1/jobs", json={"jobs": [job]}, headers=bearer(ADMIN))
    assert answer.status_code == 422
    assert "details, plain" in answer.text


def test_a_mail_that_is_sent_again_has_the_same_message_id(world: World, mail_server: MailServer) -> None:
    job = run(world)
    # As if the function had been killed after the mail server took it.
    world.sql("update giftcard_effects set result = null, finished_at = null")
    world.requeue(job["id"], force=True)
    world.tick()
    first, second = mail_server.mails
    assert first["Message-ID"] == second["Message-ID"]


def test_a_mail_that_was_sent_is_not_sent_again(world: World, mail_server: MailServer) -> None:
    world.requeue(run(world)["id"], force=True)
    world.tick()
    assert (len(mail_server.mails), world.statuses()) == (1, {"completed": 1})


@pytest.mark.parametrize(("attempts", "delays"), [(None, [1, 2, 4, 8]), (3, [1, 2]), (9, [1, 2, 4, 8, 16, 32, 60, 60])])
def test_a_mail_server_that_stays_down_is_tried_at_the_pace_of_mails(
    make_world: Make, mail_server: MailServer, attempts: int | None, delays: list[float]
) -> None:
    mail_server.down()
    world = make_world(SMTP_URL=mail_server.url, GIFTCARD_CIRCUIT_THRESHOLD=0, MAX_EMAIL_RETRY_ATTEMPTS=attempts)
    job = run(world)
    waits = []
    while job["status"] == "queued":
        waits.append((job["scheduled_at"] - world.history(job["id"])[-1]["finished_at"]).total_seconds())
        world.move_to(job["scheduled_at"])
        world.tick()
        job = world.job(job["id"])
    assert (job["attempts"], job["revive_at"] is not None) == (len(delays) + 1, True)
    assert [round(wait / delay, 6) for wait, delay in zip(waits, delays, strict=True)] == pytest.approx(
        [1.15] * len(delays), abs=0.1501
    )


def test_a_recipient_that_is_refused_ends_the_job(world: World, mail_server: MailServer) -> None:
    mail_server.rcpt = "550 no such user"
    job = run(world)
    assert (job["status"], job["last_error"]) == ("error", "PermanentError: the recipient is refused (550)")


def test_production_without_a_mail_server_parks_it(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production")
    (job_id,) = world.enqueue("send_mail", MAIL)
    assert world.tick()["parked"]["send_mail"] == "SMTP_URL"
    assert (world.job(job_id)["status"], world.job(job_id)["attempts"]) == ("queued", 0)


def test_development_writes_it_as_a_file(make_world: Make, tmp_path: Path) -> None:
    world = make_world(GIFTCARD_ENV="development")
    assert run(world)["status"] == "completed"
    (file,) = (tmp_path / "mails").glob("*.eml")
    assert message_from_bytes(file.read_bytes(), policy=default)["To"] == "kate@example.com"


def test_an_address_in_another_script_is_kept(world: World, mail_server: MailServer) -> None:
    assert run(world, to="kate@bücher.example")["status"] == "completed"
    assert mail_server.recipients == [["kate@xn--bcher-kva.example"]]


def test_no_address_is_logged(world: World, mail_server: MailServer, log: Any) -> None:
    mail_server.rcpt = "450 <kate@example.com> later"
    run(world)
    run(world, data={"heading": "kate@example.com"})
    assert "kate@example.com" not in str(log())


def test_each_template_has_both_parts() -> None:
    assert template_names() == ("details", "plain")
    for kind in ("txt", "html"):
        assert tuple(sorted(path.stem for path in TEMPLATE_FOLDER.glob(f"*.{kind}"))) == template_names()
