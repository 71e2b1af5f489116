"""Addresses as people write them: one spelling for each, and none that two parsers read in two ways."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lib.safe_http.url import check, parse


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "target", "authority"),
    [
        ("https://example.com", "https", "example.com", 443, "/", "example.com"),
        ("HTTP://EXAMPLE.com:80/A?b=C", "http", "example.com", 80, "/A?b=C", "example.com"),
        ("https://example.com:8443?q#f", "https", "example.com", 8443, "/?q", "example.com:8443"),
        ("http://example.com:443/", "http", "example.com", 443, "/", "example.com:443"),
        (
            "https://xn--bcher-kva.example/a%20b",
            "https",
            "xn--bcher-kva.example",
            443,
            "/a%20b",
            "xn--bcher-kva.example",
        ),
        ("http://8.8.8.8/", "http", "8.8.8.8", 80, "/", "8.8.8.8"),
        (
            "http://[2001:4860:4860:0::8888]:8080/",
            "http",
            "2001:4860:4860::8888",
            8080,
            "/",
            "[2001:4860:4860::8888]:8080",
        ),
        ("http://a_b.example/?u=http://c@d/", "http", "a_b.example", 80, "/?u=http://c@d/", "a_b.example"),
    ],
)
def test_address_is_read_in_its_parts(
    text: str, scheme: str, host: str, port: int, target: str, authority: str
) -> None:
    url = parse(text)
    assert (url.scheme, url.host, url.port, url.target, url.authority) == (scheme, host, port, target, authority)


REFUSED = {
    "http or https URL": """
        ftp://example.com file:///etc/passwd gopher://example.com:70/_x dict://example.com ldap://example.com
        javascript:alert(1) data:,x //example.com /path example.com http:example.com http:/example.com
        jar:http://example.com!/ unix://run/x httpx://example.com""".split(),
    "user or password": """
        http://user@example.com http://user:word@example.com http://@example.com http://example.com@127.0.0.1
        http://example.com:80@127.0.0.1/ http://127.0.0.1:80@example.com""".split(),
    "^must (name|have|be)": """
        http:// http:///path http://? http://:80 http://:80/ http://example.com:abc http://example.com:80:80
        http://[::1 http://::1]/ http://[]/ http://[::1]x/ http://example.com:-1 http://example.com:+80
        http://[fe80::1%25eth0]/ http://[v1.x]/""".split(),
    "without a trailing dot": """
        http://example.com. http://localhost./ http://.example.com http://a..b http://-a.example http://a-.example
        http://a%2eb.example http://%6c%6fcalhost http://a!b.example http://a,b/ http://*.example http://127.0.0.1.
        http://a;b/ http://a&b/ http://a'b/""".split(),
    "host name like": [f"http://{'a' * 64}.example", f"http://{'a.' * 127}aa"],
    "four decimal numbers": """
        http://2130706433 http://0x7f000001 http://0x7f.0.0.1 http://0177.0.0.1 http://127.1 http://127.0.1
        http://0 http://0x http://127.0.0.01 http://1.2.3.4.5 http://256.1.1.1 http://a.1 http://example.0x1""".split(),
    "IPv6 address": "http://[1.2.3.4]/ http://[1:2:3:4:5:6:7:8:9]/ http://[:::]/ http://[.]/".split(),
    "port": """
        http://example.com:0 http://example.com:22 http://example.com:25 http://example.com:1023
        http://example.com:65536 http://example.com:99999""".split(),
    "ASCII": [
        "http://bücher.example", "http://①②⑦.⓪.⓪.①", "http://127。0。0。1", "http://ⓛocalhost", "http://exam­ple.com",
        "http://example.com/ü", "http://example.com/a b", " http://example.com", "http://example.com\n", "http://exa\tmple.com",
        "http://example.com\\@127.0.0.1", "http:\\\\example.com",
        "http://example.com/\x00", "http://example.com/\r\nHost: x",
        "http://example.com/{x}", "http://example.com/<x>", 'http://example.com/"', "http://example.com/^", "",
    ],
    "characters long": [f"http://example.com/{'a' * 2_048}"],
}  # fmt: skip


@pytest.mark.parametrize(("words", "text"), [(words, text) for words, texts in REFUSED.items() for text in texts])
def test_other_spellings_are_refused_with_what_it_must_be_instead(words: str, text: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


@given(some.text(some.sampled_from("htps:/@[]?#.%:\\0x127.1aA-_ \t\n①。é"), max_size=40))
def test_whatever_is_written_is_refused_in_words_or_read_the_same_again(text: str) -> None:
    try:
        url = parse(f"http://{text}")
    except ValueError as error:
        words = str(error)
        assert words.startswith("must ")
        return
    assert parse(f"{url.scheme}://{url.authority}{url.target}") == url


INSIDE = """
    http://127.0.0.1 http://10.1.2.3:8080/x http://169.254.169.254/latest/meta-data/ http://0.0.0.0 http://localhost
    http://LOCALHOST:8080 http://a.localhost http://[::1] http://[::ffff:127.0.0.1] http://[::ffff:7f00:1]
    http://[0:0:0:0:0:ffff:a9fe:a9fe] http://[64:ff9b::7f00:1] http://[2002:7f00:1::] http://[fd00:ec2::254]""".split()


@pytest.mark.parametrize("text", INSIDE)
def test_address_of_the_inside_is_refused_unless_it_is_allowed(text: str) -> None:
    url = parse(text)
    with pytest.raises(ValueError, match="GIFTCARD_ALLOWED_NETWORKS"):
        check(url, allowed=(ip_network("192.168.0.0/16"),))
    check(url, allowed=(ip_network("0.0.0.0/0"), ip_network("::/0")))


@pytest.mark.parametrize("text", ["http://8.8.8.8", "https://[2606:4700:4700::1111]", "http://inside.example"])
def test_public_address_and_any_name_pass_until_the_name_is_looked_up(text: str) -> None:
    check(parse(text), allowed=())


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/new?x#y", "http://example.com:8080/new?x"),
        ("new", "http://example.com:8080/a/new"),
        ("//other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        ("?q", "http://example.com:8080/a/b?q"),
        ("", "http://example.com:8080/a/b"),
    ],
)
def test_redirect_is_read_from_where_it_was_given(reference: str, target: str) -> None:
    url = parse("http://example.com:8080/a/b").join(reference)
    assert f"{url.scheme}://{url.authority}{url.target}" == target


@pytest.mark.parametrize(
    "reference",
    ["ftp://x/", "http://user@x/", "http://0x7f.1/", "/ü", "javascript:x", "http://[", "http://x:25/"],
)
def test_redirect_to_another_spelling_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a valid URL$"):
        parse("http://example.com/a").join(reference)
