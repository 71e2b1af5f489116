"""The grammar of URLs in settings. No message repeats any part of a URL: it may hold a secret, also a malformed one."""

import base64
import re
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote

from lib.config.cleaning import is_placeholder
from lib.config.job_secrets import forms
from lib.config.transport import is_loopback

MAX_LENGTH = 2_048
# Characters. A shorter password is covered only between the : and the @: alone it would match other text.
_SHORTEST = 6

# Any printable ASCII but the delimiters of a URL, which must be written as %….
_CREDENTIALS = re.compile(r"(?:(?![/?#\[\]@%])[!-~]|%[0-9A-Fa-f]{2})*")
_REST = re.compile(r"([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?")
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?@\[\]!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?))(?::([0-9]{1,5}))?"
)
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# As Supabase's and other consoles show a URL.
_PLACE_OF_A_PASSWORD = re.compile(r"(?i)\[[a-z _-]*\]")
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
    credentials, rest = _credentials(rest, may_have_at=scheme.lower() in ("http", "https"))
    # Servers on the developer's machine do have passwords like changeme.
    is_here = is_loopback(re.split("[:/?]", rest, maxsplit=1)[0])
    if _PLACE_OF_A_PASSWORD.search(credentials) or (any(map(is_placeholder, credentials.split(":"))) and not is_here):
        raise ValueError("must have the real user and password, where it has a placeholder like [YOUR-PASSWORD]")
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


def _credentials(rest: str, *, may_have_at: bool) -> tuple[str, str]:
    """Return user and password, and what follows. `may_have_at`: an @ may also stand in the path (Microsoft Teams)."""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    # A host without a dot is more likely a part of a password before its / or ?.
    if may_have_at and "." in authority.rpartition("@")[2]:
        credentials, _, host = authority.rpartition("@")
        return credentials, host + rest.removeprefix(authority)
    credentials, _, rest = rest.rpartition("@")
    return credentials, rest


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
    if not match or not (match[1] or _is_host(match[2])):
        raise ValueError("must have a host like example.com or [2001:db8::1], and a port that is a number")
    if match[3] and not 1 <= int(match[3]) <= 65_535:
        raise ValueError("must have a port from 1 to 65535")
    if match[1]:
        try:
            IPv6Address(match[1])
        except ValueError:
            raise ValueError("must have an IPv6 address within the brackets") from None
    return (match[1] or match[2]).lower(), int(match[3]) if match[3] else None


def _is_host(name: str) -> bool:
    """Return whether a text is a name of labels, or an IPv4 address: a number alone would be read as one, too."""
    *_, last = labels = name.split(".")
    if last.isdigit():
        try:
            return bool(IPv4Address(name))
        except ValueError:
            return False
    return all(map(_LABEL.fullmatch, labels))


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
