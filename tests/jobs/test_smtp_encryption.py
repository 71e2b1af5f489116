"""Passwords and mails are sent encrypted, to the server of the name, or not at all."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lib.errors import TransientError
from lib.jobs.clients import Mail
from tests.jobs.test_smtp import mail
from tests.support.certificates import Authority
from tests.support.mail_server import a_mail_server
from tests.support.world import settings_of

HOST, PASSWORD = "mail.example.com", "sesame-open-42"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that this process trusts; and every name leads to this machine, which no URL knows."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.root))
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    return made


def send(scheme: str, port: int, *, host: str = HOST, **environ: Any) -> None:
    """In production, unless told otherwise."""
    url = f"{scheme}://kim:{PASSWORD}@{host}:{port}"
    settings = settings_of(**({"GIFTCARD_ENV": "production", "SMTP_URL": url} | environ))
    Mail(settings, until=time.monotonic() + 20).send(mail())


@pytest.mark.parametrize(("scheme", "implicit"), [("smtp", False), ("smtps", True)])
def test_mail_is_sent_within_tls(authority: Authority, scheme: str, implicit: bool) -> None:
    tls = authority.issue(HOST).context()
    with a_mail_server(password=PASSWORD, tls=tls, implicit=implicit) as server:
        send(scheme, server.port)
    assert server.encrypted == [True]


@pytest.mark.parametrize(("scheme", "implicit"), [("smtp", False), ("smtps", True)])
@pytest.mark.parametrize("wrong", ["another name", "another authority"])
def test_server_with_a_wrong_certificate_gets_nothing(
    authority: Authority, tmp_path: Path, scheme: str, implicit: bool, wrong: str
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    issued = authority.issue("other.example.com") if wrong == "another name" else Authority(stranger).issue(HOST)
    with (
        a_mail_server(password=PASSWORD, tls=issued.context(), implicit=implicit) as server,
        pytest.raises(TransientError, match="certificate verify failed"),
    ):
        send(scheme, server.port)
    assert server.mails == []


@contextmanager
def stripping(*, offers: bool, reply: bytes = b"") -> Iterator[tuple[int, bytearray]]:
    """A server in between that hides STARTTLS, or offers it and replies this to it; and all that it was sent."""
    seen = bytearray()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            connection.settimeout(10)
            connection.sendall(b"220 here\r\n")
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    seen.extend(line)
                    verb = line[:4].upper()
                    offered = b"250-STARTTLS\r\n" if offers else b""
                    connection.sendall(
                        b"250-here\r\n" + offered + b"250 AUTH PLAIN LOGIN CRAM-MD5\r\n" if verb == b"EHLO"
                        else reply if verb == b"STAR" else b"334 \r\n" if verb == b"AUTH" else b"354 go on\r\n"
                    )  # fmt: skip

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1], seen
        thread.join()


@pytest.mark.parametrize(
    ("offers", "reply", "said"),
    [
        (False, b"", "offers no encryption"),
        (True, b"454 not now\r\n", "454"),
        (True, b"220 go on\r\n250 injected\r\n", "SSL"),
    ],
    ids=["hidden", "refused", "faked"],
)
def test_server_that_strips_tls_gets_nothing(authority: Authority, offers: bool, reply: bytes, said: str) -> None:
    with stripping(offers=offers, reply=reply) as (port, seen), pytest.raises(TransientError, match=said) as failed:
        send("smtp", port)
    assert PASSWORD not in str(failed.value)
    sent = bytes(seen).upper()
    assert sent.startswith(b"EHLO ")
    assert not any(verb in sent for verb in (b"AUTH", b"MAIL FROM", b"RCPT TO", b"DATA\r\n", b"SESAME"))


def test_development_needs_tls_for_another_machine_too(authority: Authority) -> None:
    with a_mail_server(password=PASSWORD) as server:
        with pytest.raises(TransientError, match="offers no encryption"):
            send("smtp", server.port, GIFTCARD_ENV="development")
        send("smtp+insecure", server.port, GIFTCARD_ENV="development")
    assert server.encrypted == [False]


@pytest.mark.parametrize("scheme", ["smtp", "smtp+insecure"])
def test_this_machine_may_have_no_tls(scheme: str) -> None:
    with a_mail_server(password=PASSWORD) as server:
        send(scheme, server.port, host="127.0.0.1")
    assert server.encrypted == [False]
