"""Defines `GIFTCARD_SECRET_<NAME>`: secrets of jobs, and where each may go.

A job refers to a secret as `{{secret:NAME}}`, which is replaced only when the call is sent. `…_HOSTS` lists the hosts
that may receive it; without that, none may. `…_SOURCES` adds jobs that the application has not enqueued itself.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, quote_plus

from pydantic import SecretStr

from lib.config.cleaning import bare, blanks_off, check_text, has_half_quotes, items

# Characters. A shorter secret could not be redacted: it would match other text.
_LENGTHS = range(8, 4_097)

# Names that end like the two other variables of a secret are reserved for them.
_NAME = r"(?!(?:\w+_)?(?:HOSTS|SOURCES)\b)[A-Z][A-Z0-9_]{0,62}"
_SECRET = re.compile(f"GIFTCARD_SECRET_({_NAME})")
_BOUND = re.compile(r"(\w+)_(?:HOSTS|SOURCES)")
_REFERENCE = re.compile(rf"\{{\{{secret:({_NAME})\}}\}}")
_ALMOST_REFERENCE = re.compile(r"\{\{\s*secret\b", re.IGNORECASE)

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# *.example.com, but not *.com. An address stands for itself.
_HOST = re.compile(rf"\*(?:\.{_LABEL}){{2,}}|{_LABEL}(?:\.{_LABEL})*")
_WITH_PORT = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Host:
    """A host that may receive a secret: a name, `*.` for any name below another, or an address.

    `port` None: the default port of the scheme only.
    """

    name: str
    port: int | None

    def matches(self, host: str, port: int, *, is_default_port: bool) -> bool:
        """Return whether a URL of this host (lower case, no brackets) and port is meant."""
        if not (is_default_port if self.port is None else port == self.port):
            return False
        return host.endswith(self.name[1:]) if self.name.startswith("*.") else host == self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSecret:
    """A secret. `hosts`: those that may receive it. `sources`: the jobs that may send it (`lib.job.Source`)."""

    value: SecretStr
    hosts: tuple[Host, ...] = ()
    sources: frozenset[str] = frozenset({"app"})

    def may_go_to(self, host: str, port: int, *, is_default_port: bool) -> bool:
        """Return whether a host is listed."""
        return any(listed.matches(host, port, is_default_port=is_default_port) for listed in self.hosts)

    def forms(self) -> set[str]:
        """Return all forms in which a response may repeat it."""
        return forms(self.value.get_secret_value())


def variable(name: str, bound: str = "") -> str:
    """Return the variable of a secret, or of its bound: `_HOSTS` or `_SOURCES`."""
    return f"GIFTCARD_SECRET_{name}{bound}"


def read(environ: Mapping[str, str], errors: list[str]) -> dict[str, JobSecret]:
    """Return the valid secrets by name, and add a sentence to `errors` for each variable that is invalid."""
    secrets = {}
    for name, value in environ.items():
        match = _SECRET.fullmatch(name)
        if match and bare(value):
            try:
                secrets[match[1]] = _secret(match[1], value, environ)
            except ValueError as error:
                errors.append(str(error))
    return secrets


def _secret(name: str, given: str, environ: Mapping[str, str]) -> JobSecret:
    value = bare(given)
    try:
        for line in value.split("\n"):  # a certificate has several
            check_text(line.removesuffix("\r"))
        # Quotes around it allow one that is its own: "it's'".
        if has_half_quotes(blanks_off(given)):
            raise ValueError(
                "must have quotes at both ends or at none: if one is a part of it, put other quotes around the whole"
            )
    except ValueError as error:
        raise ValueError(f"{variable(name)}: {error}") from None
    if len(value) not in _LENGTHS:
        raise ValueError(f"{variable(name)}: a secret must have {_LENGTHS[0]} to {_LENGTHS[-1]} characters")
    return JobSecret(
        value=SecretStr(value),
        hosts=tuple(_hosts(variable(name, "_HOSTS"), environ)),
        sources=frozenset({"app", *_sources(variable(name, "_SOURCES"), environ)}),
    )


def bounded(name: str) -> str | None:
    """Return the secret that a variable bounds, like GIFTCARD_SECRET_CRM of GIFTCARD_SECRET_CRM_HOSTS."""
    bound = _BOUND.fullmatch(name)
    return bound[1] if bound and _SECRET.fullmatch(bound[1]) else None


def is_known(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable is one of a secret. Hosts and sources of a secret that is not set are not."""
    if _SECRET.fullmatch(name):
        return True
    secret = bounded(name)
    return secret is not None and bool(bare(environ.get(secret, "")))


def _parts(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    return iter(items(bare(environ.get(name, ""))))


def _hosts(name: str, environ: Mapping[str, str]) -> Iterator[Host]:
    for position, part in enumerate(_parts(name, environ), start=1):
        match = _WITH_PORT.fullmatch(part.lower())
        host = match and _host(match["host"])
        if not match or not host or not 1 <= int(match["port"] or 1) <= 65_535:
            like = "api.example.com, *.example.com or api.example.com:8443"
            # Not the part itself: it may be the secret, in the wrong variable.
            raise ValueError(f"{name}: item {position} must be a host like {like}")
        yield Host(host, int(match["port"]) if match["port"] else None)


def _host(text: str) -> str | None:
    """Return a host as a parsed URL has it; None: it is none."""
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return text if _HOST.fullmatch(text) and len(text) <= 253 else None


def _sources(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    for position, part in enumerate(_parts(name, environ), start=1):
        if part.lower() not in ("pgmq", "sql"):
            raise ValueError(f"{name}: item {position} must be pgmq or sql: jobs of the application may always send it")
        yield part.lower()


def check(text: str) -> None:
    """Validate the references in a text.

    Raises:
        ValueError: a reference is malformed; safe to return to clients.
    """
    if _ALMOST_REFERENCE.search(_REFERENCE.sub(" ", text)):
        raise ValueError(
            "must refer to a secret like {{secret:NAME}}, in capitals, digits and underscores, "
            "and no name ends in _HOSTS or _SOURCES"
        )


def names_in(text: str) -> list[str]:
    """Return the names of the secrets that a text refers to."""
    return [match[1] for match in _REFERENCE.finditer(text)]


def filled(text: str, values: Callable[[str], str], *, written: Callable[[str], str] = str) -> str:
    """Replace the references in a text with the value of each name, encoded by `written`."""
    return _REFERENCE.sub(lambda match: written(values(match[1])), text)


def in_json(secret: str) -> str:
    """Escape a secret for use within a JSON string."""
    return json.dumps(secret)[1:-1]


def forms(secret: str) -> set[str]:
    """Return all forms in which a response may repeat a secret: plain, in JSON, in a URL, in HTML."""
    plain_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {
        secret,
        in_json(secret),
        plain_json,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        html.escape(secret),
    }
