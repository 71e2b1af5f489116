"""What others lost with their backups, played again: a dump in the middle of work is restored, and the work goes on.

docs/proof.md has the table.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dev.postgres import Embedded, pg_ctl
from tests.support.world import World, an_order

pytestmark = pytest.mark.slow

TABLES = "select tablename as name from pg_tables where tablename like 'giftcard%%' order by 1"


def run(program: str, *arguments: str) -> str:
    """What a program of the server's own version prints."""
    folder: Path = vars(sys.modules[pg_ctl.__module__])["POSTGRES_BIN_PATH"]
    ended = subprocess.run(
        [str(folder / program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def contents(world: World) -> dict[str, list[Any]]:
    """All rows of all tables of ours."""
    everything = {}
    for row in world.sql(TABLES):
        query = sql.SQL("select t::text from {} t order by 1").format(sql.Identifier(row["name"])).as_string()
        everything[row["name"]] = [found["t"] for found in world.sql(query)]
    return everything


def empty(url: str) -> None:
    """Remove what the migrations have filled in."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(TABLES.replace("%%", "%").encode()).fetchall()
        names = [name for (name,) in found if name != "giftcard_audit"]
        connection.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(map(sql.Identifier, names))))
        connection.execute("truncate supabase_migrations.schema_migrations")


@pytest.fixture
def busy(world: World) -> World:
    """Orders at each step: done, under way, waiting, dead; one run was cut off."""
    for n in range(6):
        assert world.submit(an_order(correlation_id=f"order-{n}")).status_code == 202
        world.run(limit=3)
    world.add("email", {"x": "unknown"})
    world.drain()
    for n in range(6, 9):
        assert world.submit(an_order(correlation_id=f"order-{n}")).status_code == 202
    world.run(limit=2)
    world.add("report", status="running", run_no=1, attempts=1, lease_expires_at="2020-01-01T00:00:00Z")
    return world


@pytest.mark.parametrize("kind", ["whole", "data"])
def test_a_restored_dump_is_the_same_and_goes_on(
    busy: World, postgres: Embedded, template: str, tmp_path: Path, kind: str
) -> None:
    """The whole dump into an empty database, or its data alone into a migrated one."""
    file = tmp_path / "dump.sql"
    options = [] if kind == "whole" else ["--data-only", "--disable-triggers"]
    run("pg_dump", busy.url, "--file", str(file), "--no-owner", *options)
    name = f"restored_{kind}"
    url = postgres.create_database(name, template=template) if kind == "data" else postgres.create_database(name)
    if kind == "data":
        empty(url)
    run("psql", url, "--no-psqlrc", "--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1", "--file", str(file))
    with_rows = {table: rows for table, rows in contents(busy).items() if rows}
    assert len(with_rows) >= 10
    restored = World(url, GIFTCARD_MAIL_DIR=tmp_path / "mails")
    try:
        assert {table: rows for table, rows in contents(restored).items() if rows} == with_rows
        restored.drain()
        assert restored.value("select count(*) from giftcard_cards") == 9
        assert restored.statuses().get("running") is None
    finally:
        restored.close()
