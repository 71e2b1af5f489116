"""The HTTP client of one deployment: address and token, timeouts, errors as the exceptions of `lib.errors`."""

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import SecretStr

from lib.config.urls import HttpUrl
from lib.errors import GiftcardError, Invalid, Misconfigured, Refused, Unavailable

if TYPE_CHECKING:  # imported when used: the application never is its own client
    import httpx

Json = dict[str, Any]

# Seconds. A tick responds when its budget and its last handler have ended, bulk work when its part is done.
_CONNECT_TIMEOUT, TIMEOUT, LONG_TIMEOUT = 5.0, 30.0, 900.0
_SQLSTATES = {400: "GC400", 404: "GC404", 409: "GC409", 422: "GC422"}


class Transport:
    """HTTP to one deployment with its admin token. `timeout`: seconds for the whole response.

    Raises, as every method:
        Invalid, Refused: with the message of the API; the address or the token is wrong.
        Unavailable: no response, or the response of another application.
        Misconfigured: the deployment cannot work as it is set up.
    """

    def __init__(self, url: str, *, token: SecretStr | None) -> None:
        address = _checked(url)
        self._host = address.host
        secret = token.get_secret_value() if token else ""
        if not secret:
            raise Invalid(f"set GIFTCARD_ADMIN_TOKEN to the admin token of {self._host}", field="token")
        if not (secret.isascii() and secret.isprintable()):
            raise Invalid("GIFTCARD_ADMIN_TOKEN holds characters that no header can carry", field="token")
        import httpx

        from lib.safe_http.unpacking import bounded

        # Loading the certificates costs more than a request, and plain HTTP to this machine needs none.
        encrypted = address.scheme == "https"
        try:
            client = httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {secret}"}, timeout=TIMEOUT, verify=encrypted
            )
        except (httpx.InvalidURL, ValueError):
            raise Invalid("--url is not an address like https://giftcards.example.com", field="url") from None
        self._client = bounded(client)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def get(self, path: str, *, reveal: bool = False, **query: Any) -> Json:
        """GET; None in `query` is left out."""
        return self._call("GET", path, params=_without_none(query | {"reveal": "true" if reveal else None}))

    def post(
        self,
        path: str,
        body: Json | None = None,
        *,
        timeout: float = TIMEOUT,
        idempotency_key: str | None = None,
        **query: Any,
    ) -> Json:
        """POST `body` as JSON; None in `query` is left out."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._call("POST", path, params=_without_none(query), json=body, timeout=timeout, headers=headers)

    def patch(self, path: str, body: Json, **query: Any) -> Json:
        """PATCH with `body` as JSON; None in `query` is left out."""
        return self._call("PATCH", path, params=_without_none(query), json=body)

    def put(self, path: str, body: Json) -> Json:
        """PUT `body` as JSON."""
        return self._call("PUT", path, json=body)

    def delete(self, path: str) -> Json:
        """DELETE."""
        return self._call("DELETE", path)

    def request(self, method: str, path: str, *, timeout: float = TIMEOUT, **options: Any) -> tuple[int, Json]:
        """Return status and body of a response of this application, also of a failure."""
        import httpx

        try:
            response, content = self._send(method, path, timeout=timeout, **options)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unavailable(f"{self._host} cannot be reached: {error or type(error).__name__}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            known = "" if method == "GET" else "; it may have been carried out: check before you repeat it"
            raise Unavailable(f"no response from {self._host}: {error or type(error).__name__}{known}") from error
        if response.is_redirect:
            target = response.headers.get("location", "")[:200]
            raise Invalid(f"{self._host} redirects to {target}: check --url", field="url")
        body = _parsed(content)
        if not isinstance(body, dict) or (not response.is_success and "title" not in body):
            raise Unavailable(
                f"{self._host} returned {response.status_code}, not a response of this application: check --url"
            )
        return response.status_code, body

    def failure(self, status: int, problem: Json) -> GiftcardError:
        """Return the exception that the same call on the database would have raised, as far as it is known."""
        title, detail, field = (str(problem.get(name) or "") for name in ("title", "detail", "field"))
        if status == 401:
            return Invalid(f"GIFTCARD_ADMIN_TOKEN is no token of {self._host}: {detail}", field="token")
        # A request that fails validation has a general title, with the sentence in the detail.
        message = detail if detail and title.endswith("not valid") else f"{title}: {detail}" if detail else title
        if status == 413:
            return Refused(f"{message}: send fewer jobs at a time", sqlstate="GC400")
        if status == 422 and field:
            return Invalid(message, field=field, errors=_errors(problem))
        if status < 500 and status != 429:
            return Refused(message, sqlstate=_SQLSTATES.get(status, "GC400"), field=field or None)
        return Misconfigured(f"{self._host}: {message}") if status == 503 else Unavailable(f"{self._host}: {message}")

    def _call(self, method: str, path: str, **options: Any) -> Json:
        status, body = self.request(method, path, **options)
        if 200 <= status < 300:
            return body
        raise self.failure(status, body)

    def _send(self, method: str, path: str, *, timeout: float, **options: Any) -> tuple["httpx.Response", bytes]:
        import httpx

        # httpx limits each read; a server that sends a byte now and then would hold the command for ever.
        deadline = time.monotonic() + timeout
        limits = httpx.Timeout(timeout, connect=min(_CONNECT_TIMEOUT, timeout))
        content = bytearray()
        with self._client.stream(method, path, timeout=limits, **options) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"the response took longer than {timeout:g} s")
        return response, bytes(content)


def segment(name: str) -> str:
    """Return `name` as one segment of a path. Dots alone are escaped: they would mean a parent folder."""
    quoted = quote(name, safe="")
    return quoted if name.strip(".") else quoted.replace(".", "%2E")


def _checked(text: str) -> HttpUrl:
    """Return an address that a token may be sent to, whatever the environment: https, or this machine."""
    try:
        url = HttpUrl(text)
    except ValueError as error:
        raise Invalid(f"--url {error}", field="url") from None
    if url.has_credentials or url.has_query:
        raise Invalid("--url must hold no user, password or query: the token is in the environment", field="url")
    return url


def _without_none(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _errors(problem: Json) -> list[tuple[str, str]]:
    """Return all invalid fields of a problem; older deployments name the first alone."""
    errors = problem.get("errors")
    if not isinstance(errors, list):
        return []
    return [(str(error.get("field")), str(error.get("message"))) for error in errors if isinstance(error, dict)]


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
