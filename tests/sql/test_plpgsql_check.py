"""plpgsql_check, a linter inside Postgres, reads every function of ours that is written in PL/pgSQL: all its warnings.

It runs on Debian's PostgreSQL: the embedded one does not have it. What the functions call is there too, as
stand-ins or as the extension's own SQL: pg_cron, pg_net, Vault, pgmq. Functions in SQL are not read by it: Postgres
itself checks those when they are created.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

from dev import ROOT
from dev.migrate import migrate
from tests.sql.supabase_cron.debian import installed_with, server
from tests.support.factory import World
from tests.support.optional import lacks
from tests.support.queues import Queues

pytestmark = pytest.mark.slow


class Exempt(NamedTuple):
    """A warning that stays: both patterns must match in full."""

    function: str
    text: str
    reason: str


EXEMPT = [
    Exempt(
        "giftcard_(scan_queues|pick_jobs|pick_oldest|pick_allowed|pick_by_tenant)",
        "routine is marked as VOLATILE, should be STABLE",
        "it locks the rows that it finds (for update skip locked), which Postgres allows in a volatile function only",
    ),
    Exempt(
        "giftcard_refuse",
        "routine is marked as VOLATILE, should be IMMUTABLE",
        "it raises: Postgres may call an immutable function while it plans a statement, before anything is wrong",
    ),
    Exempt(
        "giftcard_disk_is_full",
        "routine is marked as VOLATILE, should be IMMUTABLE",
        "it tries the disk, which the check does not see",
    ),
]


class Warned(NamedTuple):
    """One warning. `text` is the message, with what the check says besides."""

    function: str
    where: str
    text: str


# The trigger functions are read once for each table that they serve.
_WARNINGS = """
    select p.proname, w.lineno, w.statement, w.message, w.detail, w.context
      from pg_proc p
      join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
      left join (select distinct tgfoid, tgrelid from pg_trigger where not tgisinternal) t on t.tgfoid = p.oid
     cross join lateral extensions.plpgsql_check_function_tb(
             p.oid::regprocedure, coalesce(t.tgrelid, 0)::regclass, fatal_errors => false, all_warnings => true) w
     where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\\_%'
     order by p.proname, w.lineno nulls first, w.message, w.detail
"""


def _warnings(world: World) -> list[Warned]:
    return [
        Warned(
            row["proname"],
            f"line {row['lineno']} ({row['statement']})" if row["lineno"] else "the whole",
            ": ".join(part for part in (row["message"], row["detail"], row["context"]) if part),
        )
        for row in world.rows(_WARNINGS)
    ]


def _covers(exempt: Exempt, warned: Warned) -> bool:
    return bool(re.fullmatch(exempt.function, warned.function) and re.fullmatch(exempt.text, warned.text))


@pytest.fixture(scope="module")
def database() -> Iterator[psycopg.Connection]:
    """A migrated database with the extension, and with all that the functions call."""
    installed = installed_with("plpgsql_check")
    if installed is None:
        lacks("plpgsql_check is not installed (Debian, Ubuntu: apt install postgresql-<version>-plpgsql-check)")
    with server(installed) as url:
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema extensions")
            connection.execute("create extension plpgsql_check schema extensions")
            for name in ("cron.sql", "net_and_vault.sql"):
                connection.execute((ROOT / "tests/sql/supabase_cron" / name).read_bytes())
            Queues(connection)
            yield connection


@pytest.fixture
def world(database: psycopg.Connection) -> Iterator[World]:
    """What a test does is rolled back."""
    with database.transaction(force_rollback=True):
        yield World(database)


def test_there_is_something_to_read(world: World) -> None:
    of_ours = """
        select p.proname, p.prorettype = 'trigger'::regtype as is_trigger
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.proname like 'giftcard\\_%' and l.lanname = 'plpgsql'
    """
    functions = world.rows(of_ours)
    assert len(functions) > 80
    assert [function for function in functions if function["is_trigger"]]


def test_no_function_has_a_warning(world: World) -> None:
    """Except those in EXEMPT."""
    left = [warned for warned in _warnings(world) if not any(_covers(exempt, warned) for exempt in EXEMPT)]
    assert left == [], "\n" + "\n".join(" | ".join(warned) for warned in left)


def test_every_exemption_is_needed(world: World) -> None:
    warnings = _warnings(world)
    assert [exempt for exempt in EXEMPT if not any(_covers(exempt, warned) for warned in warnings)] == []


# What the check says of it, and the function.
MISTAKES = {
    "a variable that is never read": (
        'never read variable "v"',
        "returns bigint stable as $$ declare v bigint; begin v := p_id; return p_id; end $$",
    ),
    "a parameter that is never read": (
        'unused parameter "p_id"',
        "returns integer immutable as $$ begin return 1; end $$",
    ),
    "an end without a return": (
        "control reached end of function without RETURN",
        "returns bigint volatile as $$ begin perform pg_notify('a', p_id::text); end $$",
    ),
    "volatile for no reason": (
        "routine is marked as VOLATILE, should be IMMUTABLE",
        "returns bigint volatile as $$ begin return p_id; end $$",
    ),
    "a write that is declared to be none": (
        "DELETE is not allowed in a non volatile function",
        "returns void stable as $$ begin delete from public.giftcard_jobs where id = p_id; end $$",
    ),
    "a hidden cast": (
        'target type is different type than source type: cast "bigint" value to "integer" type: .*',
        "returns integer immutable as $$ declare v integer; begin v := p_id; return v; end $$",
    ),
    "a statement made of text": (
        "text type variable is not sanitized: .*",
        "returns void volatile as $$ declare v text := (select stage from public.giftcard_jobs where id = p_id);"
        " begin execute 'select ' || v; end $$",
    ),
    "a table that does not exist": (
        'relation "public.giftcard_no_table" does not exist',
        "returns void stable as $$ begin perform from public.giftcard_no_table where id = p_id; end $$",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(world: World, mistake: str) -> None:
    text, function = MISTAKES[mistake]
    world.run(f"create function public.giftcard_mistaken(p_id bigint) {function} language plpgsql")
    found = [warned.text for warned in _warnings(world) if warned.function == "giftcard_mistaken"]
    assert [one for one in found if re.fullmatch(text, one)], found


def test_a_mistake_in_a_trigger_function_is_found_on_the_table_that_it_serves(world: World) -> None:
    world.run(
        "create function public.giftcard_mistaken() returns trigger language plpgsql as"
        " $$ begin new.run_no := 1; return new; end $$"
    )
    for table in ("jobs", "circuits"):
        world.run(
            f"create trigger mistaken before insert on public.giftcard_{table}"
            " for each row execute function public.giftcard_mistaken()"
        )
    found = [warned.text for warned in _warnings(world) if warned.function == "giftcard_mistaken"]
    assert [one.partition(":")[0] for one in found] == ['record "new" has no field "run_no"']
