"""`flask jobs test mail` and `test alert`: something real is sent through what the settings name."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Door
from tests.support.mail_server import a_mail_server
from tests.support.raw_server import Server
from tests.support.world import World

Make = Callable[..., World]

FROM = "Gift cards <cards@example.com>"


@pytest.fixture
def receiver() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def door(world: World) -> Door:
    return Door(world.app, world)


def test_a_test_mail_arrives(make_world: Make) -> None:
    with a_mail_server(password="sesame-open") as server:
        url = f"smtp://kate:sesame-open@127.0.0.1:{server.port}"
        at = door(make_world(SMTP_URL=url, MAIL_FROM=FROM, GIFTCARD_ENV="production"))
        assert at.says("test", "mail", "kim@example.com") == "mail: accepted by 127.0.0.1\n"
        (mail,) = server.mails
    assert (mail["From"], mail["To"], mail["Subject"]) == (FROM, "kim@example.com", "Test mail of the gift-card jobs")
    assert mail["Message-ID"].endswith("@example.com>")


def test_a_test_mail_that_is_not_accepted_ends_with_1(make_world: Make) -> None:
    with a_mail_server(password="sesame-open") as server:
        url = f"smtp://kate:{{}}@127.0.0.1:{server.port}"
        wrong = door(make_world(SMTP_URL=url.format("wrong-sesame"), MAIL_FROM=FROM)).run("test", "mail", "a@b.example")
        server.rcpt = "550 no such user"
        at = door(make_world(SMTP_URL=url.format("sesame-open"), MAIL_FROM=FROM))
        refused = at.run("test", "mail", "kim@example.com")
        as_json = json.loads(at.run("test", "mail", "kim@example.com", "--json").stdout)
    assert (wrong.exit_code, wrong.stdout.partition(": not accepted by 127.0.0.1: ")[0]) == (1, "mail")
    assert "SMTPAuthenticationError" in wrong.stdout
    assert "sesame" not in wrong.output
    text = "PermanentError: the recipient is refused (550)"
    assert (refused.exit_code, refused.stdout) == (1, f"mail: not accepted by 127.0.0.1: {text}\n")
    assert as_json == {"results": [{"channel": "mail", "to": "127.0.0.1", "sent": False, "error": text}]}


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"GIFTCARD_ENV": "production", "MAIL_FROM": FROM}, "sent: TransientError: SMTP_URL is not set"),
        ({"SMTP_URL": "smtp://kate:sesame@nowhere.invalid:587", "MAIL_FROM": FROM}, "accepted by nowhere.invalid: "),
    ],
)
def test_settings_that_are_wrong_are_one_line(make_world: Make, environ: dict[str, str], reason: str) -> None:
    result = door(make_world(**environ)).run("test", "mail", "kim@example.com")
    assert result.exit_code == 1
    assert re.match(f"mail: not {reason}", result.stdout)
    assert "sesame" not in result.output


def test_in_development_the_mail_is_a_file(make_world: Make, tmp_path: Path) -> None:
    at = door(make_world(GIFTCARD_MAIL_DIR=tmp_path / "mails"))
    assert at.says("test", "mail", "kim@example.com") == f"mail: accepted by a file in {tmp_path}/mails\n"
    assert len(list((tmp_path / "mails").glob("*.eml"))) == 1


def test_a_test_alert_reaches_each_channel_and_no_alert_is_recorded(make_world: Make, receiver: Server) -> None:
    with a_mail_server() as server:
        world = make_world(
            SMTP_URL=server.url,
            MAIL_FROM=FROM,
            GIFTCARD_ALERT_RECIPIENTS="ann@ops.example,ben@ops.example",
            GIFTCARD_ALERT_URL=f"{receiver.url}hook?token=sesame",
        )
        said = door(world).says("test", "alert")
        assert [mail["To"] for mail in server.mails] == ["ann@ops.example", "ben@ops.example"]
    assert said.splitlines() == [f"{name}: accepted by 127.0.0.1" for name in ("mail 1", "mail 2", "url")]
    (asked,) = receiver.asked
    assert json.loads(asked.body)["text"].startswith("This is a test of the gift-card jobs.")
    assert json.loads(asked.body)["condition"] == "test"
    assert world.row_counts()["giftcard_alert_notifications"] == 0


def test_one_channel_that_fails_ends_with_1_and_stops_no_other(make_world: Make, receiver: Server) -> None:
    receiver.then(500)
    with a_mail_server() as server:
        world = make_world(
            SMTP_URL=server.url,
            MAIL_FROM=FROM,
            GIFTCARD_ALERT_RECIPIENTS="ann,ben@ops.example",
            GIFTCARD_ALERT_URL=receiver.url,
        )
        result = door(world).run("test", "alert")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "mail 1: not accepted by 127.0.0.1: "
        "PermanentError: address 1 of GIFTCARD_ALERT_RECIPIENTS is not a mail address",
        "mail 2: accepted by 127.0.0.1",
        "url: not accepted by 127.0.0.1: TransientError: GIFTCARD_ALERT_URL responded with 500",
    ]


def test_bad_input_is_one_sentence(make_world: Make) -> None:
    world = make_world()
    assert "ADDRESS must be a mail address" in door(world).refuses("test", "mail", "kim")
    assert "no channel is set" in door(world).refuses("test", "alert")
    remote = Door(world.app, world, url="http://127.0.0.1:1")
    for command in (["test", "mail", "kim@example.com"], ["test", "alert"]):
        assert "uses the settings of this terminal, not of a deployment" in remote.refuses(*command)
