"""The sender of mails, and a mail server that is tried without sending anything."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import SettingsError
from tests.monitoring.doctor.conftest import Examine
from tests.support.mail_server import a_mail_server
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]

FROM = "Gift cards <cards@example.com>"


# The sender


@pytest.mark.parametrize(
    "environ", [{"GIFTCARD_ENV": "production"}, {"GIFTCARD_ENV": None}, {"SMTP_URL": "smtp://mail.example"}]
)
def test_a_sender_has_to_be_set_where_mails_are_sent(
    make_world: Make, examined: Examine, environ: dict[str, Any]
) -> None:
    for sender in (None, ""):
        line = examined(make_world(MAIL_FROM=sender, **environ))["mail"]
        assert (line["level"], line["message"].partition(":")[0]) == ("red", "MAIL_FROM is not set")
    assert examined(make_world(MAIL_FROM=FROM, **environ))["mail"]["level"] == "green"


def test_where_mails_are_files_the_default_will_do(make_world: Make, examined: Examine) -> None:
    assert examined(make_world())["mail"]["level"] == "green"


def test_a_sender_that_no_server_accepts_is_red(make_world: Make, examined: Examine) -> None:
    local = {"MAIL_FROM": "Gift cards <giftcards@localhost>"}
    assert examined(make_world(**local))["mail"]["level"] == "green"
    line = examined(make_world(SMTP_URL="smtp://mail.example", **local))["mail"]
    assert (line["level"], "localhost" in line["message"]) == ("red", True)


@pytest.mark.parametrize(
    "sender", ["cards@example.com", FROM, '"Cards, gifts" <cards@example.com>', "Käte <k@a.example>"]
)
def test_a_well_formed_sender_is_green(make_world: Make, examined: Examine, sender: str) -> None:
    assert examined(make_world(MAIL_FROM=sender, GIFTCARD_ENV="production"))["mail"]["level"] == "green"


# The server


def probed(make_world: Make, examined: Examine, url: str) -> dict[str, Any]:
    line = examined(make_world(SMTP_URL=url, MAIL_FROM=FROM), probe=True)["mail"]
    assert "sesame" not in str(line)
    return line


def test_a_server_that_lets_us_in_is_green_and_gets_no_mail(make_world: Make, examined: Examine) -> None:
    with a_mail_server(password="sesame-open") as server:
        url = f"smtp://kate:sesame-open@127.0.0.1:{server.port}"
        line = probed(make_world, examined, url)
        assert (line["level"], line["message"]) == ("green", "the mail server answers and accepts the login")
        assert (server.mails, server.connections) == ([], 1)


def test_a_login_that_is_refused_is_red(make_world: Make, examined: Examine) -> None:
    with a_mail_server(password="sesame-open") as server:
        line = probed(make_world, examined, f"smtp://kate:wrong-sesame@127.0.0.1:{server.port}")
    assert (line["level"], "SMTPAuthenticationError" in line["message"]) == ("red", True)


def test_a_server_that_is_not_there_is_red(make_world: Make, examined: Examine) -> None:
    line = probed(make_world, examined, "smtp://kate:sesame-open@127.0.0.1:1")
    assert (line["level"], line["message"].startswith("SMTP_URL: mail server: ")) == ("red", True)


def test_a_server_without_tls_where_tls_is_asked_for_is_red(make_world: Make, examined: Examine) -> None:
    with a_mail_server() as server:
        assert probed(make_world, examined, f"smtps://kate:sesame-open@127.0.0.1:{server.port}")["level"] == "red"


def test_a_server_that_says_nothing_is_given_up(
    make_world: Make, examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.monitoring.doctor.mail._PROBE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        world = make_world(SMTP_URL=f"smtp://127.0.0.1:{silent.getsockname()[1]}", MAIL_FROM=FROM)
        began = time.monotonic()
        assert examined(world, probe=True)["mail"]["level"] == "red"
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("url", ["smtp://kate:p/sesame@mail.example", "smtp://[mail", "smtp://mail:sesame"])
def test_an_address_that_is_none_is_refused_at_the_start_and_not_shown(make_world: Make, url: str) -> None:
    with pytest.raises(SettingsError, match=r"^SMTP_URL: must have ") as caught:
        make_world(SMTP_URL=url, MAIL_FROM=FROM)
    assert "sesame" not in str(caught.value)


def test_the_status_tries_the_server_only_when_asked(make_world: Make) -> None:
    with a_mail_server() as server:
        world = make_world(SMTP_URL=server.url, MAIL_FROM=FROM)
        for query, connections in (("", 0), ("?probe=false", 0), ("?probe=true", 1)):
            answer = world.client.get(f"/api/status{query}", headers=bearer(ADMIN))
            assert answer.status_code == 200
            assert [check["level"] for check in answer.json["doctor"] if check["check"] == "mail"] == ["green"]
            assert server.connections == connections
        refused = world.client.get("/api/status?probe=maybe", headers=bearer(ADMIN))
        assert (refused.status_code, refused.json["field"]) == (422, "probe")
