"""The words of libpq and psycopg, without what they were given."""

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lib.config.url_parts import covered
from lib.telemetry.redact import clean

_MAX_LENGTH = 1_000


def secrets_in(conninfo: str) -> list[str]:
    """Return the texts that give away the passwords of a connection string; none if libpq cannot read it."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.Error:
        return []
    user = str(found.get("user") or "")
    passwords = (str(found.get(name) or "") for name in ("password", "sslpassword"))
    return sorted({text for password in passwords for text in covered(user, password)}, key=len, reverse=True)


def words_of(error: psycopg.Error, conninfo: str) -> str:
    """Return an error's message as one line."""
    if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
        return "libpq cannot read the connection string"  # it would repeat a part of it
    return clean(" ".join(str(error).split()), secrets=secrets_in(conninfo), limit=_MAX_LENGTH)
