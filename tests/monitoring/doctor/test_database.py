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
DOORS = "supabase/schemas/90_grants.sql"


# Away

WITHOUT_DATABASE = ["secrets", "variables", "time", "pooler", "database", "keys", "stages", "cron"]


def away(world: World, look: Examine, says: str) -> dict[str, Any]:
    """The red line of a database that cannot be asked; the other lines need none and are green."""
    lines = look(world)
    assert list(lines) == WITHOUT_DATABASE
    assert levels(lines) == {"database": "red"}
    assert says in lines["database"]["says"]
    return lines["database"]


@pytest.mark.parametrize("url", ["postgresql://kate:sesame@127.0.0.1:1/x", "postgresql://kate:sesame@127.0.0.1/x?a=b"])
def test_a_database_that_cannot_be_reached_is_one_red_line(make_world: Make, look: Examine, url: str) -> None:
    line = away(make_world(DATABASE_URL=url), look, "cannot be reached")
    assert line["mend"] == "is DATABASE_URL right, and the database up? psql \"$DATABASE_URL\" -c 'select 1'"
    assert "sesame" not in str(line)


def test_no_database_at_all_is_one_red_line(make_world: Make, look: Examine) -> None:
    away(make_world(DATABASE_URL=None), look, "no database: set DATABASE_URL")


def test_a_supabase_that_cannot_be_reached_is_one_red_line(make_world: Make, look: Examine) -> None:
    supabase = {"SUPABASE_URL": "http://127.0.0.1:1", "SUPABASE_SECRET_KEY": "sb_secret_sesame"}
    line = away(make_world(**supabase), look, "Supabase cannot be reached")
    assert line["mend"].startswith("is SUPABASE_URL right")
    assert "sesame" not in str(line)


def test_an_empty_database_has_had_no_migrations(make_world: Make, look: Examine, empty_database_url: str) -> None:
    away(make_world(DATABASE_URL=empty_database_url), look, "run the migrations (make migrate)")


def test_a_role_that_may_not_call_us_is_told(healthy: World, make_world: Make, look: Examine) -> None:
    healthy.sql("do $$ begin create role stranger login; exception when duplicate_object then null; end $$")
    away(make_world(DATABASE_URL=healthy.url.replace("postgres@", "stranger@")), look, "check the role")


@pytest.mark.parametrize("failure", [Unavailable("it is away"), Misconfigured("it does not fit")])
def test_a_failure_that_is_known_is_not_asked_for_again(healthy: World, look: Examine, failure: StoreError) -> None:
    lines = look(healthy, failure=failure)
    assert lines["database"]["says"] == str(failure)
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
    ("version", "oldest_code", "level", "mend"),
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
    code_7: None, healthy: World, look: Examine, version: int, oldest_code: int, level: str, mend: str
) -> None:
    says(healthy, version=version, oldest_code=oldest_code)
    line = look(healthy)["schema"]
    assert line["level"] == level
    assert line["mend"].startswith(mend)


def test_code_that_the_schema_does_not_serve_claims_nothing(healthy: World, look: Examine) -> None:
    healthy.enqueue("email")
    says(healthy, version=99, oldest_code=99)
    assert "no job is claimed" in look(healthy)["schema"]["says"]
    with pytest.raises(Misconfigured, match="deploy newer code"):
        healthy.run()
    assert healthy.statuses() == {"queued": 1}


# Grants


@pytest.fixture
def guarded(healthy: World) -> World:
    """Where Supabase's roles are."""
    make_like_supabase(healthy.url)
    return healthy


def shut_doors(world: World) -> None:
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute((ROOT / DOORS).read_bytes())


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("grant select on giftcard_jobs to anon", "table giftcard_jobs to anon"),
        ("grant truncate on giftcard_jobs to authenticated", "table giftcard_jobs to authenticated"),
        ("grant update (payload) on giftcard_jobs to authenticated", "table giftcard_jobs to authenticated"),
        ("grant select on giftcard_cards to public", "table giftcard_cards to public"),
        ("grant usage on sequence giftcard_ticks_id_seq to anon", "sequence giftcard_ticks_id_seq to anon"),
        ("grant execute on function giftcard_status to anon", "function giftcard_status to anon"),
        ("alter table giftcard_cards disable row level security", "table giftcard_cards to whoever is granted it"),
    ],
)
def test_an_open_door_is_red_and_the_mend_shuts_it(guarded: World, look: Examine, statement: str, what: str) -> None:
    guarded.sql(statement)
    line = look(guarded)["grants"]
    assert line["level"] == "red"
    assert what in line["says"]
    assert f"-f {DOORS}" in line["mend"]
    shut_doors(guarded)
    assert look(guarded)["grants"]["level"] == "green"


def test_many_open_doors_are_still_one_line(guarded: World, look: Examine) -> None:
    guarded.sql("grant select on all tables in schema public to anon")
    assert look(guarded)["grants"]["says"].count("giftcard_") == 3


# Clocks


@pytest.mark.parametrize(("apart", "level"), [(0, "green"), (20, "yellow"), (-20, "yellow"), (7200, "red")])
def test_clocks_that_differ_are_told(
    healthy: World, look: Examine, monkeypatch: pytest.MonkeyPatch, apart: float, level: str
) -> None:
    clock = SimpleNamespace(time=lambda: time.time() + apart, monotonic=time.monotonic)
    monkeypatch.setattr(examine, "time", clock)
    line = look(healthy)["clocks"]
    assert line["level"] == level
    assert (f"{abs(apart)} s apart" in line["says"]) is (level == "yellow")


# Transactions and dead rows


@pytest.fixture
def held(healthy: World) -> Iterator[psycopg.Connection[Any]]:
    """Somebody's transaction, which they have forgotten."""
    with psycopg.connect(healthy.url, application_name="a forgotten console") as connection:
        connection.execute("select count(*) from giftcard_jobs")
        yield connection


@pytest.mark.parametrize(("later", "level"), [(240, "green"), (400, "yellow"), (4000, "red")])
def test_a_transaction_held_open_is_told(
    healthy: World, held: psycopg.Connection[Any], look: Examine, later: float, level: str
) -> None:
    line = look(healthy, later=later)["transactions"]
    assert line["level"] == level
    assert ("(a forgotten console)" in line["says"]) is (level != "green")


def test_what_the_line_says_ends_the_transaction(healthy: World, held: psycopg.Connection[Any], look: Examine) -> None:
    line = look(healthy, later=400)["transactions"]
    healthy.sql(line["mend"].removeprefix("end it: "))
    with pytest.raises(psycopg.errors.AdminShutdown):
        held.execute("select 1")
    assert look(healthy, later=400)["transactions"]["level"] == "green"


@pytest.fixture
def clerk(guarded: World) -> Iterator[World]:
    """The application with the service role's rights and no more."""
    shut_doors(guarded)
    guarded.sql("drop role if exists clerk")
    guarded.sql("create role clerk login bypassrls in role service_role")
    with a_world(guarded.url.replace("postgres@", "clerk@")) as world:
        yield world


def test_a_role_that_may_not_see_others_says_so(clerk: World, held: psycopg.Connection[Any], look: Examine) -> None:
    line = look(clerk, later=400)["transactions"]
    assert (line["level"], line["says"]) == ("green", "none is held open, as far as this role may see")


def test_a_role_that_sees_no_row_is_red(guarded: World, clerk: World, look: Examine) -> None:
    guarded.sql("alter role clerk nobypassrls")
    line = look(clerk)["grants"]
    assert (line["level"], line["says"][:33]) == ("red", "row level security hides every ro")


def test_the_service_role_may_ask_all_of_it(clerk: World, look: Examine) -> None:
    assert set(levels(look(clerk))) == {"stages"}, "it has no folder for mails"


@pytest.mark.slow
def test_dead_rows_that_no_vacuum_takes_away_are_told(healthy: World, postgres: Embedded, look: Examine) -> None:
    healthy.sql("alter table giftcard_jobs set (autovacuum_enabled = off)")
    make = "insert into giftcard_jobs (correlation_id, stage) select n::text, 'email' from generate_series(1, 50001) n"
    healthy.sql(make)
    healthy.sql("delete from giftcard_jobs where stage = 'email'")
    healthy.sql("select pg_stat_force_next_flush()")
    assert look(healthy)["vacuum"]["says"] == "giftcard_jobs has 50,001 dead rows: vacuum does not keep up"
    healthy.sql("vacuum analyze public.giftcard_jobs")
    assert look(healthy)["vacuum"]["says"] == "giftcard_jobs has 0 dead rows"
