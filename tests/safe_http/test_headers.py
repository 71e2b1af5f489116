"""Headers that could change what a request means, or for whom, are refused."""

import pytest

from lib.safe_http.headers import check, is_valid_value

OURS = """Host host HOST Content-Length content_length Transfer-Encoding transfer_encoding TE Trailer Connection
    Keep-Alive Proxy-Connection Proxy-Authorization Upgrade Expect Accept-Encoding Content-Encoding HTTP2-Settings
    Idempotency-Key idempotency_key X-Attempt x-attempt""".split()


@pytest.mark.parametrize("name", OURS)
def test_header_that_the_call_sets_itself_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"^must not set {name}"):
        check({"Accept": "*/*", name: "x"})


@pytest.mark.parametrize(
    "name", ["", " Host", "Host ", "Host\t", "X:Y", "X\r\nY", "X\x00", "Hôst", "X Y", "(x)", "X\u2028", "a" * 101]
)
def test_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must not have a header named") as refused:
        check({name: "x"})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "value",
    ["a\r\nHost: x", "a\nb", "a\rb", "a\x00", "a\x7f", "\x1b[2J", "ü", "a\x85b", " a", "a ", "\ta", "a" * 4_097],
)
def test_value_that_could_end_its_line_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(ValueError, match=r"^must have a value of printable ASCII, .* for X-Secret$") as refused:
        check({"X-Secret": value})
    assert str(refused.value).isprintable()
    assert not is_valid_value(value)


def test_header_set_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="must not set x_key twice"):
        check({"X-Key": "1", "x_key": "2"})


def test_other_headers_pass() -> None:
    check({"Authorization": "Bearer {{secret:KEY}}", "X-Empty": "", "Accept": "text/html;q=0.9,\t*/*", "Cookie": "a=b"})
