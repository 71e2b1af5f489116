"""Migrations: each once, in order, whole or not at all."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from dev import ROOT
from dev.migrate import migrate, place
from lib.errors import Misconfigured, Refused, Unavailable

FIRST = "20260101000000_first.sql"
SECOND = "20260102000000_second.sql"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path, FIRST, "create table fruit (name text primary key);\ninsert into fruit values ('apple');\n")
    write(tmp_path, SECOND, "insert into fruit values ('pear');")
    return tmp_path


def write(directory: Path, name: str, sql: str) -> None:
    (directory / name).write_text(sql, encoding="utf-8")


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def test_each_migration_is_applied_once_and_in_order(empty_database_url: str, directory: Path) -> None:
    assert migrate(empty_database_url, directory=directory) == [FIRST, SECOND]
    write(directory, "20260103000000_third.sql", "insert into fruit values ('plum');")
    assert migrate(empty_database_url, directory=directory) == ["20260103000000_third.sql"]
    assert migrate(empty_database_url, directory=directory) == []
    assert rows(empty_database_url, "select name from fruit") == [("apple",), ("pear",), ("plum",)]


def test_the_ledger_is_the_one_of_the_supabase_cli(empty_database_url: str, directory: Path) -> None:
    migrate(empty_database_url, directory=directory)
    ledger = rows(empty_database_url, "select * from supabase_migrations.schema_migrations order by version")
    assert ledger[1] == ("20260102000000", ["insert into fruit values ('pear');"], "second")


def test_what_the_supabase_cli_applied_is_not_applied_again(empty_database_url: str, directory: Path) -> None:
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("create schema supabase_migrations")
        connection.execute("create table supabase_migrations.schema_migrations (version text primary key, extra int)")
        connection.execute("insert into supabase_migrations.schema_migrations values ('20260101000000')")
        connection.execute("create table fruit (name text)")
    assert migrate(empty_database_url, directory=directory) == [SECOND]


def test_two_at_once_apply_each_migration_once_and_one_waits(empty_database_url: str, directory: Path) -> None:
    write(directory, "20260101000001_gate.sql", "insert into gate default values;")
    waiting = "select wait_event from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with ThreadPoolExecutor() as pool, psycopg.connect(empty_database_url) as holder:
        holder.execute("create table gate ()")
        holder.commit()
        holder.execute("lock table gate")
        both = [pool.submit(migrate, empty_database_url, directory=directory) for _ in range(2)]
        wait_for(lambda: rows(empty_database_url, waiting) == [("relation",)])
        assert not any(one.done() for one in both)
        holder.commit()
        applied = [file for one in both for file in one.result()]
    assert sorted(applied) == [FIRST, "20260101000001_gate.sql", SECOND]
    assert rows(empty_database_url, "select count(*) from fruit") == [(2,)]


def test_a_failing_migration_leaves_nothing_behind(empty_database_url: str, directory: Path) -> None:
    write(directory, SECOND, "create table half (id int);\nselect 1;\ninsert into nowhere values (1);")
    with pytest.raises(Refused) as caught:
        migrate(empty_database_url, directory=directory)
    assert str(caught.value).startswith(f'{SECOND}, line 3: relation "nowhere" does not exist')
    assert caught.value.sqlstate == "42P01"
    assert rows(empty_database_url, "select to_regclass('half')") == [(None,)]
    assert rows(empty_database_url, "select name from supabase_migrations.schema_migrations") == [("first",)]


def test_the_hint_of_a_migration_that_refuses_is_shown(empty_database_url: str, directory: Path) -> None:
    write(directory, SECOND, "do $$ begin raise 'not here' using hint = 'rename the table first'; end $$")
    with pytest.raises(Refused, match=r"not here\n  rename the table first"):
        migrate(empty_database_url, directory=directory)


def test_a_setting_made_by_one_migration_does_not_reach_the_next(empty_database_url: str, directory: Path) -> None:
    write(directory, FIRST, "create table public.fruit (name text); set search_path = '';")
    assert migrate(empty_database_url, directory=directory) == [FIRST, SECOND]


def test_a_database_that_is_ahead_is_refused(empty_database_url: str, directory: Path) -> None:
    migrate(empty_database_url, directory=directory)
    (directory / SECOND).unlink()
    with pytest.raises(Misconfigured, match="migrations that this code does not have \\(20260102000000\\)"):
        migrate(empty_database_url, directory=directory)


def test_a_file_that_was_changed_after_it_was_applied_is_refused(empty_database_url: str, directory: Path) -> None:
    migrate(empty_database_url, directory=directory)
    write(directory, SECOND, "insert into fruit values ('pineapple');")
    write(directory, "20260103000000_third.sql", "insert into fruit values ('plum');")
    with pytest.raises(Misconfigured, match=f"^{SECOND} differs from what was applied to this database: restore"):
        migrate(empty_database_url, directory=directory)
    assert rows(empty_database_url, "select name from fruit") == [("apple",), ("pear",)]


def test_another_layout_of_the_same_statements_is_no_change(empty_database_url: str, directory: Path) -> None:
    migrate(empty_database_url, directory=directory)
    write(directory, SECOND, "\r\ninsert into fruit\r\n  values ('pear')\r\n;\r\n")
    assert migrate(empty_database_url, directory=directory) == []


def test_what_the_supabase_cli_took_apart_is_known_again(empty_database_url: str, directory: Path) -> None:
    """It writes each statement down by itself, without its semicolon."""
    migrate(empty_database_url, directory=directory)
    apart = "array['create table fruit (name text primary key)', 'insert into fruit values (''apple'')']"
    with psycopg.connect(empty_database_url) as connection:
        update = f"update supabase_migrations.schema_migrations set statements = {apart} where version = %s"
        connection.execute(update.encode(), [FIRST[:14]])
    assert migrate(empty_database_url, directory=directory) == []


@pytest.mark.parametrize("version", ["20251231000000", "20260101120000"])
def test_a_file_older_than_the_newest_applied_is_refused(
    empty_database_url: str, directory: Path, version: str
) -> None:
    migrate(empty_database_url, directory=directory)
    late = f"{version}_late.sql"
    write(directory, late, "insert into fruit values ('plum');")
    with pytest.raises(Misconfigured, match=f"^{late} is not applied, but the newer {SECOND} is"):
        migrate(empty_database_url, directory=directory)
    assert rows(empty_database_url, "select count(*) from fruit") == [(2,)]


def test_the_migration_makes_postgrest_reload_the_schema(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as listener:
        listener.execute("listen pgrst")
        migrate(empty_database_url)
        (notification,) = listener.notifies(timeout=5, stop_after=1)
        assert notification.payload == "reload schema"


@pytest.mark.parametrize("name", ["first.sql", "2026_first.sql", "20260101000000_twice.sql"])
def test_a_file_that_would_be_passed_over_is_refused(empty_database_url: str, directory: Path, name: str) -> None:
    write(directory, name, "select 1")
    with pytest.raises(Misconfigured, match=r"\.sql"):
        migrate(empty_database_url, directory=directory)


def test_a_server_lost_in_the_middle_is_unavailable(empty_database_url: str, directory: Path) -> None:
    write(directory, SECOND, "select pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(Unavailable):
        migrate(empty_database_url, directory=directory)
    write(directory, SECOND, "insert into fruit values ('pear');")
    assert migrate(empty_database_url, directory=directory) == [SECOND]


def command(url: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DATABASE_URL": url}
    return subprocess.run(
        [sys.executable, "-m", "dev.migrate"], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_command_names_what_it_applied(empty_database_url: str) -> None:
    first, second = command(empty_database_url), command(empty_database_url)
    assert (first.returncode, first.stderr) == (0, "")
    where, *applied = first.stdout.splitlines()
    assert where == f"migrating the {place(empty_database_url)}"
    assert applied
    assert all(line.startswith("applied 20") for line in applied)
    assert (second.returncode, second.stdout) == (0, f"{where}\nnothing to do\n")


@pytest.mark.parametrize("url", ["", " ", '""\n'])
def test_without_a_database_nothing_is_migrated(url: str) -> None:
    ended = command(url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("DATABASE_URL is not set: set it to the database to migrate, like postgresql://")
    assert ended.stderr.count("\n") == 1


def test_database_is_named_without_user_and_password() -> None:
    for url, name in (
        ("postgresql://kate:sesame@db.example.com:6543/shop?sslmode=require", "database shop on db.example.com"),
        ("postgresql://kate:sesame@db.example.com", "database kate on db.example.com"),
        ("postgresql:///?host=%2Frun%2Fpg&dbname=gift%20cards", "database gift cards on /run/pg"),
        ("postgresql:///shop", "database shop on this machine"),
    ):
        assert place(url) == name


@pytest.mark.parametrize(
    "url", ["postgresql://kate:sesame@127.0.0.1:1/x", "postgres//kate:sesame@host", "postgresql://kate:sesame@h:port/x"]
)
def test_an_unusable_address_is_one_sentence_without_its_password(url: str) -> None:
    ended = command(url)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "sesame" not in ended.stderr
