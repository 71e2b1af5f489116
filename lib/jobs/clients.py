"""Clients for handlers: HTTP and mail, bounded by the run's deadline."""

import time
from email.message import EmailMessage
from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError, is_permanent_status
from lib.safe_http.response import retry_after
from lib.safe_http.tls import tls

if TYPE_CHECKING:  # imported when used: a tick without HTTP or mail pays for neither
    import httpx

# Longer responses are an error.
_MAX_BODY_BYTES = 1_000_000
_MAX_WAIT_SECONDS = 30.0


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
            PermanentError: the URL is invalid.
            TransientError: no complete response. The request may have taken effect.
        """
        import httpx

        try:
            host = httpx.URL(url).host
        except httpx.InvalidURL:
            raise PermanentError("the URL is invalid") from None  # its message repeats parts of the URL

        from lib.store.network import Network, http_client

        left = _left(self._until, doing=f"{method} {host}")
        network = Network()
        network.begin(left)  # for all that the call waits for, also a header that comes byte by byte
        timeout = min(left, _MAX_WAIT_SECONDS)
        try:
            with (
                http_client(network, limits=httpx.Limits(), ssl_context=tls(), timeout=timeout) as client,
                client.stream(method, url, **options) as response,
            ):
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MAX_BODY_BYTES:
                        raise TransientError(f"{host} sent more than {_MAX_BODY_BYTES} bytes")
                    _left(self._until, doing="the rest of the response")
        except httpx.HTTPError as error:
            raise TransientError(f"{host}: {type(error).__name__} {error}".strip()) from error
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


def mail_folder(settings: Settings) -> Path:
    """Return the folder of mails as files, which development uses while SMTP_URL is unset."""
    return Path(settings.giftcard_mail_dir or ".local/mails")


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
        from lib.jobs.smtp import Session

        with Session(self._settings.smtp_url, until=self._until) as session:
            session.send(message)
        return {"message_id": str(message["Message-ID"])}

    def _write(self, message: EmailMessage) -> dict[str, str]:
        folder = mail_folder(self._settings)
        folder.mkdir(parents=True, exist_ok=True)
        # One file per message: sending it again replaces the file.
        name = parseaddr(str(message["Message-ID"]))[1].partition("@")[0]
        (folder / f"{name}.eml").write_bytes(message.as_bytes())
        return {"message_id": str(message["Message-ID"])}
