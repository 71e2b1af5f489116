"""URLs of settings, each parsed once. No message repeats any part of a URL: it may hold a secret, also a malformed one.

A typed URL is a SecretStr that also knows its parts, so that it is never printed.
"""

import base64
import re
from ipaddress import IPv6Address
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from pydantic import SecretStr

from lib.config.job_secrets import forms
from lib.config.transport import is_loopback, must_encrypt

MAX_LENGTH = 2_048
# Characters. A shorter password is covered only beside the user or the @: alone it would match other text.
_SHORTEST = 6
# A user without a password, and a value of a query, may be a token.
_SHORTEST_TOKEN = 8
# A path so long is likely to be a secret, as in the addresses of Slack.
_SHORTEST_TARGET = 16

# Any printable ASCII but the delimiters of a URL, which must be written as %….
_CREDENTIALS = re.compile(r"(?:(?![/?#\[\]@%])[!-~]|%[0-9A-Fa-f]{2})*")
_REST = re.compile(r"([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?")
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?\[\]!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?))(?::([0-9]{1,5}))?"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Parts(NamedTuple):
    """The parts of a URL. `scheme`: in lower case. `user`, `password`: decoded; `credentials`: both as written.

    `authority`: host and port; `path`, `query`: as written, the query without its ?.
    """

    scheme: str
    credentials: str
    user: str
    password: str
    authority: str
    path: str
    query: str

    def covered(self) -> set[str]:
        """Return all texts that give away the password."""
        return covered(self.user, self.password, written=self.credentials.partition(":")[2])


def split(text: str, *, schemes: tuple[str, ...], example: str) -> Parts:
    """Return the parts of a URL.

    Raises:
        ValueError: what it must be instead, without any part of it.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH} characters long")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in schemes:
        raise ValueError(f"must be a URL like {example}")
    credentials, _, rest = rest.rpartition("@")
    if not _CREDENTIALS.fullmatch(credentials):
        raise ValueError(
            "must have the characters / ? # [ ] @ % in user and password written as %2F %3F %23 %5B %5D %40 %25, "
            "and any that is not ASCII as %…, too"
        )
    match = _REST.fullmatch(rest)
    if not match or not _CHARACTERS.fullmatch(rest):
        raise ValueError(f"must be a URL like {example}, of ASCII without spaces, quotes and #: write others as %…")
    user, _, password = credentials.partition(":")
    return Parts(
        scheme.lower(), credentials, decoded(user), decoded(password), match[1], match[2] or "", match[3] or ""
    )


def decoded(text: str) -> str:
    """Return a text without its %….

    Raises:
        ValueError: it is not UTF-8, or has control characters.
    """
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("must be UTF-8 where it has %…") from None
    if _CONTROL.search(plain):
        raise ValueError("must have no control characters")
    return plain


def host_and_port(authority: str) -> tuple[str, int | None]:
    """Return the host without brackets, and the port if there is one.

    Raises:
        ValueError: what they must be instead.
    """
    match = _AUTHORITY.fullmatch(authority)
    if not match:
        raise ValueError("must have a host like example.com or [2001:db8::1], and a port that is a number")
    if match[3] and not 1 <= int(match[3]) <= 65_535:
        raise ValueError("must have a port from 1 to 65535")
    if match[1]:
        try:
            IPv6Address(match[1])
        except ValueError:
            raise ValueError("must have an IPv6 address within the brackets") from None
    return (match[1] or match[2]).lower(), int(match[3]) if match[3] else None


def covered(user: str, password: str, *, written: str = "") -> set[str]:
    """Return all texts that give away a password. `written`: its form in the URL."""
    if not password:
        return set()
    words = {password, written or quote(password, safe="")}
    found = {f":{word}@" for word in words}
    if len(password) < _SHORTEST:
        return found
    # As HTTP and SMTP send them.
    found |= {base64.b64encode(text.encode()).decode() for text in (f"{user}:{password}", f"\0{user}\0{password}")}
    return found | words | forms(password)


class HttpUrl(SecretStr):
    """An http or https URL, https where the rule requires it. `host`: without brackets.

    Raises:
        ValueError: what it must be instead, without any part of it.
    """

    _example = "https://example.com/path"

    def __init__(self, text: str, *, environment: str = "production") -> None:
        super().__init__(text)
        parts = split(text, schemes=("http", "https"), example=self._example)
        self._parts = parts
        self.scheme = parts.scheme
        self.host, self.port = host_and_port(parts.authority)
        if parts.scheme == "http" and must_encrypt(self.host, environment):
            raise ValueError("must begin with https://: without TLS, secrets would travel in clear")

        self.has_credentials, self.has_query = bool(parts.credentials), bool(parts.query)

    @property
    def is_base(self) -> bool:
        """Whether it has neither credentials nor path nor query."""
        return not self.has_credentials and not self.has_query and self._parts.path in ("", "/")

    @property
    def secrets(self) -> set[str]:
        """The texts that must never appear in output."""
        if self.is_base:
            return set()
        target = self._parts.path + (f"?{self._parts.query}" if self._parts.query else "")
        token = self._parts.user if not self._parts.password else ""
        found = {self.get_secret_value(), *self._parts.covered()}
        for word in (token, *(value for _, value in parse_qsl(self._parts.query))):
            found |= forms(word) if len(word) >= _SHORTEST_TOKEN else set()
        return found | ({target} if len(target) >= _SHORTEST_TARGET else set())

    def with_query(self, **values: str) -> str:
        """Return the URL with these values at the end of its query."""
        query = "&".join(filter(None, (self._parts.query, urlencode(values))))
        return self._text(self._parts.path, query)

    def with_path(self, *segments: str) -> str:
        """Return the URL with these segments at the end of its path."""
        path = "/".join((self._parts.path.rstrip("/"), *(quote(segment, safe="") for segment in segments)))
        return self._text(path, self._parts.query)

    def _text(self, path: str, query: str) -> str:
        scheme, credentials, _, _, authority, _, _ = self._parts
        start = f"{scheme}://{credentials}@{authority}" if credentials else f"{scheme}://{authority}"
        return start + path + (f"?{query}" if query else "")


class SupabaseUrl(HttpUrl):
    """The base URL of a project.

    Raises:
        ValueError: what it must be instead.
    """

    _example = "https://abcdefghijklm.supabase.co"

    def __init__(self, text: str, *, environment: str = "production") -> None:
        super().__init__(text, environment=environment)
        if not self.is_base:
            raise ValueError(f"must be a base URL without a path, like {self._example}")


class SmtpUrl(SecretStr):
    """The URL of a mail server. `user`: empty if there is no login.

    `security`: `tls` from the first byte; `starttls`, without which nothing is sent; `offered`: STARTTLS if this
    machine's server has it; `none`.

    Raises:
        ValueError: what it must be instead, without any part of it.
    """

    def __init__(self, text: str, *, environment: str = "production") -> None:
        super().__init__(text)
        example = "smtp://user:password@host:587 or smtps://user:password@host:465"
        parts = split(text, schemes=("smtp", "smtps", "smtp+insecure"), example=example)
        self._parts = parts
        self.user, self.password = parts.user, parts.password
        if parts.path not in ("", "/") or parts.query:
            raise ValueError("must have nothing behind the host and the port")
        self.host, port = host_and_port(parts.authority)
        self.security = self._security(environment)
        self.port = port or (465 if self.security == "tls" else 587 if self.user else 25)

    def _security(self, environment: str) -> Literal["tls", "starttls", "offered", "none"]:
        if self._parts.scheme == "smtps":
            return "tls"
        if self._parts.scheme == "smtp":
            return "offered" if is_loopback(self.host) else "starttls"
        if must_encrypt(self.host, environment):
            raise ValueError("must begin with smtp:// or smtps://: smtp+insecure:// sends passwords and cards in clear")
        return "none"

    @property
    def secrets(self) -> set[str]:
        """The texts that must never appear in output."""
        return {self.get_secret_value(), *self._parts.covered()} if self.password else set()
