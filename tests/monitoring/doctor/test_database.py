"""What is wrong with the database: each broken for real."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from dev import ROOT
from dev.postgres import Embedded
from lib.errors import Misconfigured, StoreError, Unavailable
from lib.monitoring.doctor import database, examine
from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.postgrest.roles import make_like_supabase
from tests.support.world import World, a_world

Make = Callable[..., World]
GRANTS = "supabase/schemas/90_grants.sql"


# Away

WITHOUT_DATABASE = "secrets variables vendors mail time transport pooler database keys stages cron".split()


def away(world: World, examined: Examine, message: str) -> dict[str, Any]:
    """The red line of a database that cannot be asked; the other lines need none and are green."""
    lines = examined(world)
    assert list(lines) == WITHOUT_DATABASE
    assert levels(lines) == {"database": "red"}
    assert message in lines["database"]["message"]
    return lines["database"]


def test_a_database_that_cannot_be_reached_is_one_red_line(make_world: Make, examined: Examine) -> None:
    line = away(make_world(DATABASE_URL="postgresql://kate:sesame@127.0.0.1:1/x"), examined, "cannot be reached")
    assert line["fix"] == "check DATABASE_URL and that the database is up: psql \"$DATABASE_URL\" -c 'select 1'"
    assert "sesame" not in str(line)


def test_no_database_at_all_is_one_red_line(make_world: Make, examined: Examine) -> None:
    away(make_world(DATABASE_URL=None), examined, "no database: set DATABASE_URL")


def test_a_supabase_that_cannot_be_reached_is_one_red_line(make_world: Make, examined: Examine) -> None:
    supabase = {"SUPABASE_URL": "http://127.0.0.1:1", "SUPABASE_SECRET_KEY": "sb_secret_sesame"}
    line = away(make_world(**supabase), examined, "Supabase cannot be reached")
    assert line["fix"].startswith("check SUPABASE_URL")
    assert "sesame" not in str(line)


def test_an_empty_database_has_had_no_migrations(make_world: Make, examined: Examine, empty_database_url: str) -> None:
    away(make_world(DATABASE_URL=empty_database_url), examined, "run the migrations (make migrate)")


def test_a_role_that_may_not_call_us_is_told(healthy: World, make_world: Make, examined: Examine) -> None:
    healthy.sql("do $$ begin create role stranger login; exception when duplicate_object then null; end $$")
    away(make_world(DATABASE_URL=healthy.url.replace("postgres@", "stranger@")), examined, "check the role")


@pytest.mark.parametrize("failure", [Unavailable("it is away"), Misconfigured("it does not fit")])
def test_a_failure_that_is_known_is_not_asked_for_again(healthy: World, examined: Examine, failure: StoreError) -> None:
    lines = examined(healthy, failure=failure)
    assert lines["database"]["message"].endswith(f": {failure}")
    assert list(lines) == WITHOUT_DATABASE


# The schema


def says(world: World, **version: int) -> None:
    """Lets the schema say another version of itself."""
    statement = "create or replace function giftcard_schema_version() returns jsonb language sql as $$ select {} $$"
    values = ", ".join(f"'{name}', {value}" for name, value in version.items())
    world.sql(statement.format(f"jsonb_build_object({values})"))


@pytest.fixture
def code_7(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of version 7, which has all it calls from schema 5 on."""
    monkeypatch.setattr(database, "CODE_VERSION", 7)
    monkeypatch.setattr(database, "OLDEST_SCHEMA", 5)


@pytest.mark.parametrize(
    ("version", "oldest_code", "level", "fix"),
    [
        (4, 1, "red", "run the migrations"),
        (5, 1, "yellow", "run the migrations"),
        (6, 5, "yellow", "run the migrations"),
        (7, 7, "green", ""),
        (8, 7, "yellow", "deploy the code that the migrations came with"),
        (9, 8, "red", "deploy newer code"),
    ],
)
def test_the_side_to_upgrade_is_told(
    code_7: None, healthy: World, examined: Examine, version: int, oldest_code: int, level: str, fix: str
) -> None:
    says(healthy, version=version, oldest_code=oldest_code)
    line = examined(healthy)["schema"]
    assert line["level"] == level
    assert line["fix"].startswith(fix)


def test_code_that_the_schema_does_not_serve_claims_nothing(healthy: World, examined: Examine) -> None:
    healthy.enqueue("email")
    says(healthy, version=99, oldest_code=99)
    assert "no job is claimed" in examined(healthy)["schema"]["message"]
    with pytest.raises(Misconfigured, match="deploy newer code"):
        healthy.run()
    assert healthy.statuses() == {"queued": 1}


# Grants


@pytest.fixture
def guarded(healthy: World) -> World:
    """Where Supabase's roles are."""
    make_like_supabase(healthy.url)
    return healthy


def restore_grants(world: World) -> None:
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute((ROOT / GRANTS).read_bytes())


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("grant select on giftcard_jobs to anon", "table giftcard_jobs to anon"),
        ("grant truncate on giftcard_jobs to authenticated", "table giftcard_jobs to authenticated"),
        ("grant update (payload) on giftcard_jobs to authenticated", "table giftcard_jobs to authenticated"),
        ("grant select on giftcard_cards to public", "table giftcard_cards to public"),
        ("grant usage on sequence giftcard_ticks_id_seq to anon", "sequence giftcard_ticks_id_seq to anon"),
        ("grant execute on function giftcard_status to anon", "function giftcard_status to anon"),
        ("alter table giftcard_cards disable row level security", "table giftcard_cards to every role with a grant"),
    ],
)
def test_excess_privileges_are_red_and_the_fix_revokes_them(
    guarded: World, examined: Examine, statement: str, what: str
) -> None:
    guarded.sql(statement)
    line = examined(guarded)["grants"]
    assert line["level"] == "red"
    assert what in line["message"]
    assert f"-f {GRANTS}" in line["fix"]
    restore_grants(guarded)
    assert examined(guarded)["grants"]["level"] == "green"


def test_many_excess_privileges_are_still_one_line(guarded: World, examined: Examine) -> None:
    guarded.sql("grant select on all tables in schema public to anon")
    assert examined(guarded)["grants"]["message"].count("giftcard_") == 3


# Clocks


@pytest.mark.parametrize(("apart", "level"), [(0, "green"), (20, "yellow"), (-20, "yellow"), (7200, "red")])
def test_clocks_that_differ_are_told(
    healthy: World, examined: Examine, monkeypatch: pytest.MonkeyPatch, apart: float, level: str
) -> None:
    clock = SimpleNamespace(time=lambda: time.time() + apart, monotonic=time.monotonic)
    monkeypatch.setattr(examine, "time", clock)
    line = examined(healthy)["clocks"]
    assert line["level"] == level
    assert (f"{abs(apart)} s apart" in line["message"]) is (level == "yellow")


# Transactions and dead rows


@pytest.fixture
def held(healthy: World) -> Iterator[psycopg.Connection[Any]]:
    """Somebody's transaction, which they have forgotten."""
    with psycopg.connect(healthy.url, application_name="a forgotten console") as connection:
        connection.execute("select count(*) from giftcard_jobs")
        yield connection


@pytest.mark.parametrize(("later", "level"), [(240, "green"), (400, "yellow"), (4000, "red")])
def test_a_transaction_held_open_is_told(
    healthy: World, held: psycopg.Connection[Any], examined: Examine, later: float, level: str
) -> None:
    line = examined(healthy, later=later)["transactions"]
    assert line["level"] == level
    assert ("(a forgotten console)" in line["message"]) is (level != "green")


def test_what_the_line_says_ends_the_transaction(
    healthy: World, held: psycopg.Connection[Any], examined: Examine
) -> None:
    line = examined(healthy, later=400)["transactions"]
    healthy.sql(line["fix"].removeprefix("end it: "))
    with pytest.raises(psycopg.errors.AdminShutdown):
        held.execute("select 1")
    assert examined(healthy, later=400)["transactions"]["level"] == "green"


@pytest.fixture
def clerk(guarded: World) -> Iterator[World]:
    """The application with the service role's rights and no more."""
    restore_grants(guarded)
    guarded.sql("drop role if exists clerk")
    guarded.sql("create role clerk login bypassrls in role service_role")
    with a_world(guarded.url.replace("postgres@", "clerk@")) as world:
        yield world


def test_a_role_that_may_not_see_others_says_so(clerk: World, held: psycopg.Connection[Any], examined: Examine) -> None:
    line = examined(clerk, later=400)["transactions"]
    assert (line["level"], line["message"]) == ("green", "no transaction is held open, as far as this role can see")


def test_a_role_that_sees_no_row_is_red(guarded: World, clerk: World, examined: Examine) -> None:
    guarded.sql("alter role clerk nobypassrls")
    line = examined(clerk)["grants"]
    assert (line["level"], line["message"][:33]) == ("red", "row level security hides every ro")


def test_the_service_role_may_ask_all_of_it(clerk: World, examined: Examine) -> None:
    assert set(levels(examined(clerk))) == {"stages"}, "it has no folder for mails"


@pytest.mark.slow
def test_dead_rows_that_no_vacuum_takes_away_are_told(healthy: World, postgres: Embedded, examined: Examine) -> None:
    healthy.sql("alter table giftcard_jobs set (autovacuum_enabled = off)")
    make = "insert into giftcard_jobs (correlation_id, stage) select n::text, 'email' from generate_series(1, 50001) n"
    healthy.sql(make)
    healthy.sql("delete from giftcard_jobs where stage = 'email'")
    healthy.sql("select pg_stat_force_next_flush()")
    assert examined(healthy)["vacuum"]["message"] == "giftcard_jobs has 50,001 dead rows: vacuum does not keep up"
    healthy.sql("vacuum analyze public.giftcard_jobs")
    assert examined(healthy)["vacuum"]["message"] == "giftcard_jobs has 0 dead rows"
