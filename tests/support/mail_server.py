"""A real mail server for tests."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult


class MailServer:
    """An SMTP server that is down until it is told to be `up`, and keeps what it took.

    `rcpt` and `data`: what it says to these commands instead of yes ("550 no such user"). `slow`: seconds before each
    reply, or before those to the command `slow_at` only. `rude`: the command at which it hangs up. `password`: asks for
    a login with it. `tls`: offers STARTTLS; `implicit`: begins with TLS instead. `utf8`: supports SMTPUTF8.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        utf8: bool = True,
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.senders: list[str] = []
        self.connections = 0
        self.rcpt: str | None = None
        self.data: str | None = None
        self.slow = 0.0
        self.slow_at = ""
        self.rude = ""
        self.encrypted: list[bool] = []
        self._password = password
        self._tls = {"ssl_context" if implicit else "tls_context": tls} if tls else {}
        self._utf8 = utf8
        self._controller: Controller | None = None

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def up(self) -> "MailServer":
        login: dict[str, Any] = {"auth_required": True, "auth_require_tls": False, "authenticator": self._check}
        options = (login if self._password else {}) | self._tls
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port, enable_SMTPUTF8=self._utf8, **options)
        self._controller.start()
        return self

    def down(self) -> None:
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def _check(self, server: Any, session: Any, envelope: Any, mechanism: Any, given: Any) -> AuthResult:
        return AuthResult(success=given.password.decode() == self._password, handled=False)

    # aiosmtpd calls these by the commands they answer.

    async def handle_EHLO(self, server: Any, session: Any, envelope: Any, name: Any, lines: Any) -> Any:  # noqa: N802
        self.connections += 1
        session.host_name = name
        await self._reply(server, "EHLO")
        return lines

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, rest: Any) -> str:  # noqa: N802
        await self._reply(server, "RCPT")
        if self.rcpt is None:
            envelope.rcpt_tos.append(address)
        return self.rcpt or "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        await self._reply(server, "DATA")
        if self.data is None:
            # As text: headers are UTF-8 where the client has asked for it (SMTPUTF8).
            message = message_from_string(envelope.content.decode(), policy=default)
            assert isinstance(message, EmailMessage)
            self.mails.append(message)
            self.encrypted.append(server.transport.get_extra_info("ssl_object") is not None)
            self.recipients.append(list(envelope.rcpt_tos))
            self.senders.append(envelope.mail_from)
        return self.data or "250 OK"

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        await self._reply(server, "QUIT")
        return "221 Bye"

    async def _reply(self, server: Any, command: str) -> None:
        if self.slow_at in ("", command):
            await asyncio.sleep(self.slow)
        if self.rude == command:
            server.transport.abort()


@contextmanager
def a_mail_server(**options: Any) -> Iterator[MailServer]:
    """A mail server that is up."""
    server = MailServer(**options).up()
    try:
        yield server
    finally:
        server.down()
