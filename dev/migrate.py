"""Apply supabase/migrations to a database, each file once.

    DATABASE_URL=postgresql://… python -m dev.migrate

Applied migrations are recorded in the Supabase CLI's table, so that the CLI can apply the next one, too.
Exit codes: 0 done, 1 a migration failed or the database has others, 2 DATABASE_URL is not set, or cannot be used.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from dev import ROOT
from lib.config.database_url import DatabaseUrl
from lib.errors import Misconfigured, Refused, StoreError, Unavailable
from lib.store.libpq import words_of

# Any number shared by all processes; this one spells "migrate".
_LOCK = int.from_bytes(b"migrate")

# The table of the Supabase CLI, created in the same steps as by the CLI.
_LEDGER = """
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A file `<version>_<name>.sql`; the version is a UTC time of 14 digits."""

    version: str
    name: str
    sql: str

    @property
    def file(self) -> str:
        return f"{self.version}_{self.name}.sql"


def migrate(url: str, *, directory: Path = ROOT / "supabase/migrations") -> list[str]:
    """Apply the missing migrations in order, each in its own transaction, and return their file names.

    Several processes may run at once: each file is applied by one of them while the others wait. The lock belongs to
    the transaction, because a session lock does not work with a transaction pooler.
    Raise Refused if a migration fails (it is rolled back), Misconfigured if files and database differ (see
    `_check_drift`), Unavailable if the database cannot be reached.
    """
    migrations = read_migrations(directory)
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            _prepare(connection, migrations)
            return [migration.file for migration in migrations if _apply_once(connection, migration)]
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
        migrations.append(Migration(version=match[1], name=match[2], sql=path.read_text(encoding="utf-8")))
    if not migrations:
        raise Misconfigured(f"there are no migrations in {directory}")
    return migrations


def _prepare(connection: psycopg.Connection, migrations: Sequence[Migration]) -> None:
    """Create the ledger if it is missing, and check that the database's history matches the folder."""
    with connection.transaction():
        _lock(connection)
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


def _apply_once(connection: psycopg.Connection, migration: Migration) -> bool:
    """Apply the migration if it is missing; return whether it was applied."""
    query = "select 1 from supabase_migrations.schema_migrations where version = %s"
    record = "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)"
    with connection.transaction():
        _lock(connection)
        if connection.execute(query, [migration.version]).fetchone():
            return False
        connection.execute("reset all")  # undo session settings of the previous file
        try:
            connection.execute(migration.sql.encode())  # without parameters: the whole file in one message
        except psycopg.Error as error:
            if connection.broken:
                raise
            raise Refused(_explain(error, migration), sqlstate=error.sqlstate or "") from None
        connection.execute(record, [migration.version, [migration.sql], migration.name])
    return True


def _lock(connection: psycopg.Connection) -> None:
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])


def _explain(error: psycopg.Error, migration: Migration) -> str:
    """Return the file, the line if known, and the database's messages."""
    diagnostics = error.diag
    position = int(diagnostics.statement_position or 0)
    line = f", line {migration.sql.count(chr(10), 0, position) + 1}" if position else ""
    parts = [
        diagnostics.message_primary or str(error),
        diagnostics.message_detail,
        diagnostics.message_hint,
        diagnostics.context,
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
