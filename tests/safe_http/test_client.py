"""One call to a real server: what is sent, where redirects lead, and every way to get no answer."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from lib.errors import PermanentError, TransientError
from lib.safe_http.client import Request, call
from lib.safe_http.response import MAX_READ_BYTES, Response
from lib.safe_http.url import parse
from tests.support import raw_server as told
from tests.support.raw_server import Server, a_server, redirect

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    with a_server() as server:
        yield server


def ask(url: str, *, seconds: float = 5, allowed: Any = LOOPBACK, follow: bool = True, **fields: Any) -> Response:
    usual: dict[str, Any] = {"method": "GET", "headers": {}, "common": {}}
    request = Request(url=parse(url), **(usual | fields))
    return call(request, allowed=allowed, until=time.monotonic() + seconds, follow=follow)


def test_request_arrives_as_it_is_meant(server: Server) -> None:
    answer = ask(
        f"{server.url}a%20b?c=d", method="PUT", headers={"X-Own": "1"}, common={"Accept": "*/*"}, body="ü".encode()
    )
    assert (answer.status, answer.body, answer.complete, answer.headers["content-length"]) == (200, b"yes", True, "3")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("PUT", "/a%20b?c=d", "ü".encode())
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept-encoding": "identity",
        "connection": "close",
        "accept": "*/*",
        "x-own": "1",
        "content-length": "2",
    }


def test_ipv6_address_is_called_by_its_own_name() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
            port = listening.getsockname()[1]
            with pytest.raises(TransientError):
                ask(f"http://[::1]:{port}/", allowed=(ip_network("::1"),), seconds=0.2)
            connection, _ = listening.accept()
            with connection:
                assert f"Host: [::1]:{port}\r\n".encode() in connection.recv(1_000)
    except OSError:
        pytest.skip("this machine has no IPv6")


def test_no_proxy_of_the_environment_comes_between(server: Server, other: Server, monkeypatch: Any) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, other.url)
    monkeypatch.delenv("no_proxy", raising=False)
    assert ask(server.url).status == 200
    assert (len(server.asked), other.asked) == (1, [])


def test_no_cookie_of_one_call_is_in_the_next(server: Server) -> None:
    server.then(lambda asked: asked.answer(302, Set_Cookie="a=b", Location="/next"))
    ask(server.url)
    ask(server.url)
    assert [asked.headers.get("cookie") for asked in server.asked] == [None, None, None]


# No answer


@pytest.mark.parametrize("way", [told.never, told.dripping, told.early_hints_for_ever])
def test_answer_that_takes_too_long_is_given_up_in_time(server: Server, way: Any) -> None:
    server.answer = way
    began = time.monotonic()
    with pytest.raises(TransientError, match=r"^127\.0\.0\.1 did not respond in time \(ReadTimeout\)$"):
        ask(server.url, seconds=0.4)
    assert time.monotonic() - began < 0.9


@pytest.mark.parametrize("way", [told.hang_up, told.cut, told.nonsense, told.endless_header])
def test_broken_answer_is_no_answer_and_is_not_repeated(server: Server, way: Any) -> None:
    server.answer = way
    with pytest.raises(TransientError, match=r"^127\.0\.0\.1 gave no (complete HTTP )?response") as failure:
        ask(server.url)
    assert "not HTTP" not in str(failure.value)


def test_nobody_there_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransientError, match=r"ConnectError: .*refused"):
        ask(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("sip", [0, 1_000_000])
def test_server_that_takes_the_body_too_slowly_is_given_up_in_time(sip: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                for _ in range(30):
                    connection.recv(sip)
                    time.sleep(0.05)

        threading.Thread(target=take, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(TransientError, match="WriteTimeout"):
            ask(f"http://127.0.0.1:{listening.getsockname()[1]}/", method="POST", body=b"x" * 60_000_000, seconds=0.4)
        assert time.monotonic() - began < 0.9


def test_without_time_left_nobody_is_asked(server: Server) -> None:
    with pytest.raises(TransientError, match="in time"):
        ask(server.url, seconds=-1)
    assert server.asked == []


def test_answer_of_two_gigabytes_is_not_read_on(server: Server) -> None:
    def endless(asked: told.Asked) -> None:
        asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n", *[b"x" * 65_536] * 32_768)

    server.answer = endless
    answer = ask(server.url)
    assert (answer.status, answer.complete, len(answer.body)) == (200, False, MAX_READ_BYTES)


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirect_of_a_form_asks_without_the_body(server: Server, status: int) -> None:
    server.then(redirect(status, "/next?x"))
    answer = ask(server.url, method="POST", headers={"X-Own": "1"}, common={"Content-Type": "a/b"}, body=b"body")
    assert answer.status == 200
    asked = server.asked[1]
    assert (asked.method, asked.path, asked.body, asked.headers["x-own"]) == ("GET", "/next?x", b"", "1")
    assert {"content-type", "content-length"} & set(asked.headers) == set()


@pytest.mark.parametrize("status", [307, 308])
def test_redirect_that_keeps_the_method_keeps_the_body(server: Server, status: int) -> None:
    server.then(redirect(status, "/next"))
    ask(server.url, method="PATCH", common={"Content-Type": "a/b"}, body=b"body", sealed=True)
    asked = server.asked[1]
    assert (asked.method, asked.body, asked.headers["content-type"]) == ("PATCH", b"body", "a/b")


def test_redirected_head_stays_one(server: Server) -> None:
    server.then(redirect(302, "/next"))
    ask(server.url, method="HEAD")
    assert [asked.method for asked in server.asked] == ["HEAD", "HEAD"]


@pytest.mark.parametrize("status", [302, 307])
def test_another_host_gets_the_common_headers_only(server: Server, other: Server, status: int) -> None:
    server.then(redirect(status, other.url))
    other.then(redirect(307, server.url))
    headers = {"Authorization": "Bearer x", "Cookie": "c", "X-Api-Key": "k"}
    ask(server.url, method="POST", headers=headers, common={"Accept": "*/*"}, body=b"body")
    (first, back), (second,) = server.asked, other.asked
    assert set(headers) - {name.title() for name in first.headers} == set()
    for later in (second, back):
        assert set(later.headers) - {"content-length"} == {"host", "accept-encoding", "connection", "accept"}
    assert second.headers["host"] == f"127.0.0.1:{other.port}"


def test_body_with_a_secret_goes_to_no_other_host(server: Server, other: Server) -> None:
    server.then(redirect(307, other.url))
    with pytest.raises(PermanentError, match="may not receive the secret in the body"):
        ask(server.url, method="POST", body=b"secret", sealed=True)
    server.then(redirect(303, other.url))
    ask(server.url, method="POST", body=b"secret", sealed=True)
    assert [(asked.method, asked.body) for asked in other.asked] == [("GET", b"")]


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.2:{port}/", "http://0.0.0.0:{port}/", "//127.0.0.2:{port}", "http://[::1]:{port}/", "http://10.0.0.1/",
     "http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.2]:{port}/", "http://[64:ff9b::7f00:2]:{port}/"],
)  # fmt: skip
def test_redirect_to_the_inside_is_not_followed(server: Server, location: str) -> None:
    server.then(redirect(302, location.format(port=server.port)))
    with pytest.raises(PermanentError, match=r"^the redirect target of 127\.0\.0\.1 has a forbidden address"):
        ask(server.url, allowed=(ip_network("127.0.0.1"),))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "gopher://x", "http://u:p@127.0.0.1/", "http://0x7f.1/", "http://["]
)
def test_redirect_to_what_is_no_address_of_the_web_is_not_followed(server: Server, location: str) -> None:
    server.then(redirect(302, location))
    with pytest.raises(PermanentError, match=r"^127\.0\.0\.1 redirects to an address that cannot be called$"):
        ask(server.url)


def test_no_more_than_five_redirects_are_followed(server: Server) -> None:
    server.then(*[redirect(302, "/again")] * 5)
    assert ask(server.url).status == 200
    server.asked.clear()
    server.answer = redirect(302, "/for/ever")
    with pytest.raises(TransientError, match="redirects more than 5 times"):
        ask(server.url)
    assert len(server.asked) == 6


def test_redirect_that_is_what_one_wants_is_not_followed(server: Server) -> None:
    server.then(redirect(302, "/next"))
    assert ask(server.url, follow=False).status == 302


@pytest.mark.parametrize("status", [300, 304, 305])
def test_other_answers_of_that_kind_are_no_redirects(server: Server, status: int) -> None:
    server.then(redirect(status, "/next"))
    assert ask(server.url).status == status
    server.then(302)
    assert ask(server.url).status == 302
