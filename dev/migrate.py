"""Apply supabase/migrations to a database, each file once.

    DATABASE_URL=postgresql://… python -m dev.migrate

Applied migrations are recorded in the Supabase CLI's table, so that the CLI can apply the next one, too. Like the CLI,
it applies a file in one transaction, and what cannot run in one, like `create index concurrently`, outside.
Exit codes: 0 done, 1 a migration failed or the database has others, 2 DATABASE_URL is not set, or cannot be used.
"""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from dev import ROOT
from lib.config.database_url import DatabaseUrl
from lib.errors import Misconfigured, Refused, StoreError, Unavailable
from lib.store.libpq import words_of

# Any number shared by all processes; this one spells "migrate". They ask for it every so many seconds.
_LOCK, _LOCK_SECONDS = int.from_bytes(b"migrate"), 0.1

# The table of the Supabase CLI, created in the same steps as by the CLI.
_LEDGER = """
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text;
"""

# The linter and `migrate` know a file that is applied outside a transaction by this line.
_OUTSIDE = "-- squawk-disable-assume-in-transaction"
# Someone else holds what the migration needs: a lock or a statement took too long, or both waited for each other.
_HELD = frozenset({"40P01", "55P03", "57014"})


@dataclass(frozen=True, slots=True)
class Migration:
    """A file `<version>_<name>.sql`; the version is a UTC time of 14 digits."""

    version: str
    name: str
    sql: str

    @property
    def file(self) -> str:
        return f"{self.version}_{self.name}.sql"

    @property
    def is_outside(self) -> bool:
        """Whether it is applied outside a transaction, statement by statement."""
        return self.sql.startswith(_OUTSIDE)

    @property
    def statements(self) -> list[str]:
        """What is sent: the whole file in one message, or each of its statements."""
        if not self.is_outside:
            return [self.sql]
        parts = (part.strip() for part in re.split(r";[ \t]*(?:\r?\n|\Z)", self.sql))
        return [part for part in parts if re.sub(r"--.*", "", part).strip()]


def migrate(url: str, *, directory: Path = ROOT / "supabase/migrations") -> list[str]:
    """Apply the missing migrations in order, each in its own transaction, and return their file names.

    Several processes may run at once: each file is applied by one of them while the others wait. The lock belongs to
    the transaction, because a session lock does not work with a transaction pooler. A file that is applied outside a
    transaction has a connection of its own, while the transaction with the lock waits.
    Raise Refused if a migration fails (it is rolled back), Misconfigured if files and database differ (see
    `_check_drift`), Unavailable if the database cannot be reached.
    """
    migrations = read_migrations(directory)
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            # Another default of the database's would keep a snapshot, which an index that is built concurrently awaits.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            _prepare(connection, migrations)
            return [migration.file for migration in migrations if _apply_once(connection, migration, url)]
    except psycopg.Error as error:
        raise _translated(error, url) from None  # the original may repeat a part of the URL


def read_migrations(directory: Path) -> list[Migration]:
    """Return the migrations of a folder in order. Raise Misconfigured for an invalid file name."""
    migrations: list[Migration] = []
    for path in sorted(directory.glob("*.sql")):
        match = re.fullmatch(r"(\d{14})_(\w+)\.sql", path.name)
        if match is None:
            raise Misconfigured(f"{path.name} is not named like 20260131120000_what_it_does.sql")
        if migrations and migrations[-1].version == match[1]:
            raise Misconfigured(f"{path.name} has the same version as {migrations[-1].file}")
        migration = Migration(version=match[1], name=match[2], sql=path.read_text(encoding="utf-8"))
        if migration.is_outside and "$$" in migration.sql:
            raise Misconfigured(f"{path.name} is applied outside a transaction: put functions into another file")
        migrations.append(migration)
    if not migrations:
        raise Misconfigured(f"there are no migrations in {directory}")
    return migrations


def _prepare(connection: psycopg.Connection, migrations: Sequence[Migration]) -> None:
    """Create the ledger if it is missing, and check that the database's history matches the folder."""
    with _locked(connection):
        connection.execute("set local client_min_messages = warning")  # no notices about existing objects
        connection.execute(_LEDGER)
        query = "select version, statements from supabase_migrations.schema_migrations order by version"
        applied: dict[str, list[str] | None] = dict(connection.execute(query).fetchall())
    _check_drift(applied, migrations)


def _check_drift(applied: dict[str, list[str] | None], migrations: Sequence[Migration]) -> None:
    """Raise Misconfigured if an applied migration has no file or was changed, or if an older one is missing."""
    files = {migration.version: migration for migration in migrations}
    unknown = [version for version in applied if version not in files]
    if unknown:
        raise Misconfigured(
            f"the database has migrations that this code does not have ({', '.join(unknown)}): "
            "use the code that has them, or another database"
        )
    for version, statements in applied.items():
        # Older releases of the Supabase CLI did not record statements.
        if statements and _normalized("".join(statements)) != _normalized(files[version].sql):
            raise Misconfigured(
                f"{files[version].file} differs from what was applied to this database: restore the file, "
                "and put the changes into a new one"
            )
    newest = max(applied, default="")
    for migration in migrations:
        if migration.version < newest and migration.version not in applied:
            raise Misconfigured(
                f"{migration.file} is not applied, but the newer {files[newest].file} is: "
                "rename the file to a newer version"
            )


def _normalized(sql: str) -> str:
    """Return SQL in a form to compare: the Supabase CLI splits files at their semicolons."""
    return re.sub(r"[\s;]+", "", sql)


def _apply_once(connection: psycopg.Connection, migration: Migration, url: str) -> bool:
    """Apply the migration if it is missing; return whether it was applied."""
    query = "select 1 from supabase_migrations.schema_migrations where version = %s"
    record = "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)"
    with _locked(connection):
        if connection.execute(query, [migration.version]).fetchone():
            return False
        connection.execute("reset all")  # undo session settings of the previous file
        if migration.is_outside:
            connection.execute("set local idle_in_transaction_session_timeout = 0")  # and its snapshot is gone
            with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as other:
                _execute(other, migration)
                other.execute("reset all")  # a pooler gives the session to others
        else:
            _execute(connection, migration)
        connection.execute(record, [migration.version, [migration.sql], migration.name])
    return True


def _execute(connection: psycopg.Connection, migration: Migration) -> None:
    """Execute a migration, without parameters. Raise Refused if the server refuses it."""
    for statement in migration.statements:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            if connection.broken:
                raise
            raise Refused(_explain(error, migration, statement), sqlstate=error.sqlstate or "") from None


@contextmanager
def _locked(connection: psycopg.Connection) -> Iterator[None]:
    """Begin a transaction in which no other process applies migrations, asking now and then until none does.

    To wait within a transaction would be to wait forever: an index that is built concurrently waits for its snapshot.
    """
    while True:
        with connection.transaction():
            if connection.execute("select pg_try_advisory_xact_lock(%s)", [_LOCK]).fetchone() == (True,):
                yield
                return
        time.sleep(_LOCK_SECONDS)


def _explain(error: psycopg.Error, migration: Migration, statement: str) -> str:
    """Return the file, the line if known, the database's messages, and whether to try again."""
    diagnostics = error.diag
    position = int(diagnostics.statement_position or 0)
    start = migration.sql.index(statement)
    line = f", line {migration.sql.count(chr(10), 0, start + position) + 1}" if position else ""
    left = "the next try begins it anew" if migration.is_outside else "nothing of it was applied"
    parts = [
        diagnostics.message_primary or str(error),
        diagnostics.message_detail,
        diagnostics.message_hint,
        diagnostics.context,
        f"Other sessions were in its way: {left}. Run it again; the doctor's line `transactions` names those that stay."
        if error.sqlstate in _HELD
        else None,
    ]
    return f"{migration.file}{line}: " + "\n  ".join(part for part in parts if part)


def _translated(error: psycopg.Error, url: str) -> StoreError:
    message = words_of(error, url)
    if isinstance(error, psycopg.OperationalError) or error.sqlstate is None:
        return Unavailable(message)
    return Misconfigured(message)


def place(url: str) -> str:
    """Return the database of a URL and its host, without user and password."""
    return DatabaseUrl(url, environment="development").place


def main() -> int:
    """Run the command and return its exit code."""
    from dev.postgres import given_url  # requires a development package; the rest of this file does not

    try:
        url = given_url()
        if url is None:
            print(
                "DATABASE_URL is not set: set it to the database to migrate, like postgresql://user:password@host:5432/"
                "database (make dev migrates its own)",
                file=sys.stderr,
            )
            return 2
        print(f"migrating the {place(url)}", flush=True)
        applied = migrate(url)
    except Unavailable as error:
        print(f"Cannot use the database: {error}", file=sys.stderr)
        return 2
    except StoreError as error:
        print(f"Not migrated: {error}", file=sys.stderr)
        return 1
    for file in applied:
        print(f"applied {file}")
    if not applied:
        print("nothing to do")
    return 0


if __name__ == "__main__":
    sys.exit(main())
