"""URLs. One strict parser, whose result is also what the client connects to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urljoin

from lib.config.transport import must_encrypt
from lib.safe_http.ip_policy import Network, is_allowed

MAX_LENGTH = 2_048

_DEFAULT_PORTS = {"http": 80, "https": 443}
# The characters of RFC 3986. Names in other scripts need their xn--… form, so that there are no look-alikes.
_URL = re.compile(r"(https?)://([^/?#]*)([/?][^#]*)?(?:#.*)?", re.IGNORECASE)
_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Resolvers accept 127.1, 2130706433 and 0x7f.0.0.1 as addresses: no name ends in a numeric label.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL without user, password and fragment. `host`: lower case, no brackets; `target`: path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin: secrets are sent to no other."""
        return self.scheme, self.host, self.port

    @property
    def has_default_port(self) -> bool:
        """Whether the port is that of the scheme."""
        return self.port == _DEFAULT_PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """Host and port for the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.has_default_port else f"{host}:{self.port}"

    def join(self, reference: str) -> "Url":
        """Return the target of a redirect. Raise ValueError like `parse`."""
        try:
            return parse(urljoin(f"{self.scheme}://{self.authority}{self.target}", reference))
        except ValueError:
            # Not urljoin's message, which repeats parts of the URL.
            raise ValueError("must be a valid URL") from None


def parse(text: str) -> Url:
    """Parse an http or https URL.

    Raises:
        ValueError: what it must be instead; safe to return to clients.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH} characters long")
    if not _CHARACTERS.fullmatch(text):
        raise ValueError("must be ASCII: encode other characters as %…, and in host names as xn--…")
    match = _URL.fullmatch(text)
    if not match:
        raise ValueError("must be an http or https URL, like https://example.com/path")
    scheme, authority, target = match[1].lower(), match[2], match[3] or "/"
    if "@" in authority:
        raise ValueError("must not hold a user or password: use a header with a secret instead")
    parts = _AUTHORITY.fullmatch(authority)
    if not parts:
        raise ValueError("must have a host, optionally with a port")
    host = _ipv6(parts[1]) if parts[1] else _name(parts[2].lower())
    port = _port(int(parts[3])) if parts[3] else _DEFAULT_PORTS[scheme]
    return Url(scheme, host, port, target if target.startswith("/") else f"/{target}")


def check(url: Url, *, allowed: Sequence[Network]) -> None:
    """Validate a URL's IP address, if it has one; a name is resolved and checked by the call.

    Raises:
        ValueError: the address may not be called; safe to return to clients.
    """
    address = _literal(url.host)
    if address is not None and not is_allowed(address, allowed=allowed):
        raise ValueError("must have a public address, or one within GIFTCARD_ALLOWED_NETWORKS")


def check_encrypted(url: Url, *, environment: str) -> None:
    """Validate that a URL may receive secrets.

    Raises:
        ValueError: it is not https where it must be; safe to return to clients.
    """
    if url.scheme == "http" and must_encrypt(url.host, environment):
        raise ValueError("must begin with https://: secrets do not travel in clear")


def _literal(host: str) -> str | None:
    if host == "localhost" or host.endswith(".localhost"):
        return "127.0.0.1"  # RFC 6761, 6.3
    return host if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) else None


def _name(host: str) -> str:
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise ValueError("must have an IPv4 address of four decimal numbers, like 192.0.2.1") from None
    if len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):
        raise ValueError("must have a host name like example.com, without a trailing dot")
    return host


def _ipv6(host: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        raise ValueError("must have an IPv6 address within the brackets") from None


def _port(port: int) -> int:
    # Ports below 1024 belong to mail, file and name services, some of which would read a request as commands.
    if port not in _DEFAULT_PORTS.values() and not 1_024 <= port <= 65_535:
        raise ValueError("must have port 80, 443, or one from 1024 to 65535")
    return port
