"""Where a secret of jobs may go: GIFTCARD_SECRET_<NAME>_HOSTS and _SOURCES."""

import pytest

from lib.errors import SettingsError
from lib.safe_http import url as http_url
from tests.support.world import settings_of


def may_go(hosts: str, url: str) -> bool:
    secret = settings_of(GIFTCARD_SECRET_KEY="a-key-of-8", GIFTCARD_SECRET_KEY_HOSTS=hosts).job_secrets["KEY"]
    parsed = http_url.parse(url)
    return secret.may_go_to(parsed.host, parsed.port, is_default_port=parsed.has_default_port)


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("api.vendor.com", "https://api.vendor.com/x"),
        ("api.vendor.com", "https://API.Vendor.com:443/"),
        ("API.Vendor.com", "http://api.vendor.com/"),
        ("other.com, api.vendor.com ,", "https://api.vendor.com/"),
        ("*.vendor.com", "https://api.vendor.com/"),
        ("*.vendor.com", "https://a.b.vendor.com/"),
        ("api.vendor.com:8443", "https://api.vendor.com:8443/"),
        ("api.vendor.com:443", "https://api.vendor.com/"),
        ("*.vendor.com:8443", "https://api.vendor.com:8443/"),
        ("localhost", "http://localhost/"),
        ("192.0.2.1", "https://192.0.2.1/"),
        ("[2001:DB8:0::1]:8443", "https://[2001:db8::1]:8443/"),
        ("xn--bcher-kva.example", "https://xn--bcher-kva.example/"),
    ],
)
def test_a_listed_host_is_meant(hosts: str, url: str) -> None:
    assert may_go(hosts, url)


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("", "https://api.vendor.com/"),
        ("vendor.com", "https://api.vendor.com/"),
        ("api.vendor.com", "https://vendor.com/"),
        ("api.vendor.com", "https://api.vendor.com.evil.com/"),
        ("api.vendor.com", "https://evil-api.vendor.com/"),
        ("api.vendor.com", "https://api-vendor.com/"),
        ("*.vendor.com", "https://vendor.com/"),
        ("*.vendor.com", "https://evilvendor.com/"),
        ("*.vendor.com", "https://vendor.com.evil.com/"),
        ("api.vendor.com", "https://api.vendor.com:8443/"),
        ("api.vendor.com:8443", "https://api.vendor.com/"),
        ("api.vendor.com", "http://api.vendor.com:443/"),
        ("api.vendor.com", "https://api.vendor.com:80/"),
        ("192.0.2.1", "https://192.0.2.11/"),
        ("*.0.2.1", "https://192.0.2.1:8443/"),
    ],
)
def test_no_other_host_is(hosts: str, url: str) -> None:
    assert not may_go(hosts, url)


@pytest.mark.parametrize(
    "host",
    ["*", "*.com", "https://api.vendor.com", "api.vendor.com/", "a b", "api.*.com", "api.vendor.com.", "user@a.com",
     "a.com:0", "a.com:65536", "a.com:", "bücher.example", "::1", "[::1", "-a.com", f"{'a' * 64}.com", ".com"],
)  # fmt: skip
def test_what_is_no_host_stops_the_start(host: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^GIFTCARD_SECRET_KEY_HOSTS: item 2 must be a host like api\.example\.com"
    ):
        settings_of(GIFTCARD_SECRET_KEY="a-key-of-8", GIFTCARD_SECRET_KEY_HOSTS=f"a.example.com,{host}")


def test_sources_are_added_to_the_application() -> None:
    sources = {
        name: secret.sources
        for name, secret in settings_of(
            GIFTCARD_SECRET_A="a-key-of-8", GIFTCARD_SECRET_B="y" * 8, GIFTCARD_SECRET_B_SOURCES=" pgmq, sql,"
        ).job_secrets.items()
    }
    assert sources == {"A": {"app"}, "B": {"app", "pgmq", "sql"}}
    with pytest.raises(SettingsError, match=r"^GIFTCARD_SECRET_A_SOURCES: item 1 must be pgmq or sql"):
        settings_of(GIFTCARD_SECRET_A="a-key-of-8", GIFTCARD_SECRET_A_SOURCES="api")


def test_names_that_end_like_a_bound_are_no_secrets() -> None:
    settings = settings_of(
        GIFTCARD_SECRET_A="key-of-8", GIFTCARD_SECRET_A_HOSTS="a.example.com", GIFTCARD_SECRET_B_HOSTS="b.example.com",
        GIFTCARD_SECRET_C="", GIFTCARD_SECRET_C_SOURCES="sql", GIFTCARD_SECRET_HOSTS="of-no-secret",
        GIFTCARD_SECRET_A_HOSTS_HOSTS="a.example.com",
    )  # fmt: skip
    assert set(settings.job_secrets) == {"A"}
    assert settings.unknown == tuple(
        f"GIFTCARD_SECRET_{name}" for name in ("A_HOSTS_HOSTS", "B_HOSTS", "C_SOURCES", "HOSTS")
    )
