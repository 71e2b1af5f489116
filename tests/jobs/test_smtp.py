"""The mail client never waits past its time, whatever a server does, and one session takes many mails."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage

import pytest

from lib.config.urls import SmtpUrl
from lib.errors import PermanentError, TransientError
from lib.jobs.clients import Mail
from lib.jobs.smtp import Session
from tests.support.mail_server import a_mail_server
from tests.support.world import settings_of

# What a server says, and to which command of the client.
REPLIES = {
    "greeting": b"220 here\r\n",
    "ehlo": b"250 here\r\n",
    "mail": b"250 OK\r\n",
    "rcpt": b"250 OK\r\n",
    "data": b"354 go on\r\n",
    ".": b"250 taken\r\n",
}


@contextmanager
def a_slow_server(*, at: str, drip: bytes) -> Iterator[int]:
    """A server that at this command says `drip` for ever, a byte each twentieth of a second; nothing: it is silent."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                say(connection, "greeting")
                for line in lines:
                    say(connection, line.decode().strip().partition(" ")[0].lower())

    def say(connection: socket.socket, command: str) -> None:
        while command == at and not over.wait(0.05):
            connection.sendall(drip)
        connection.sendall(REPLIES.get(command, b""))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def mail(to: str = "kate@example.com") -> EmailMessage:
    message = EmailMessage()
    message["To"], message["From"], message["Message-ID"] = to, "shop@example.com", "<1@example.com>"
    message.set_content("Hello")
    return message


@pytest.mark.parametrize("at", REPLIES)
@pytest.mark.parametrize("drip", [b"", b".", b"250-more\r\n"], ids=["silent", "dripping", "endless"])
def test_server_that_takes_too_long_is_given_up_in_time(at: str, drip: bytes) -> None:
    with a_slow_server(at=at, drip=drip) as port:
        began = time.monotonic()
        with pytest.raises(TransientError, match="mail server"):
            Mail(settings_of(SMTP_URL=f"smtp://127.0.0.1:{port}"), until=began + 0.6).send(mail())
        assert time.monotonic() - began < 1


def test_session_goes_on_after_a_refusal() -> None:
    with a_mail_server() as server, Session(SmtpUrl(server.url), until=time.monotonic() + 5) as session:
        session.send(mail())
        server.rcpt = "550 no such user"
        with pytest.raises(PermanentError, match=r"the recipient is refused \(550\)"):
            session.send(mail("ben@example.com"))
        server.rcpt, server.data = None, "451 later"
        with pytest.raises(TransientError, match=r"the message is refused \(451\)"):
            session.send(mail("ben@example.com"))
        server.data = None
        assert session.is_open
        session.send(mail("ann@example.com"))
    assert server.recipients == [["kate@example.com"], ["ann@example.com"]]
    assert server.connections == 1


def test_session_that_is_cut_is_not_open() -> None:
    with a_mail_server() as server, Session(SmtpUrl(server.url), until=time.monotonic() + 5) as session:
        server.rude = "DATA"
        with pytest.raises(TransientError):
            session.send(mail())
        assert not session.is_open
        server.rude = ""


def test_session_whose_time_is_over_is_not_open() -> None:
    with a_mail_server() as server, Session(SmtpUrl(server.url), until=time.monotonic() + 5) as session:
        session.until = time.monotonic()
        with pytest.raises(TransientError, match="no time left"):
            session.send(mail())
        assert not session.is_open
    assert server.mails == []


def test_server_that_is_not_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransientError, match="ConnectionRefusedError"):
        Mail(settings_of(SMTP_URL=f"smtp://127.0.0.1:{port}"), until=time.monotonic() + 5).send(mail())
