"""Addresses as people write them. One parser, strict: what it made of an address is what is connected to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urljoin

from lib.safe_http.ip_policy import Network, may_be_called

LONGEST = 2_048

_DEFAULT_PORTS = {"http": 80, "https": 443}
# What RFC 3986 lets stand in an address. Names in other scripts are written as xn--…: nothing here looks alike.
_URL = re.compile(r"(https?)://([^/?#]*)([/?][^#]*)?(?:#.*)?", re.IGNORECASE)
_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Resolvers read 127.1, 2130706433 and 0x7f.0.0.1 as addresses; a name whose last part looks like a number is none.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Url:
    """`host` in lower case, without brackets; `target`: path and query. There is no user, password or fragment."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Who answers: what is secret goes to no other."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def joined(self, reference: str) -> "Url":
        """Where a redirect leads. Raises ValueError like `parse`."""
        try:
            return parse(urljoin(f"{self.scheme}://{self.authority}{self.target}", reference))
        except ValueError:
            # Not in the words of urljoin, which repeat parts of the address.
            raise ValueError("must be an address that can be called") from None


def parse(text: str) -> Url:
    """An address of http or https.

    Raises:
        ValueError: what it must be instead; fit for answers.
    """
    if len(text) > LONGEST:
        raise ValueError(f"must be at most {LONGEST} characters long")
    if not _CHARACTERS.fullmatch(text):
        raise ValueError("must be of letters, digits and signs of ASCII: write others as %… and in names as xn--…")
    match = _URL.fullmatch(text)
    if not match:
        raise ValueError("must be an address of http or https, like https://example.com/path")
    scheme, authority, target = match[1].lower(), match[2], match[3] or "/"
    if "@" in authority:
        raise ValueError("must not hold a user or password: give a header that names a secret")
    place = _PLACE.fullmatch(authority)
    if not place:
        raise ValueError("must name a host, and no more than a port behind it")
    host = _ip6(place[1]) if place[1] else _name(place[2].lower())
    port = _port(int(place[3])) if place[3] else _DEFAULT_PORTS[scheme]
    return Url(scheme, host, port, target if target.startswith("/") else f"/{target}")


def check(url: Url, *, allowed: Sequence[Network]) -> None:
    """Refuses an address written as such that may not be called; a name is looked up at the call.

    Raises:
        ValueError: fit for answers.
    """
    address = _literal(url.host)
    if address is not None and not may_be_called(address, allowed=allowed):
        raise ValueError("must lead to a public address, or to one within GIFTCARD_ALLOWED_NETWORKS")


def _literal(host: str) -> str | None:
    if host == "localhost" or host.endswith(".localhost"):
        return "127.0.0.1"  # RFC 6761, 6.3
    return host if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) else None


def _name(host: str) -> str:
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise ValueError("must have its IPv4 address as four decimal numbers, like 192.0.2.1") from None
    if len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):
        raise ValueError("must name its host by a name like example.com, without a dot at its end")
    return host


def _ip6(host: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        raise ValueError("must have an IPv6 address between its brackets") from None


def _port(port: int) -> int:
    # Below 1024 live mail, file and name services, some of which would take a request for their own commands.
    if port not in _DEFAULT_PORTS.values() and not 1_024 <= port <= 65_535:
        raise ValueError("must have port 80, 443, or one from 1024 to 65535")
    return port
