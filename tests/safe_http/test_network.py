"""The connection goes to the very address that was checked, and to the host that the certificate is for."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import trustme

from lib.errors import PermanentError, TransientError
from lib.safe_http.client import Request, call
from lib.safe_http.response import Response
from lib.safe_http.tls import tls
from lib.safe_http.url import parse
from tests.support.raw_server import Server, a_server, redirect

ONE = (ip_network("127.0.0.1"),)

Resolver = Callable[..., list[str]]


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


def ask(url: str, *, seconds: float = 5, **headers: str) -> Response:
    request = Request(method="GET", url=parse(url), headers=headers, common={})
    return call(request, allowed=ONE, until=time.monotonic() + seconds)


@pytest.fixture
def resolver(monkeypatch: Any) -> Resolver:
    """Has names lead to these addresses, the first ones at the first look-up; answers the names that were looked up."""

    def answers(*rounds: list[str]) -> list[str]:
        asked: list[str] = []

        def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> Any:
            addresses = rounds[min(len(asked), len(rounds) - 1)]
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return answers


def test_name_that_leads_elsewhere_after_the_check_is_not_followed_there(server: Server, resolver: Resolver) -> None:
    looked_up = resolver(["127.0.0.1"], ["127.0.0.2"])
    assert ask(f"http://rebound.example:{server.port}/").status == 200
    assert looked_up == ["rebound.example"]
    (asked,) = server.asked
    assert asked.address == "127.0.0.1"
    assert asked.headers["host"] == f"rebound.example:{server.port}"


def test_name_that_led_outside_when_it_was_saved_is_checked_at_the_call(server: Server, resolver: Resolver) -> None:
    resolver(["127.0.0.2"])
    with pytest.raises(PermanentError, match=r"^inside\.example has a forbidden address"):
        ask(f"http://inside.example:{server.port}/")
    assert server.asked == []


@pytest.mark.parametrize("addresses", [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["8.8.8.8", "10.0.0.1"]])
def test_name_that_leads_inside_in_part_leads_nowhere(server: Server, resolver: Resolver, addresses: list[str]) -> None:
    resolver(addresses)
    with pytest.raises(PermanentError):
        ask(f"http://half.example:{server.port}/")
    assert server.asked == []


def test_each_redirect_is_looked_up_and_checked_anew(server: Server, resolver: Resolver) -> None:
    looked_up = resolver(["127.0.0.1"], ["127.0.0.2"])
    server.then(redirect(302, "/again"))
    with pytest.raises(PermanentError):
        ask(f"http://rebound.example:{server.port}/")
    assert looked_up == ["rebound.example"] * 2
    assert len(server.asked) == 1


def test_next_address_of_a_name_is_tried_when_nobody_is_at_the_first(resolver: Resolver) -> None:
    resolver(["127.0.0.3", "127.0.0.1"])
    with a_server(address="127.0.0.1") as server:
        request = Request(method="GET", url=parse(f"http://two.example:{server.port}/"), headers={}, common={})
        answer = call(request, allowed=(ip_network("127.0.0.0/8"),), until=time.monotonic() + 2)
    assert answer.status == 200


def test_address_that_swallows_everything_leaves_time_for_the_next(resolver: Resolver) -> None:
    resolver(["127.0.0.3", "127.0.0.1"])
    with a_server(address="127.0.0.1") as server, ExitStack() as taken:
        try:
            taken.enter_context(socket.create_server(("127.0.0.3", server.port), backlog=0))
        except OSError:
            pytest.skip("this machine has no other loopback address")
        for _ in range(4):  # its queue is full then
            waiting = taken.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.3", server.port))
        request = Request(method="GET", url=parse(f"http://two.example:{server.port}/"), headers={}, common={})
        answer = call(request, allowed=(ip_network("127.0.0.0/8"),), until=time.monotonic() + 1)
    assert answer.status == 200


def test_resolver_that_says_nothing_is_given_up_in_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3))
    began = time.monotonic()
    with pytest.raises(TransientError, match=r"^slow\.example did not respond in time \(ConnectTimeout\)$"):
        ask("http://slow.example/", seconds=0.3)
    assert time.monotonic() - began < 1


def test_name_of_nobody_is_no_answer() -> None:
    with pytest.raises(TransientError, match=r"^nobody\.invalid gave no response \(ConnectError: "):
        ask("http://nobody.invalid/")


# Who answers over https


@pytest.fixture
def authority(monkeypatch: Any, tmp_path: Path) -> Iterator[trustme.CA]:
    """One that we trust, for once."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setattr("certifi.where", lambda: str(tmp_path / "ca.pem"))
    tls.cache_clear()
    yield authority
    tls.cache_clear()


def certified(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_https_host_is_asked_for_by_the_name_in_the_address(authority: trustme.CA, resolver: Resolver) -> None:
    context = certified(authority, "secure.example")
    asked_for: list[str] = []
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    looked_up = resolver(["127.0.0.1"], ["127.0.0.2"])
    with a_server(tls=context) as server:
        answer = ask(f"https://secure.example:{server.port}/")
    assert (answer.status, asked_for, looked_up) == (200, ["secure.example"], ["secure.example"])
    assert server.asked[0].headers["host"] == f"secure.example:{server.port}"


def test_certificate_for_an_address_is_enough_for_that_address(authority: trustme.CA) -> None:
    with a_server(tls=certified(authority, "127.0.0.1")) as server:
        assert ask(server.url).status == 200


def test_certificate_of_another_host_is_no_answer(authority: trustme.CA, resolver: Resolver) -> None:
    resolver(["127.0.0.1"])
    with a_server(tls=certified(authority, "other.example")) as server:
        with pytest.raises(TransientError, match="certificate verify failed"):
            ask(f"https://secure.example:{server.port}/", Authorization="Bearer x")
        assert server.asked == []


def test_certificate_of_an_unknown_authority_is_no_answer(authority: trustme.CA) -> None:
    with a_server(tls=certified(trustme.CA(), "127.0.0.1")) as server:
        with pytest.raises(TransientError, match="certificate verify failed"):
            ask(server.url)
        assert server.asked == []


def test_greeting_that_never_ends_is_given_up_in_time(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(TransientError, match="ConnectTimeout"):
            ask(f"https://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.3)
        assert time.monotonic() - began < 0.9


def test_redirect_from_https_to_http_is_not_followed(authority: trustme.CA, server: Server) -> None:
    with a_server(tls=certified(authority, "127.0.0.1")) as secure:
        secure.then(redirect(301, server.url))
        with pytest.raises(PermanentError, match="from https to http"):
            ask(secure.url)
    assert server.asked == []


def test_redirect_from_http_to_https_is_followed_without_the_headers(authority: trustme.CA, server: Server) -> None:
    with a_server(tls=certified(authority, "127.0.0.1")) as secure:
        server.then(redirect(308, secure.url))
        assert ask(server.url, Authorization="Bearer x").status == 200
    assert "authorization" not in secure.asked[0].headers
