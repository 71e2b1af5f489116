"""An SMTP session within a deadline. Import this when a mail is sent: smtplib costs a tick without mails."""

import contextlib
import io
import smtplib
import ssl
import time
from email.message import EmailMessage
from socket import socket
from types import TracebackType
from typing import Any, cast

from lib.config.urls import SmtpUrl
from lib.errors import PermanentError, TransientError

_MAX_WAIT_SECONDS = 30.0
_QUIT_SECONDS = 1.0


class Session:
    """A session with one server: encrypted as the URL demands, logged in if it has a user, and closed in any case.

    `until` is a `time.monotonic()` value that no step waits past; a caller may change it between two messages. After
    an error, `is_open` is whether the session can send another message.

    Raises:
        TransientError: by `with`, if the server cannot be reached, does not encrypt or refuses the login.
    """

    def __init__(self, url: SmtpUrl, *, until: float) -> None:
        self.until = until
        self._url = url
        self._smtp: smtplib.SMTP | None = None

    @property
    def is_open(self) -> bool:
        """Whether the session can send another message."""
        return self._smtp is not None and self._smtp.sock is not None

    def send(self, message: EmailMessage) -> None:
        """Send a message to its To.

        Raises:
            PermanentError: the server refuses the recipient or the message for good (5xx to RCPT or DATA), or does not
                support SMTPUTF8, which the recipient's address needs.
            TransientError: any other failure.
        """
        assert self._smtp is not None  # noqa: S101 - used within `with`
        try:
            sender, recipients = _envelope(message)
            self._smtp.send_message(message, sender, recipients)
        except smtplib.SMTPRecipientsRefused as error:
            code = next(iter(error.recipients.values()))[0]
            raise _failure(code, "the recipient is refused") from error
        except smtplib.SMTPDataError as error:
            raise _failure(error.smtp_code, "the message is refused") from error
        except smtplib.SMTPNotSupportedError as error:
            raise PermanentError("the mail server supports no letters beyond ASCII before the @ (SMTPUTF8)") from error
        except OSError as error:  # smtplib's errors are among them
            if not isinstance(error, smtplib.SMTPException):
                self._close()  # in the middle of a command
            raise self._unavailable(error) from error

    def __enter__(self) -> "Session":
        try:
            self._smtp = self._connect()
            self._smtp.ehlo()
            if self._url.security in ("starttls", "offered"):
                self._start_tls(self._smtp)
            if self._url.user:
                self._smtp.login(self._url.user, self._url.password)
        except OSError as error:
            self._close()
            raise self._unavailable(error) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The messages are accepted: a failing QUIT must not cause a retry, which would send them twice.
        with contextlib.suppress(OSError):
            if kind is None and self._smtp is not None and self.is_open:
                self.until = min(self.until, time.monotonic() + _QUIT_SECONDS)
                self._smtp.quit()
        self._close()

    def _unavailable(self, error: OSError) -> TransientError:
        where = f"{self._url.host}:{self._url.port}"
        return TransientError(f"mail server: {type(error).__name__} {error} ({where})")

    def _close(self) -> None:
        if self._smtp is not None:
            self._smtp.close()

    def _connect(self) -> smtplib.SMTP:
        if self._url.security == "tls":
            return _BoundedSsl(self, self._url.host, self._url.port, context=ssl.create_default_context())
        return _Bounded(self, self._url.host, self._url.port)

    def _start_tls(self, smtp: smtplib.SMTP) -> None:
        """Encrypt the session. Without it nothing is sent, except to this machine."""
        if smtp.has_extn("starttls"):
            smtp.starttls(context=ssl.create_default_context())
            smtp.ehlo()
        elif self._url.security == "starttls":
            raise TransientError("mail server: it offers no encryption (STARTTLS), so nothing is sent to it")

    def left(self) -> float:
        """Return how many seconds the next step may take.

        Raises:
            TimeoutError: none are left.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time left for mail")
        return min(left, _MAX_WAIT_SECONDS)


class _Bounded(smtplib.SMTP):
    """Each step has the time that is left for all: smtplib's own timeout begins anew with each byte of a reply."""

    def __init__(self, session: Session, host: str, port: int, **options: Any) -> None:
        self._session = session
        # The constructor may wait twice before it reads the greeting: for the connection and for TLS.
        super().__init__(host, port, timeout=session.left() / 3, **options)

    def send(self, s: Any) -> None:
        """Send bytes or text."""
        if self.sock is not None:  # None: the server has hung up, and smtplib raises
            self.sock.settimeout(self._session.left())
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        """Read a reply."""
        if self.file is None and self.sock is not None:
            self.file = cast(Any, io.BufferedReader(_Replies(self.sock, self._session)))
        return super().getreply()


class _BoundedSsl(_Bounded, smtplib.SMTP_SSL):
    """The same over TLS from the first byte."""


class _Replies(io.RawIOBase):
    """What the server sends, read within the session's deadline."""

    def __init__(self, sock: socket, session: Session) -> None:
        self._sock = sock
        self._session = session

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come, or wait for it."""
        self._sock.settimeout(self._session.left())
        return self._sock.recv_into(buffer)


def _envelope(message: EmailMessage) -> tuple[str, list[str]]:
    """Return sender and recipients as the headers hold them: smtplib would parse their text once more."""
    (author,) = message["From"].addresses
    return author.addr_spec, [address.addr_spec for address in message["To"].addresses]


def _failure(code: int, message: str) -> Exception:
    text = f"{message} ({code})"
    return PermanentError(text) if 500 <= code < 600 else TransientError(text)
