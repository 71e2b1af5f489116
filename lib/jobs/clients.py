"""Clients for handlers: HTTP and mail, bounded by the run's deadline."""

import contextlib
import time
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError, is_permanent_status
from lib.safe_http.response import retry_after
from lib.safe_http.tls import tls

if TYPE_CHECKING:  # imported when used: a tick without HTTP or mail pays for neither
    import httpx

# Longer responses are an error.
_MAX_BODY_BYTES = 1_000_000
_MAX_WAIT_SECONDS = 30.0
_QUIT_SECONDS = 1.0


def _left(until: float, *, doing: str) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TransientError(f"no time left for {doing}")
    return left


class Http:
    """An HTTP client for URLs from our own settings or code; for any other, use `lib.safe_http`.

    It connects on first use and never waits past `until` (a `time.monotonic()` value).
    """

    def __init__(self, *, until: float) -> None:
        self._until = until

    def request(self, method: str, url: str, **options: Any) -> "httpx.Response":
        """Send a request and return the response, read up to 1 MB. Redirects are not followed.

        Raises:
            TransientError: no complete response. The request may have taken effect.
        """
        import httpx

        timeout = min(_left(self._until, doing=f"{method} {urlsplit(url).hostname}"), _MAX_WAIT_SECONDS)
        try:
            with (
                httpx.Client(timeout=timeout, verify=tls()) as client,
                client.stream(method, url, **options) as response,
            ):
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MAX_BODY_BYTES:
                        raise TransientError(f"{urlsplit(url).hostname} sent more than {_MAX_BODY_BYTES} bytes")
                    _left(self._until, doing="the rest of the response")
        except httpx.HTTPError as error:
            raise TransientError(f"{urlsplit(url).hostname}: {type(error).__name__} {error}".strip()) from error
        return httpx.Response(response.status_code, headers=response.headers, content=bytes(body))


def raise_for_status(response: "httpx.Response", *, who: str) -> None:
    """Raise for any status but 2xx.

    Raises:
        PermanentError: the request is at fault (400, 402, 404, 410, 413, 415, 422).
        TransientError: any other status; `Retry-After` is the least delay.
    """
    if response.is_success:
        return
    message = f"{who} answered {response.status_code}"
    if is_permanent_status(response.status_code):
        raise PermanentError(message)
    raise TransientError(message, retry_after=retry_after(response.headers))


class Mail:
    """A mail client: sends by SMTP or, in development, writes `.eml` files."""

    def __init__(self, settings: Settings, *, until: float) -> None:
        self._settings = settings
        self._until = until

    def send(self, message: EmailMessage) -> dict[str, str]:
        """Send a message. Return its {message_id}.

        Raises:
            PermanentError: the server refuses the recipient or the message for good (5xx to RCPT or DATA).
            TransientError: any other failure.
        """
        if self._settings.smtp_url is None:
            if self._settings.is_production:
                raise TransientError("SMTP_URL is not set: production does not write mails to files")
            return self._write(message)
        import smtplib

        try:
            with self._connect(smtplib, urlsplit(self._settings.smtp_url.get_secret_value())) as smtp:
                smtp.send_message(message, to_addrs=[address.addr_spec for address in message["To"].addresses])
        except smtplib.SMTPRecipientsRefused as error:
            code = next(iter(error.recipients.values()))[0]
            raise _smtp_failure(code, "the recipient is refused") from error
        except smtplib.SMTPDataError as error:
            raise _smtp_failure(error.smtp_code, "the message is refused") from error
        except (smtplib.SMTPException, OSError) as error:
            raise TransientError(f"mail server: {type(error).__name__} {error}") from error
        return {"message_id": str(message["Message-ID"])}

    def _connect(self, smtplib_: Any, url: Any) -> "_Session":
        kind = smtplib_.SMTP_SSL if url.scheme == "smtps" else smtplib_.SMTP
        smtp = kind(
            url.hostname or "localhost",
            url.port or (465 if url.scheme == "smtps" else 587 if url.username else 25),
            # The constructor may wait three times: for the connection, for TLS, for the greeting.
            timeout=min(_left(self._until, doing="mail") / 3, _MAX_WAIT_SECONDS),
        )
        return _Session(smtp, url, until=self._until, quit_error=smtplib_.SMTPException)

    def _write(self, message: EmailMessage) -> dict[str, str]:
        folder = Path(self._settings.giftcard_mail_dir or ".local/mails")
        folder.mkdir(parents=True, exist_ok=True)
        # One file per message: sending it again replaces the file.
        name = parseaddr(str(message["Message-ID"]))[1].partition("@")[0]
        (folder / f"{name}.eml").write_bytes(message.as_bytes())
        return {"message_id": str(message["Message-ID"])}


class _Session:
    """An SMTP session: encrypted if the server can, logged in if the URL has a user, and closed in any case."""

    def __init__(self, smtp: Any, url: Any, *, until: float, quit_error: type[Exception]) -> None:
        self._smtp = smtp
        self._quit_error = quit_error
        self._url = url
        self._until = until
        smtp.send, smtp.getreply = self._bounded(smtp.send), self._bounded(smtp.getreply)

    def _bounded(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Give each step the time that is left for all: smtplib only has a timeout per step."""

        def run(*arguments: Any) -> Any:
            left = min(_left(self._until, doing="mail"), _MAX_WAIT_SECONDS)
            if self._smtp.sock is not None:  # None: the server has hung up, and the step raises
                self._smtp.sock.settimeout(left)
            return step(*arguments)

        return run

    def __enter__(self) -> Any:
        try:
            self._smtp.ehlo()
            if self._url.scheme != "smtps" and self._smtp.has_extn("starttls"):
                import ssl

                self._smtp.starttls(context=ssl.create_default_context())
                self._smtp.ehlo()
            if self._url.username:
                self._smtp.login(unquote(self._url.username), unquote(self._url.password or ""))
        except BaseException:
            self._smtp.close()
            raise
        return self._smtp

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The message is accepted: a failing QUIT must not cause a retry, which would send it twice.
        with contextlib.suppress(OSError, self._quit_error, TransientError):
            if kind is None:
                self._until = min(self._until, time.monotonic() + _QUIT_SECONDS)
                self._smtp.quit()
        self._smtp.close()


def _smtp_failure(code: int, message: str) -> Exception:
    text = f"{message} ({code})"
    return PermanentError(text) if 500 <= code < 600 else TransientError(text)
