"""Triggers of an operator's own that hold up some rows: with an error, at the commit, or without a word."""

from typing import Any

from tests.support.world import ADMIN, World, bearer


def refusing(table: str, event: str, condition: str, *, errcode: str = "P0001") -> list[str]:
    """Statements after which rows that meet the condition are refused with an error."""
    return [
        _function(table, f"raise exception 'not this row' using errcode = '{errcode}';"),
        _trigger(table, f"trigger no_{table} before {event}", condition),
    ]


def silencing(table: str, event: str, condition: str) -> list[str]:
    """Statements after which rows that meet the condition stay as they are, without an error."""
    return [_function(table, "return null;"), _trigger(table, f"trigger no_{table} before {event}", condition)]


def deferring(table: str, event: str, condition: str) -> list[str]:
    """Statements after which rows that meet the condition are refused when the transaction commits."""
    return [
        _function(table, "raise exception 'not this row' using errcode = '23514';"),
        _trigger(table, f"constraint trigger no_{table} after {event}", condition, "deferrable initially deferred "),
    ]


def refuse(world: World, table: str, event: str, condition: str, *, errcode: str = "P0001") -> None:
    for statement in refusing(table, event, condition, errcode=errcode):
        world.sql(statement)


def silence(world: World, table: str, event: str, condition: str) -> None:
    for statement in silencing(table, event, condition):
        world.sql(statement)


def defer(world: World, table: str, event: str, condition: str) -> None:
    for statement in deferring(table, event, condition):
        world.sql(statement)


def allow(world: World, table: str) -> None:
    world.sql(f"drop trigger no_{table} on public.{table}")


def rows_line(world: World) -> dict[str, Any]:
    """The doctor's line about rows that were put aside."""
    response = world.client.get("/api/status", headers=bearer(ADMIN))
    assert response.status_code == 200, response.text
    (line,) = [line for line in response.json["doctor"] if line["check"] == "rows"]
    return line


def _function(table: str, body: str) -> str:
    return f"create or replace function public.no_{table}() returns trigger language plpgsql as $$ begin {body} end $$"


def _trigger(table: str, head: str, condition: str, options: str = "") -> str:
    return (
        f"create {head} on public.{table} {options}for each row when ({condition}) execute function public.no_{table}()"
    )
