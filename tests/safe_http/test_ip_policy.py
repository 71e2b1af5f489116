"""Which addresses of the network may be called: the whole Internet, and nothing that lies inside."""

from ipaddress import ip_network

import pytest

from lib.safe_http.ip_policy import is_allowed

INSIDE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
    168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.9 192.0.0.170 192.0.0.192
    192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 233.252.0.1
    239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::808:808 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:7f00:1
    64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:20::1
    2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe::1 2002:808:808:: 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fdff::1
    fe80::1 fe80::1%eth0 fe80::1%1 febf::1 fec0::1 ff02::1 ff0e::1
""".split()
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
    169.253.255.255 169.255.0.1 172.15.255.255 172.32.0.0 192.0.1.1 192.88.98.255 192.167.255.255 192.169.0.0
    198.17.255.255 198.20.0.0 223.255.255.255 ::ffff:8.8.8.8 64:ff9b::808:808 2001:200::1 2001:4860:4860::8888
    2003::1 2606:4700:4700::1111 3ffe:ffff::1
""".split()


@pytest.mark.parametrize("address", INSIDE)
def test_address_that_is_not_public_may_not_be_called(address: str) -> None:
    assert not is_allowed(address, allowed=())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed(address, allowed=())


@pytest.mark.parametrize(
    "address", ["", "localhost", "1.1.1", "0x1.1.1.1", "1.1.1.1.", "1.1.1.01", "[::1]", "1.1.1.1/32"]
)
def test_what_is_no_address_may_not_be_called(address: str) -> None:
    assert not is_allowed(address, allowed=(ip_network("0.0.0.0/0"), ip_network("::/0")))


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("10.1.2.3", True),
        ("10.2.0.0", False),
        ("::ffff:10.1.2.3", True),
        ("64:ff9b::a01:203", True),
        ("2002:a01:203::", False),
        ("fd12::7", True),
        ("fd13::7", False),
        ("8.8.8.8", True),
        ("127.0.0.1", False),
    ],
)
def test_allowed_networks_are_open_and_no_others(address: str, may: bool) -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd12::/16"))
    assert is_allowed(address, allowed=allowed) == may
