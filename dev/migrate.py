"""Applies supabase/migrations to a database, each file once.

    DATABASE_URL=postgresql://… python -m dev.migrate       (without one: the embedded Postgres in .local/)

What was applied is written where the Supabase CLI looks for it, so either may push the next migration.
Exit codes: 0 done, 1 a migration failed or the database has others, 2 the database cannot be reached.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from dev import ROOT
from lib.errors import Misconfigured, Refused, StoreError, Unavailable

# Any number serves as long as all agree; this one spells "migrate".
_LOCK = int.from_bytes(b"migrate")

# The table of the Supabase CLI, in the steps in which the CLI itself makes it.
_LEDGER = """
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text not null primary key);
alter table supabase_migrations.schema_migrations add column if not exists statements text[];
alter table supabase_migrations.schema_migrations add column if not exists name text;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file, `<version>_<name>.sql`; the version is 14 digits, a time in UTC."""

    version: str
    name: str
    sql: str

    @property
    def file(self) -> str:
        return f"{self.version}_{self.name}.sql"


def migrate(url: str, *, directory: Path = ROOT / "supabase/migrations") -> list[str]:
    """Applies what is missing, in order, each file in a transaction of its own; answers the files it applied.

    Several may run at once: each file is applied by one of them while the others wait. The lock lasts as long as
    the transaction, because a lock of the session would not survive a transaction pooler.
    Raises Refused if a migration fails (it then leaves nothing behind), Misconfigured if files or database are not
    as expected (see `_refuse_drift`), Unavailable if the database cannot be reached.
    """
    migrations = read_migrations(directory)
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10, prepare_threshold=None) as connection:
            _prepare(connection, migrations)
            return [migration.file for migration in migrations if _apply_once(connection, migration)]
    except psycopg.Error as error:
        raise _translated(error) from None  # the original may repeat the address with its password


def read_migrations(directory: Path) -> list[Migration]:
    """The migrations of a folder in order. Raises Misconfigured if a file's name is not as it should be."""
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
    """Makes the ledger if it is missing, and refuses a database whose history is not that of the folder."""
    with connection.transaction():
        _lock(connection)
        connection.execute("set local client_min_messages = warning")  # no notice of what exists already
        connection.execute(_LEDGER)
        query = "select version, statements from supabase_migrations.schema_migrations order by version"
        applied: dict[str, list[str] | None] = dict(connection.execute(query).fetchall())
    _refuse_drift(applied, migrations)


def _refuse_drift(applied: dict[str, list[str] | None], migrations: Sequence[Migration]) -> None:
    """Raises Misconfigured if files and database tell of different pasts: what the database has had and the files have
    not; a file that was changed after it was applied; a file that was passed over."""
    files = {migration.version: migration for migration in migrations}
    strangers = [version for version in applied if version not in files]
    if strangers:
        raise Misconfigured(
            f"the database has had migrations that this code does not have ({', '.join(strangers)}): "
            "use the code that made them, or another database"
        )
    for version, statements in applied.items():
        # Older releases of the Supabase CLI wrote no statements down.
        if statements and _essence("".join(statements)) != _essence(files[version].sql):
            raise Misconfigured(
                f"{files[version].file} is not what was applied to this database: put the file back as it was, "
                "and write what is new into a file of its own"
            )
    newest = max(applied, default="")
    for migration in migrations:
        if migration.version < newest and migration.version not in applied:
            raise Misconfigured(
                f"{migration.file} was never applied, and {files[newest].file}, which is newer, was: "
                "give the file a newer version by its name"
            )


def _essence(sql: str) -> str:
    """What two ways of writing the same down agree in: the Supabase CLI takes a file apart at its semicolons."""
    return re.sub(r"[\s;]+", "", sql)


def _apply_once(connection: psycopg.Connection, migration: Migration) -> bool:
    """Applies the migration unless it was applied before; answers whether it did."""
    query = "select 1 from supabase_migrations.schema_migrations where version = %s"
    record = "insert into supabase_migrations.schema_migrations (version, statements, name) values (%s, %s, %s)"
    with connection.transaction():
        _lock(connection)
        if connection.execute(query, [migration.version]).fetchone():
            return False
        connection.execute("reset all")  # what the file before this one has set for its session
        try:
            connection.execute(migration.sql.encode())  # without parameters: the whole file in one message
        except psycopg.Error as error:
            if connection.broken:
                raise
            raise Refused(_explain(error, migration), sqlstate=error.sqlstate or "") from error
        connection.execute(record, [migration.version, [migration.sql], migration.name])
    return True


def _lock(connection: psycopg.Connection) -> None:
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])


def _explain(error: psycopg.Error, migration: Migration) -> str:
    """File, line if the database tells one, and all it says."""
    said = error.diag
    position = int(said.statement_position or 0)
    line = f", line {migration.sql.count(chr(10), 0, position) + 1}" if position else ""
    parts = [said.message_primary or str(error), said.message_detail, said.message_hint, said.context]
    return f"{migration.file}{line}: " + "\n  ".join(part for part in parts if part)


def _translated(error: psycopg.Error) -> StoreError:
    said = " ".join(str(error).split())
    if isinstance(error, psycopg.OperationalError):
        return Unavailable(said)
    if error.sqlstate is None:
        return Unavailable("its address is not like postgresql://user:password@host:5432/database")
    return Misconfigured(said)


def main() -> int:
    """The command; see the module."""
    from dev.postgres import database  # needs a package that only developers have; the rest of this file does not

    try:
        with database() as url:
            applied = migrate(url)
    except Unavailable as error:
        print(f"The database cannot be used: {error}", file=sys.stderr)
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
