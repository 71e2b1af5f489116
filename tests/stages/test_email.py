"""The mail of a card, with a real mail server that is down, slow, rude, or says no."""

import time
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from lib.job import Complete, Outcome
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import World, an_order

Make = Callable[..., World]

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


@pytest.fixture
def with_card(make_world: Make) -> Callable[..., World]:
    """Makes a world in which only the mail is left to do."""

    def make(order: dict[str, Any] | None = None, **environ: Any) -> World:
        world = make_world(GIFTCARD_CIRCUIT_THRESHOLD=0, **environ)
        world.submit(order)
        world.sql("select public.giftcard_pause('email', 'test')")
        assert world.tick()["completed"] == 4
        world.sql("select public.giftcard_resume('email', 'test')")
        return world

    return make


def send(world: World) -> dict[str, Any]:
    """The mail's job, after a tick."""
    world.tick()
    return world.job(stage="email")


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ({"rcpt": "550 no such user"}, "the recipient is refused (550)"),
        ({"rcpt": "553 <kate@example.com> not here"}, "the recipient is refused (553)"),
        ({"data": "554 looks like spam to kate@example.com"}, "the message is refused (554)"),
    ],
)
def test_definite_no_to_recipient_or_message_ends_the_job(
    with_card: Make, mail_server: MailServer, refusal: dict[str, str], said: str
) -> None:
    vars(mail_server).update(refusal)
    job = send(with_card(SMTP_URL=mail_server.url))
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    assert job["last_error"] == f"PermanentError: {said}"


@pytest.mark.parametrize(
    "refusal",
    [{"rcpt": "450 try later"}, {"rcpt": "421 going down"}, {"data": "451 disk full"}, {"data": "421 going down"}],
)
def test_no_for_now_is_tried_again(with_card: Make, mail_server: MailServer, refusal: dict[str, str]) -> None:
    vars(mail_server).update(refusal)
    world = with_card(SMTP_URL=mail_server.url)
    job = send(world)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    vars(mail_server).update({"rcpt": None, "data": None})
    world.move(5)
    assert send(world)["status"] == "completed"
    assert len(mail_server.mails) == 1


def test_mail_server_that_is_down_is_tried_again(with_card: Make, mail_server: MailServer) -> None:
    mail_server.down()
    world = with_card(SMTP_URL=mail_server.url)
    job = send(world)
    assert job["status"] == "queued"
    assert job["last_error"].startswith("TransientError: mail server: ConnectionRefusedError")
    mail_server.up()
    world.move(5)
    assert send(world)["status"] == "completed"


@pytest.mark.parametrize("command", ["EHLO", "RCPT", "DATA"])
def test_mail_server_that_hangs_up_is_tried_again(with_card: Make, mail_server: MailServer, command: str) -> None:
    mail_server.rude = command
    world = with_card(SMTP_URL=mail_server.url)
    job = send(world)
    assert (job["status"], job["last_error"].partition(" ")[0]) == ("queued", "TransientError:")
    mail_server.rude = ""
    world.move(5)
    assert send(world)["status"] == "completed"


def test_failed_login_is_our_own_fault_and_kills_no_job(with_card: Make) -> None:
    with a_mail_server(password="right") as server:
        host = server.url.removeprefix("smtp://")
        world = with_card(SMTP_URL=f"smtp://user:wrong-password@{host}")
        job = send(world)
        assert (job["status"], "SMTPAuthenticationError" in job["last_error"]) == ("queued", True)
        assert "wrong-password" not in job["last_error"]


def test_login_with_the_password_of_the_url(with_card: Make) -> None:
    with a_mail_server(password="p@ss/word") as server:
        host = server.url.removeprefix("smtp://")
        assert send(with_card(SMTP_URL=f"smtp://user:p%40ss%2Fword@{host}"))["status"] == "completed"
        assert len(server.mails) == 1


def test_slow_mail_server_is_given_up_before_the_ttr(with_card: Make, mail_server: MailServer) -> None:
    mail_server.slow = 0.7  # three replies of it are more than its time
    world = with_card(SMTP_URL=mail_server.url, GIFTCARD_STAGE_EMAIL_TTR_SECONDS=2)
    job = send(world)
    assert (job["status"], job["last_error"].partition(":")[0]) == ("queued", "TransientError"), "not TtrExceeded"


def test_slow_goodbye_makes_no_failure_of_a_mail_that_was_taken(
    with_card: Make, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.jobs.smtp._QUIT_SECONDS", 0.3)
    mail_server.slow, mail_server.slow_at = 15, "QUIT"
    began = time.monotonic()
    job = send(with_card(SMTP_URL=mail_server.url))
    assert (job["status"], len(mail_server.mails)) == ("completed", 1)
    assert time.monotonic() - began < 10, "the job does not wait for it"


def test_rude_goodbye_makes_no_failure_of_a_mail_that_was_taken(with_card: Make, mail_server: MailServer) -> None:
    mail_server.rude = "QUIT"
    assert send(with_card(SMTP_URL=mail_server.url))["status"] == "completed"
    assert len(mail_server.mails) == 1


def test_mail_that_is_sent_again_has_the_same_message_id(with_card: Make, mail_server: MailServer) -> None:
    world = with_card(SMTP_URL=mail_server.url)
    job = send(world)
    # As if the function had been killed after the mail server took it.
    world.sql("update giftcard_effects set result = null, finished_at = null where stage = 'email'")
    world.requeue(job["id"], force=True)
    assert send(world)["status"] == "completed"
    first, second = mail_server.mails
    assert first["Message-ID"] == second["Message-ID"]


def test_mail_that_was_sent_is_not_sent_again_by_a_forced_requeue(with_card: Make, mail_server: MailServer) -> None:
    world = with_card(SMTP_URL=mail_server.url)
    world.requeue(send(world)["id"], force=True)
    assert send(world)["run_no"] == 2
    assert len(mail_server.mails) == 1


@pytest.mark.parametrize(
    ("given", "recipient"), [("kate@bücher.com", "kate@xn--bcher-kva.com"), ("käte@example.com", "käte@example.com")]
)
def test_mail_reaches_addresses_of_other_scripts(
    with_card: Make, mail_server: MailServer, given: str, recipient: str
) -> None:
    world = with_card(an_order(customer={"email": given, "given_name": "Käte"}), SMTP_URL=mail_server.url)
    assert send(world)["status"] == "completed"
    assert mail_server.recipients == [[recipient]]


def test_order_whose_card_is_missing_says_what_to_do(make_world: Make) -> None:
    world = make_world()
    world.submit(an_order(correlation_id="order-1"))
    world.enqueue("email", an_order(), correlation_id="order-1")
    world.run(only_stage="email")
    assert (
        world.job(stage="email")["last_error"]
        == "PermanentError: the order has no card to send: requeue its issue_card job"
    )


def test_development_writes_mails_as_files_that_mail_programs_open(with_card: Make, tmp_path: Path) -> None:
    world = with_card(GIFTCARD_ENV="development")
    assert send(world)["status"] == "completed"
    (file,) = (tmp_path / "mails").iterdir()
    mail = message_from_bytes(file.read_bytes(), policy=default)
    assert isinstance(mail, EmailMessage)
    assert (file.suffix, mail["Subject"]) == (".eml", "Your $25.00 gift card")
    assert mail["Message-ID"] == f"<{file.stem}@localhost>"


@pytest.mark.parametrize("environment", [{"GIFTCARD_ENV": "production"}, {}, {"VERCEL_ENV": "preview"}])
def test_production_never_writes_mails_as_files(with_card: Make, tmp_path: Path, environment: dict[str, Any]) -> None:
    world = with_card(**({"GIFTCARD_ENV": None, "GIFTCARD_ALLOW_PREVIEW": 1} | environment))
    assert world.tick()["parked"]["email"] == "SMTP_URL"
    assert world.job(stage="email")["status"] == "queued"
    assert not (tmp_path / "mails").exists()


def test_no_stage_writes_mails_as_files_in_production(make_world: Make, tmp_path: Path) -> None:
    def writes(payload: Any, context: Any) -> Outcome:
        message = EmailMessage()
        message["To"], message["Message-ID"] = "kate@example.com", "<m@localhost>"
        context.mail.send(message)
        return Complete()

    world = make_world(handlers={"work": writes}, GIFTCARD_ENV="production")
    (job_id,) = world.enqueue("work")
    world.tick()
    assert (world.job(job_id)["status"], "SMTP_URL" in world.job(job_id)["last_error"]) == ("queued", True)
    assert not (tmp_path / "mails").exists()
