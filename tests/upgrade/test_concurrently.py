"""What cannot run in a transaction is applied outside of one: once, and anew after a failure."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from dev.migrate import migrate
from lib.errors import Misconfigured, Refused
from tests.crash.processes import wait_for

FIRST = "20260101000000_first.sql"
INDEX = "20260102000000_index.sql"
INDEX_SQL = """-- squawk-disable-assume-in-transaction
-- A first try may have left an invalid index.
set lock_timeout = '30s';
drop index concurrently if exists public.fruit_name;
create unique index concurrently fruit_name on public.fruit (name);
"""
VALID = "select indisvalid from pg_index where indexrelid = to_regclass('public.fruit_name')"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / FIRST).write_text("create table public.fruit (name text); insert into public.fruit values ('apple');")
    (tmp_path / INDEX).write_text(INDEX_SQL)
    return tmp_path


@pytest.fixture
def rows(empty_database_url: str) -> Callable[[str], list[tuple[object, ...]]]:
    def run(query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    return run


Rows = Callable[[str], list[tuple[object, ...]]]


def test_an_index_is_built_concurrently_and_recorded(empty_database_url: str, directory: Path, rows: Rows) -> None:
    assert migrate(empty_database_url, directory=directory) == [FIRST, INDEX]
    assert rows(VALID) == [(True,)]
    assert migrate(empty_database_url, directory=directory) == []


def test_writes_go_on_while_it_is_built_and_another_migrator_waits(
    empty_database_url: str, directory: Path, rows: Rows
) -> None:
    (directory / INDEX).rename(directory / "later")
    migrate(empty_database_url, directory=directory)
    (directory / "later").rename(directory / INDEX)
    waiting = "select wait_event from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with ThreadPoolExecutor() as pool, psycopg.connect(empty_database_url) as writer:
        writer.execute("insert into public.fruit values ('pear')")
        both = [pool.submit(migrate, empty_database_url, directory=directory) for _ in range(2)]
        wait_for(
            lambda: sorted(rows(waiting)) == [("virtualxid",)],
            seconds=20,
            what="one waits for the other",
        )
        rows("insert into public.fruit values ('plum')")
        writer.commit()
        assert sorted(file for one in both for file in one.result()) == [INDEX]
    assert rows(VALID) == [(True,)]
    assert rows("select count(*) from public.fruit") == [(3,)]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_index_is_built_where_transactions_are_isolated_more_by_default(
    empty_database_url: str, directory: Path, rows: Rows, isolation: str
) -> None:
    rows(
        "do $$ begin execute format('alter database %I set default_transaction_isolation = %L', current_database(), "
        f"'{isolation}'); end $$"
    )
    (directory / INDEX).write_text(INDEX_SQL.replace("set lock_timeout", "set statement_timeout"))
    assert migrate(empty_database_url, directory=directory) == [FIRST, INDEX]
    assert rows(VALID) == [(True,)]


def test_an_index_that_failed_is_not_recorded_and_is_built_anew(
    empty_database_url: str, directory: Path, rows: Rows
) -> None:
    (directory / FIRST).write_text("create table public.fruit as select 'apple' as name from generate_series(1, 2);")
    with pytest.raises(Refused, match=f"^{INDEX}: could not create unique index"):
        migrate(empty_database_url, directory=directory)
    assert rows(VALID) == [(False,)], "what a failed build leaves behind"
    rows("delete from public.fruit where ctid = (select min(ctid) from public.fruit)")
    assert migrate(empty_database_url, directory=directory) == [INDEX]
    assert rows(VALID) == [(True,)]


def test_a_mistake_is_found_in_its_line(empty_database_url: str, directory: Path) -> None:
    (directory / INDEX).write_text(INDEX_SQL.replace("unique index", "unique indes"))
    with pytest.raises(Refused, match=f'^{INDEX}, line 5: syntax error at or near "indes"'):
        migrate(empty_database_url, directory=directory)


def test_functions_belong_into_another_file(empty_database_url: str, directory: Path) -> None:
    (directory / INDEX).write_text(INDEX_SQL + "create function public.one() returns int language sql as $$select 1$$;")
    with pytest.raises(Misconfigured, match=f"^{INDEX} is applied outside a transaction: put functions into another"):
        migrate(empty_database_url, directory=directory)


def test_a_lock_that_another_session_holds_ends_the_migration_and_it_can_be_run_again(
    empty_database_url: str, directory: Path, rows: Rows
) -> None:
    (directory / INDEX).write_text("set local lock_timeout = '100ms'; alter table public.fruit add column note text;")
    with psycopg.connect(empty_database_url) as holder:
        (directory / INDEX).rename(directory / "later")
        migrate(empty_database_url, directory=directory)
        (directory / "later").rename(directory / INDEX)
        holder.execute("select * from public.fruit")
        with pytest.raises(Refused, match=r"lock timeout\n  Other sessions were in its way: nothing of it was applied"):
            migrate(empty_database_url, directory=directory)
    assert migrate(empty_database_url, directory=directory) == [INDEX]
    assert rows("select note from public.fruit") == [(None,)]
