"""One request to an address that somebody else chose."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lib.errors import Failure, PermanentError, TransientError
from lib.safe_http.ip_policy import Network
from lib.safe_http.response import MOST_BYTES, Answer, kept
from lib.safe_http.tls import tls
from lib.safe_http.url import Url

if TYPE_CHECKING:  # imported with the first call
    import httpcore

_MOST_REDIRECTS = 5
_BECOMES_GET = frozenset({301, 302, 303})
_STAYS_AS_IT_IS = frozenset({307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`headers` are for the host of the URL, `common` ones also for those that it redirects to.

    `sealed`: the body holds a secret, so that no other host may get it.
    """

    method: str
    url: Url
    headers: Mapping[str, str]
    common: Mapping[str, str]
    body: bytes | None = None
    sealed: bool = False


def call(request: Request, *, allowed: Sequence[Network], until: float, follow: bool = True) -> Answer:
    """Its answer, read as far as `MOST_BYTES`. No proxy, no cookies, nothing kept open. `until`: `time.monotonic()`.

    `follow`: up to five redirects, each checked like the first address. Another host gets the common headers
    only, and nothing goes from https to http.

    Raises:
        PermanentError: it leads to where no call may go.
        TransientError: no answer, or only a part of one. What was asked for may have happened.
    """
    asked, who = request, request.url.host
    for _ in range(_MOST_REDIRECTS + 1):
        answer = _ask(asked, who, allowed=allowed, until=until)
        if not follow or answer.status not in _BECOMES_GET | _STAYS_AS_IT_IS or "location" not in answer.headers:
            return answer
        # Its own words for where it leads are not repeated, here and below: they may hold a secret that it was sent.
        asked, who = _redirected(asked, answer, who), f"what {request.url.host} redirects to"
    raise TransientError(f"{request.url.host} redirects more than {_MOST_REDIRECTS} times")


def _ask(request: Request, who: str, *, allowed: Sequence[Network], until: float) -> Answer:
    import httpcore

    from lib.safe_http.network import CheckedNetwork, Forbidden

    url = httpcore.URL(
        scheme=request.url.scheme.encode(),
        host=request.url.host.encode(),
        port=request.url.port,
        target=request.url.target.encode(),
    )
    # Packed answers could be bombs.
    ours = {"Host": request.url.authority, "Accept-Encoding": "identity", "Connection": "close"}
    headers = [*ours.items(), *request.common.items(), *request.headers.items()]
    try:
        with (
            httpcore.HTTPConnection(
                url.origin,
                ssl_context=tls() if request.url.scheme == "https" else None,
                network_backend=CheckedNetwork(allowed=allowed, until=until),
            ) as connection,
            connection.stream(request.method, url, headers=headers, content=request.body) as response,
        ):
            return _read(response)
    except Forbidden:
        raise PermanentError(f"{who} leads to where no call may go (GIFTCARD_ALLOWED_NETWORKS)") from None
    except httpcore.TimeoutException as error:
        raise TransientError(f"{who} did not answer in time ({type(error).__name__})") from None
    except httpcore.NetworkError as error:
        raise TransientError(f"{who} gave no answer ({type(error).__name__}: {error})") from None
    except httpcore.ProtocolError as error:
        raise TransientError(f"{who} gave no whole answer of HTTP ({type(error).__name__})") from None


def call_and_tell(
    request: Request, *, allowed: Sequence[Network], until: float, follow: bool, secrets: Sequence[str]
) -> tuple[Answer, dict[str, Any]]:
    """The same, and what a run keeps of it: status, time, the beginning of the answer. A failure has the time too."""
    began = time.monotonic()
    try:
        answer = call(request, allowed=allowed, until=until, follow=follow)
    except Failure as failure:
        failure.detail = {"duration_ms": _since(began)}
        raise
    return answer, {"status": answer.status, "duration_ms": _since(began), "answer": kept(answer, secrets=secrets)}


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1_000)


def _read(response: "httpcore.Response") -> Answer:
    body = bytearray()
    whole = True
    for chunk in response.iter_stream():
        body += chunk
        if len(body) > MOST_BYTES:
            whole = False
            break
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answer(status=response.status, headers=headers, body=bytes(body[:MOST_BYTES]), whole=whole)


def _redirected(request: Request, answer: Answer, who: str) -> Request:
    """What to ask next."""
    try:
        url = request.url.joined(answer.headers["location"])
    except ValueError:
        raise PermanentError(f"{who} redirects to an address that cannot be called") from None
    if (request.url.scheme, url.scheme) == ("https", "http"):
        raise PermanentError(f"{who} redirects from https to http")
    redirected = replace(request if answer.status in _STAYS_AS_IT_IS else _bare(request), url=url)
    if url.origin == request.url.origin:
        return redirected
    if redirected.sealed:
        raise PermanentError(f"{who} redirects to another host, and a secret in the body is not for that")
    return replace(redirected, headers={})


def _bare(request: Request) -> Request:
    """The same without its body."""
    method = "HEAD" if request.method == "HEAD" else "GET"
    headers, common = (
        {name: value for name, value in some.items() if name.lower() != "content-type"}
        for some in (request.headers, request.common)
    )
    return replace(request, method=method, headers=headers, common=common, body=None, sealed=False)
