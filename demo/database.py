"""The demo's database: new on the embedded Postgres, or the one of DATABASE_URL, where no data is deleted."""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from demo.supabase import serve
from dev.migrate import migrate
from dev.postgres import check_is_local, embedded, given_url
from lib.errors import Refused, Unavailable
from lib.store.libpq import words_of

NAME = "giftcards_demo"

# Each run has its own tenant, like demo-20261127-181500.
_TENANT = r"^demo-\d{8}-\d{6}$"

_FOREIGN = (
    "select exists (select from public.giftcard_jobs where tenant_id !~ %(tenant)s)",
    "select exists (select from public.giftcard_orders where tenant_id !~ %(tenant)s)",
    "select exists (select from public.giftcard_schedules where tenant_id !~ %(tenant)s)",
)
# Jobs of a stopped demo: the ticks of this one would run them, but their keys and vendors are gone.
_CANCEL = """
update public.giftcard_jobs set status = 'cancelled', revive_at = null
 where tenant_id ~ %(tenant)s and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
"""
_UNSCHEDULE = "delete from public.giftcard_schedules where tenant_id ~ %(tenant)s"
_RESET_CIRCUITS = (
    "select public.giftcard_reset_circuit(circuit, p_by => 'demo') from public.giftcard_circuits"
    " where state <> 'closed'"
)
_FORGET_ALERTS = "delete from public.giftcard_alerts where condition like 'circuit:%'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A migrated database. `where`: its location, without secrets. `leftovers`: cancelled jobs of a stopped demo.

    `supabase`: the variables with which the application reaches it; empty: by `url`.
    """

    url: str
    supabase: Mapping[str, str]
    where: str
    version: str
    tenant: str
    migrations: list[str]
    leftovers: int


@contextmanager
def demo_database(folder: Path, *, supabase: Sequence[str] | None) -> Iterator[Database]:
    """Yield the migrated database. `supabase`: the command that serves it like Supabase, if any.

    Raises:
        Refused: it is on another machine, holds jobs or orders of others, or `supabase` is combined with DATABASE_URL.
        StoreError: it cannot be reached or migrated.
    """
    check_is_local("make demo")
    url = given_url(environment="development")
    if url and supabase:
        raise Refused("--supabase works with the embedded Postgres only: unset DATABASE_URL", sqlstate="GC400")
    if url:
        yield _prepare(url)
        return
    with embedded(folder / "postgres") as server, ExitStack() as stack:
        server.drop_database(NAME)
        where = f"embedded in {short(folder / 'postgres')}; database {NAME}, newly created"
        url = server.create_database(NAME)
        variables = stack.enter_context(serve(supabase, url)) if supabase else {}
        yield _prepare(url, where=where, supabase=variables)


@contextmanager
def existing_database(folder: Path) -> Iterator[str]:
    """Yield the URL of the database of the last demo."""
    check_is_local("python -m demo jobs")
    url = given_url(environment="development")
    if url:
        yield url
        return
    with embedded(folder / "postgres") as server:
        yield server.url_of(NAME)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder for this process. Raise Refused if another demo uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another demo is running here: wait for its end", sqlstate="GC409") from None
        yield


def _prepare(url: str, *, where: str | None = None, supabase: Mapping[str, str] | None = None) -> Database:
    try:
        where = where or _address(url)
        with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            _check_foreign_data(connection)
            migrations = migrate(url)
            leftovers = connection.execute(_CANCEL, {"tenant": _TENANT}).rowcount
            connection.execute(_UNSCHEDULE, {"tenant": _TENANT})
            connection.execute(_RESET_CIRCUITS)
            connection.execute(_FORGET_ALERTS)
            row = connection.execute(
                "select split_part(current_setting('server_version'), ' ', 1), "
                "to_char(now() at time zone 'UTC', '\"demo-\"YYYYMMDD-HH24MISS')"
            ).fetchone()
    except psycopg.Error as error:
        message = words_of(error, url)
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate:
            raise Refused(message, sqlstate=error.sqlstate) from None
        raise Unavailable(message) from None
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


def _check_foreign_data(connection: psycopg.Connection) -> None:
    """Raise Refused if the database holds anything but data of demos."""
    for query in _FOREIGN:
        try:
            row = connection.execute(query, {"tenant": _TENANT}).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            continue  # missing, or not our table, which the migration reports
        if row and row[0]:
            raise Refused(
                "this database has jobs or orders of its own, or schedules, which the demo's ticks would run: "
                "use another DATABASE_URL, or unset it for the embedded Postgres",
                sqlstate="GC409",
            )


def _address(url: str) -> str:
    parts = conninfo_to_dict(url)
    return f"{parts.get('host') or 'localhost'} (DATABASE_URL); database {parts.get('dbname') or 'postgres'}"


def short(path: Path, *, resolve: bool = True) -> str:
    """Return the path relative to the current folder if it is below it. `resolve` False: do not follow links."""
    path = path.resolve() if resolve else path
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
