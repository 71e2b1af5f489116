"""One HTTP request to an address that someone else chose, with its redirects."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lib.errors import Failure, PermanentError, TransientError
from lib.safe_http.ip_policy import Network
from lib.safe_http.response import MAX_READ_BYTES, Response, excerpt
from lib.safe_http.tls import tls
from lib.safe_http.url import Url

if TYPE_CHECKING:  # imported with the first call
    import httpcore

_MAX_REDIRECTS = 5
_TO_GET = frozenset({301, 302, 303})
_UNCHANGED = frozenset({307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. `headers` go to the host of the URL only, `common` headers also to hosts it redirects to.

    `sealed`: the body holds a secret, so no other host may receive it.
    """

    method: str
    url: Url
    headers: Mapping[str, str]
    common: Mapping[str, str]
    body: bytes | None = None
    sealed: bool = False


def call(request: Request, *, allowed: Sequence[Network], until: float, follow: bool = True) -> Response:
    """Send a request and return the response, read up to `MAX_READ_BYTES`; no proxy, cookies or connection reuse.

    `until` is a `time.monotonic()` value. `follow`: follow up to five redirects, each checked like the first URL;
    other hosts get the common headers only, and a redirect from https to http fails.

    Raises:
        PermanentError: the request or a redirect leads to a forbidden address.
        TransientError: no response, or an incomplete one. Unless `without_effect` is set, the request may have taken
            effect.
    """
    current, host = request, request.url.host
    for redirects in range(_MAX_REDIRECTS + 1):
        try:
            response = _send(current, host, allowed=allowed, until=until)
        except Failure as failure:
            failure.without_effect = failure.without_effect and redirects == 0
            raise
        if not follow or response.status not in _TO_GET | _UNCHANGED or "location" not in response.headers:
            return replace(response, redirects=redirects)
        # Messages never repeat the location, here and below: it may hold a secret from the request.
        current, host = _redirect(current, response, host), f"the redirect target of {request.url.host}"
    raise TransientError(f"{request.url.host} redirects more than {_MAX_REDIRECTS} times")


def _send(request: Request, host: str, *, allowed: Sequence[Network], until: float) -> Response:
    import httpcore

    from lib.safe_http.network import CheckedNetwork, ForbiddenAddress

    url = httpcore.URL(
        scheme=request.url.scheme.encode(),
        host=request.url.host.encode(),
        port=request.url.port,
        target=request.url.target.encode(),
    )
    # Identity: a compressed response could be a bomb.
    own = {"Host": request.url.authority, "Accept-Encoding": "identity", "Connection": "close"}
    headers = [*own.items(), *request.common.items(), *request.headers.items()]
    try:
        with (
            httpcore.HTTPConnection(
                url.origin,
                ssl_context=tls() if request.url.scheme == "https" else None,
                network_backend=CheckedNetwork(allowed=allowed, until=until),
            ) as connection,
            connection.stream(request.method, url, headers=headers, content=request.body) as raw,
        ):
            return _read(raw)
    except ForbiddenAddress:
        raise _unsent(PermanentError(f"{host} has a forbidden address (see GIFTCARD_ALLOWED_NETWORKS)")) from None
    except httpcore.ConnectTimeout as error:
        raise _unsent(TransientError(f"{host} did not respond in time ({type(error).__name__})")) from None
    except httpcore.ConnectError as error:
        raise _unsent(TransientError(f"{host} gave no response ({type(error).__name__}: {error})")) from None
    except httpcore.TimeoutException as error:
        raise TransientError(f"{host} did not respond in time ({type(error).__name__})") from None
    except httpcore.NetworkError as error:
        raise TransientError(f"{host} gave no response ({type(error).__name__}: {error})") from None
    except httpcore.ProtocolError as error:
        raise TransientError(f"{host} gave no complete HTTP response ({type(error).__name__})") from None


def _unsent(failure: Failure) -> Failure:
    failure.without_effect = True
    return failure


def call_with_detail(
    request: Request, *, allowed: Sequence[Network], until: float, follow: bool, secrets: Sequence[str]
) -> tuple[Response, dict[str, Any]]:
    """Return also the run's detail: {status, duration_ms, answer}, where `answer` is an excerpt of the body.

    A failure's detail is {duration_ms}.
    """
    started = time.monotonic()
    try:
        response = call(request, allowed=allowed, until=until, follow=follow)
    except Failure as failure:
        failure.detail = {"duration_ms": _milliseconds_since(started)}
        raise
    return response, {
        "status": response.status,
        "duration_ms": _milliseconds_since(started),
        "answer": excerpt(response, secrets=secrets),
    }


def _milliseconds_since(started: float) -> int:
    return int((time.monotonic() - started) * 1_000)


def _read(raw: "httpcore.Response") -> Response:
    body = bytearray()
    complete = True
    for chunk in raw.iter_stream():
        body += chunk
        if len(body) > MAX_READ_BYTES:
            complete = False
            break
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw.headers}
    return Response(status=raw.status, headers=headers, body=bytes(body[:MAX_READ_BYTES]), complete=complete)


def _redirect(request: Request, response: Response, host: str) -> Request:
    """Return the request that follows a redirect."""
    try:
        url = request.url.join(response.headers["location"])
    except ValueError:
        raise PermanentError(f"{host} redirects to an address that cannot be called") from None
    if (request.url.scheme, url.scheme) == ("https", "http"):
        raise PermanentError(f"{host} redirects from https to http")
    redirected = replace(request if response.status in _UNCHANGED else _as_get(request), url=url)
    if url.origin == request.url.origin:
        return redirected
    if redirected.sealed:
        raise PermanentError(f"{host} redirects to another host, which may not receive the secret in the body")
    return replace(redirected, headers={})


def _as_get(request: Request) -> Request:
    """Return the request as GET (or HEAD) without its body."""
    method = "HEAD" if request.method == "HEAD" else "GET"
    headers, common = (
        {name: value for name, value in some.items() if name.lower() != "content-type"}
        for some in (request.headers, request.common)
    )
    return replace(request, method=method, headers=headers, common=common, body=None, sealed=False)
