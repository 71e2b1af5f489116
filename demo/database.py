"""A database for the demo: fresh on the embedded Postgres, or the one of DATABASE_URL, in which nothing is wiped."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from demo.supabase import served
from dev.migrate import migrate
from dev.postgres import embedded
from lib.errors import Refused, Unavailable

NAME = "giftcards_demo"

# Each run is a tenant of its own, named like demo-20261127-181500.
_TENANT = r"^demo-\d{8}-\d{6}$"

_FOREIGN = (
    "select exists (select from public.giftcard_jobs where tenant_id !~ %(tenant)s)",
    "select exists (select from public.giftcard_orders where tenant_id !~ %(tenant)s)",
    "select exists (select from public.giftcard_schedules where tenant_id !~ %(tenant)s)",
)
# What a demo that was stopped has left would be run by this one's ticks, with keys and vendors that are gone.
_CANCEL = """
update public.giftcard_jobs set status = 'cancelled', revive_at = null
 where tenant_id ~ %(tenant)s and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
"""
_UNSCHEDULE = "delete from public.giftcard_schedules where tenant_id ~ %(tenant)s"
_CLOSE = "select public.giftcard_reset_circuit(circuit, 'demo') from public.giftcard_circuits where state <> 'closed'"
_UNTOLD = "delete from public.giftcard_alerts where condition like 'circuit:%'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """`where` says without secrets where it is. `leftovers`: jobs of a stopped demo that were cancelled.

    `supabase`: how the application reaches it, as variables; none: by `url`.
    """

    url: str
    supabase: Mapping[str, str]
    where: str
    version: str
    tenant: str
    migrations: list[str]
    leftovers: int


@contextmanager
def own_database(folder: Path, *, supabase: Sequence[str] | None) -> Iterator[Database]:
    """The database to play in, migrated. `supabase`: the command that serves it as Supabase does, if any shall.

    Raises:
        Refused: it holds jobs or orders that are not a demo's, or is not ours to make roles in.
        StoreError: it cannot be had, or cannot be migrated.
    """
    url = os.environ.get("DATABASE_URL", "").strip()
    if url and supabase:
        raise Refused(
            "the way over Supabase is played on the embedded Postgres only: unset DATABASE_URL", sqlstate="GC400"
        )
    if url:
        yield _prepared(url)
        return
    with embedded(folder / "postgres") as server, ExitStack() as stack:
        server.drop_database(NAME)
        where = f"embedded in {short(folder / 'postgres')}; database {NAME}, made afresh"
        url = server.create_database(NAME)
        way = stack.enter_context(served(supabase, url)) if supabase else {}
        yield _prepared(url, where=where, supabase=way)


@contextmanager
def kept_database(folder: Path) -> Iterator[str]:
    """The address of the database that the last demo has left."""
    url = os.environ.get("DATABASE_URL", "").strip()
    if url:
        yield url
        return
    with embedded(folder / "postgres") as server:
        yield server.url_of(NAME)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Holds the folder for this process. Refused: another demo plays in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another demo is playing here: wait for its end", sqlstate="GC409") from None
        yield


def _prepared(url: str, *, where: str | None = None, supabase: Mapping[str, str] | None = None) -> Database:
    try:
        where = where or _address(url)
        with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            _refuse_foreign(connection)
            migrations = migrate(url)
            leftovers = connection.execute(_CANCEL, {"tenant": _TENANT}).rowcount
            connection.execute(_UNSCHEDULE, {"tenant": _TENANT})
            connection.execute(_CLOSE)
            connection.execute(_UNTOLD)
            row = connection.execute(
                "select split_part(current_setting('server_version'), ' ', 1), "
                "to_char(now() at time zone 'UTC', '\"demo-\"YYYYMMDD-HH24MISS')"
            ).fetchone()
    except psycopg.OperationalError as error:
        raise Unavailable(" ".join(str(error).split())) from None
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:  # its words would repeat the address, with its password
            raise Unavailable("the address is not like postgresql://user:password@host:5432/database") from None
        raise Refused(str(error), sqlstate=error.sqlstate) from None
    version, tenant = row or ("", "")
    return Database(
        url=url,
        supabase=supabase or {},
        where=where,
        version=version,
        tenant=tenant,
        migrations=migrations,
        leftovers=max(0, leftovers),
    )


def _refuse_foreign(connection: psycopg.Connection) -> None:
    """Lets pass what is empty, and what demos have left."""
    for query in _FOREIGN:
        try:
            row = connection.execute(query, {"tenant": _TENANT}).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            continue  # not there yet, or a table that is not ours: that is for the migration to say
        if row and row[0]:
            raise Refused(
                "this database has jobs or orders of its own, or schedules, and the demo's ticks would run them: "
                "choose another DATABASE_URL, or none for the embedded Postgres",
                sqlstate="GC409",
            )


def _address(url: str) -> str:
    parts = conninfo_to_dict(url)
    return f"{parts.get('host') or 'localhost'} (DATABASE_URL); database {parts.get('dbname') or 'postgres'}"


def short(path: Path, *, resolve: bool = True) -> str:
    """Relative to where we are, if it lies below. `resolve` False: a link stays a link."""
    path = path.resolve() if resolve else path
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
