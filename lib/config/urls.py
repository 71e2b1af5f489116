"""URLs of services and mail servers, each parsed once.

A typed URL is a SecretStr that also knows its parts, so that it is never printed.
"""

from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import SecretStr

from lib.config.job_secrets import forms
from lib.config.transport import is_loopback, must_encrypt
from lib.config.url_parts import host_and_port, split

# Characters. A user without a password, and a value of a query, may be a token.
_SHORTEST_TOKEN = 8
# A path so long is likely to be a secret, as in the addresses of Slack.
_SHORTEST_TARGET = 16


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


class PublicUrl(HttpUrl):
    """The base URL of this application, as customers reach it.

    Raises:
        ValueError: what it must be instead.
    """

    _example = "https://cards.example.com"

    def __init__(self, text: str, *, environment: str = "production") -> None:
        super().__init__(text, environment=environment)
        if not self.is_base:
            raise ValueError(f"must be a base URL without a path, like {self._example}")


class SentryDsn(HttpUrl):
    """The address of a project of Sentry, as its SDK accepts it: with a key, and a number at the end.

    Raises:
        ValueError: what it must be instead.
    """

    _example = "https://key@o1.ingest.sentry.io/2"

    def __init__(self, text: str, *, environment: str = "production") -> None:
        super().__init__(text, environment=environment)
        project = self._parts.path.rpartition("/")[2]
        if not self._parts.user or not (project.isascii() and project.isdigit()):
            raise ValueError(f"must be a DSN with its key and project, like {self._example}: copy it from Sentry")


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
