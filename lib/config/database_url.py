"""The URL of the database, made ready for libpq: as it is here, libpq accepts it and encrypts by the rule."""

import re
from typing import NoReturn
from urllib.parse import quote

from pydantic import SecretStr

from lib.config import transport, url_parts

_EXAMPLE = "postgresql://user:password@host:5432/database"
# Parameters of other libraries, which Supabase and Vercel hand out. libpq refuses them.
_DROPPED = frozenset(
    """connection_limit pgbouncer pool_mode pool_timeout prepare_threshold schema socket_timeout sslaccept
    statement_cache_size supa uselibpqcompat workaround""".split()
)
# libpq's, except those that lead to another file with a host in it, or write down the keys of the encryption.
_ALLOWED = frozenset(
    """application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version options passfile password port require_auth requirepeer
    ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcrl sslcrldir sslkey sslmode sslnegotiation
    sslpassword sslrootcert sslsni target_session_attrs tcp_user_timeout user""".split()
)
_SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_ENCRYPTED = _SSLMODES[3:]
# A server that asks for the password itself would get it; with SCRAM it gets a proof.
_SCRAM = "scram-sha-256"
_STRONG = frozenset({_SCRAM, "gss", "sspi"})
_PORT = re.compile(r"[0-9]{1,5}(?:,[0-9]{1,5})*")


class DatabaseUrl(SecretStr):
    """A connection URL. `host`, `port`: of the first server; the host is empty if there is none.

    `place`: the database and its host, for people. `is_remote`: it leaves this machine. `sslmode`, `sslrootcert`:
    libpq's, empty for its default.

    Raises:
        ValueError: what it must be instead, without any part of it.
    """

    def __init__(self, text: str, *, environment: str = "production") -> None:
        parts = url_parts.split(text, schemes=("postgres", "postgresql"), example=_EXAMPLE)
        url_parts.decoded(parts.path)
        servers = [_server(server) for server in parts.authority.split(",")] if parts.authority else []
        parameters = _parameters(parts.query)
        hosts = [host for host, _ in servers]
        if "host" in parameters:
            hosts = [host for host in parameters["host"].split(",") if host]
        places = hosts + [place for place in parameters.get("hostaddr", "").split(",") if place]
        self.host = hosts[0] if hosts else ""
        self.port = int(parameters["port"].split(",")[0]) if "port" in parameters else _first_port(servers)
        name = parameters.get("dbname") or url_parts.decoded(parts.path).removeprefix("/") or parts.user or "postgres"
        self.place = f"database {name} on {self.host or 'this machine'}"
        self.is_remote = not all(map(transport.is_loopback, places))
        if not places and transport.must_encrypt("", environment):
            raise ValueError(f"must have a host, like {_EXAMPLE}")
        if any(transport.must_encrypt(place, environment) for place in places):
            _encrypt(parameters)
        self.sslmode, self.sslrootcert = parameters.get("sslmode", ""), parameters.get("sslrootcert", "")
        self._written, self._parts = text, parts
        self._passwords = {parameters[name] for name in ("password", "sslpassword") if parameters.get(name)}
        super().__init__(_text(parts, parameters))

    @property
    def secrets(self) -> set[str]:
        """The texts that must never appear in output."""
        found = self._parts.covered()
        for password in self._passwords:
            found |= url_parts.covered(self._parts.user, password)
        return found | {self._written, self.get_secret_value()} if found else set()


def _parameters(query: str) -> dict[str, str]:
    """Return the parameters for libpq."""
    found: dict[str, str] = {}
    for position, parameter in enumerate(filter(None, query.split("&")), start=1):
        name, separator, value = parameter.partition("=")
        if name in _DROPPED:
            continue
        if (name, value) in (("ssl", "true"), ("ssl", "1")):
            name, value = "sslmode", "require"
        if name not in _ALLOWED or not separator:
            # Not its name: with a ? in the password, that would be a part of it.
            raise ValueError(f"must have only parameters of libpq behind its ?, unlike number {position}")
        found[name] = url_parts.decoded(value)
    if found.get("sslmode", "require") not in _SSLMODES:
        raise ValueError(f"must have one of these as sslmode: {', '.join(_SSLMODES)}")
    if "port" in found and not _PORT.fullmatch(found["port"]):
        raise ValueError("must have a port that is a number")
    return found


def _encrypt(parameters: dict[str, str]) -> None:
    """Require TLS and SCRAM where the URL does not, and refuse what is weaker."""
    strictest = "verify-full" if parameters.get("sslrootcert") else "require"
    if parameters.setdefault("sslmode", strictest) not in _ENCRYPTED:
        _refuse("sslmode", "require, verify-ca or verify-full")
    if not set(parameters.setdefault("require_auth", _SCRAM).split(",")) <= _STRONG:
        _refuse("require_auth", _SCRAM)


def _refuse(name: str, allowed: str) -> NoReturn:
    raise ValueError(f"must have {name}={allowed}: otherwise secrets could travel in clear")


def _server(authority: str) -> tuple[str, int | None]:
    """Return host and port of a server; the host may be the folder of a Unix socket, `%2Frun%2Fpostgresql`."""
    if authority.lower().startswith("%2f"):
        folder, _, port = authority.partition(":")
        return url_parts.decoded(folder), url_parts.host_and_port(f"localhost:{port}")[1] if port else None
    return url_parts.host_and_port(authority)


def _first_port(servers: list[tuple[str, int | None]]) -> int:
    return servers[0][1] or 5432 if servers else 5432


def _text(parts: url_parts.Parts, parameters: dict[str, str]) -> str:
    user, password = quote(parts.user, safe=""), quote(parts.password, safe="")
    credentials = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"postgresql://{credentials}{parts.authority}{parts.path}" + (f"?{query}" if query else "")
