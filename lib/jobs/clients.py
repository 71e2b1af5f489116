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

# An answer longer than this is not read on.
_MAX_BODY_BYTES = 1_000_000
_MAX_WAIT_SECONDS = 30.0
_GOODBYE_SECONDS = 1.0


def _left(until: float, *, doing: str) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TransientError(f"no time left for {doing}")
    return left


class Http:
    """An httpx client for addresses that our own settings or code name: what others name is called by `lib.safe_http`.

    It opens on first use and never waits past `until` (a `time.monotonic()` value).
    """

    def __init__(self, *, until: float) -> None:
        self._until = until

    def request(self, method: str, url: str, **options: Any) -> "httpx.Response":
        """One request; the answer is read whole, up to 1 MB. Redirects are not followed.

        Raises:
            TransientError: no answer. What it asked for may have happened.
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
                        raise TransientError(f"{urlsplit(url).hostname} answers with more than {_MAX_BODY_BYTES} bytes")
                    _left(self._until, doing="the rest of the answer")
        except httpx.HTTPError as error:
            raise TransientError(f"{urlsplit(url).hostname}: {type(error).__name__} {error}".strip()) from error
        return httpx.Response(response.status_code, headers=response.headers, content=bytes(body))


def raise_for_status(response: "httpx.Response", *, who: str) -> None:
    """Lets 2xx pass; others become the failures that the contract says.

    Raises:
        PermanentError: the request is at fault (400, 402, 404, 410, 413, 415, 422).
        TransientError: anything else; `Retry-After` is its floor.
    """
    if response.is_success:
        return
    said = f"{who} answered {response.status_code}"
    if is_permanent_status(response.status_code):
        raise PermanentError(said)
    raise TransientError(said, retry_after=retry_after(response.headers))


class Mail:
    """Sends by SMTP, or writes `.eml` files where development asks for it."""

    def __init__(self, settings: Settings, *, until: float) -> None:
        self._settings = settings
        self._until = until

    def send(self, message: EmailMessage) -> dict[str, str]:
        """Hands the message over; answers where it went.

        Raises:
            PermanentError: the other side refuses this recipient or this message for good (5xx to RCPT or DATA).
            TransientError: everything else.
        """
        if self._settings.smtp_url is None:
            if self._settings.is_production:
                raise TransientError("SMTP_URL is not set, and production writes no mails as files")
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
            # It waits up to three times in here: for the connection, for TLS, for the greeting.
            timeout=min(_left(self._until, doing="mail") / 3, _MAX_WAIT_SECONDS),
        )
        return _Session(smtp, url, until=self._until, goodbye=smtplib_.SMTPException)

    def _write(self, message: EmailMessage) -> dict[str, str]:
        folder = Path(self._settings.giftcard_mail_dir or ".local/mails")
        folder.mkdir(parents=True, exist_ok=True)
        # The same message is the same file: sending it twice is seen as one.
        name = parseaddr(str(message["Message-ID"]))[1].partition("@")[0]
        (folder / f"{name}.eml").write_bytes(message.as_bytes())
        return {"message_id": str(message["Message-ID"])}


class _Session:
    """An SMTP session: encrypted where the server can, logged in where the URL says so, and ended in any case."""

    def __init__(self, smtp: Any, url: Any, *, until: float, goodbye: type[Exception]) -> None:
        self._smtp = smtp
        self._goodbye = goodbye
        self._url = url
        self._until = until
        smtp.send, smtp.getreply = self._bounded(smtp.send), self._bounded(smtp.getreply)

    def _bounded(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """smtplib knows a timeout for each step; here each gets what is left for all of them."""

        def run(*arguments: Any) -> Any:
            left = min(_left(self._until, doing="mail"), _MAX_WAIT_SECONDS)
            if self._smtp.sock is not None:  # else the other side has hung up, and the step says so
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
        # Once the message is accepted, a rude goodbye must not make it a failure and send it twice.
        with contextlib.suppress(OSError, self._goodbye, TransientError):
            if kind is None:
                self._until = min(self._until, time.monotonic() + _GOODBYE_SECONDS)
                self._smtp.quit()
        self._smtp.close()


def _smtp_failure(code: int, said: str) -> Exception:
    text = f"{said} ({code})"
    return PermanentError(text) if 500 <= code < 600 else TransientError(text)
