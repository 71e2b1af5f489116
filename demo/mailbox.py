"""A mail server that is down until it is opened, and stores mails as .eml files."""

import socket
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from email.utils import parseaddr
from pathlib import Path
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A stored mail. `key` is the part of its Message-ID before the @; `text` its plain part."""

    path: Path
    key: str
    to: str
    subject: str
    text: str


class MailServer:
    """A real SMTP server on a folder. Until `open`, its port is reserved and connections are refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.eml"):
            old.unlink()
        self._reserved: socket.socket | None = socket.socket()
        self._reserved.bind((_HOST, 0))
        self.port: int = self._reserved.getsockname()[1]
        self._controller: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it accepts mails."""
        return self._controller is not None

    def open(self) -> None:
        """Accept mails from now on."""
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        controller = Controller(_Handler(self._folder), hostname=_HOST, port=self.port)
        controller.start()
        self._controller = controller

    def __enter__(self) -> "MailServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._controller is not None:
            self._controller.stop()
        if self._reserved is not None:
            self._reserved.close()


class _Handler:
    """Stores each mail as its own file, so that duplicates are visible."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Store a message."""
        self._count += 1
        name = "".join(char if char.isalnum() or char in ".-_" else "_" for char in envelope.rcpt_tos[0].split("@")[0])
        (self._folder / f"{self._count:03}-{name}.eml").write_bytes(envelope.original_content)
        return "250 OK"


def read_mails(folder: Path) -> list[Mail]:
    """Return all mails of a folder in the order of arrival."""
    return [_read(path) for path in sorted(folder.glob("*.eml"))]


def _read(path: Path) -> Mail:
    message = message_from_bytes(path.read_bytes(), policy=default)
    plain = message.get_body(("plain",)) if isinstance(message, EmailMessage) else None
    return Mail(
        path=path,
        key=parseaddr(str(message["Message-ID"]))[1].partition("@")[0],
        to=parseaddr(str(message["To"]))[1],
        subject=str(message["Subject"]),
        text=plain.get_content() if plain else "",
    )
