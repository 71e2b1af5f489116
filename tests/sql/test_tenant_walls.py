"""For a caller of one tenant, rows of another do not exist: they are neither shown nor changed."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.acts import ACTS, an_endpoint, an_open_batch, an_operation, archived, by_id, dead, scheduled
from tests.support.factory import World

Row = dict[str, Any]
Way = tuple[str, Callable[[World], Any], Callable[[World, Any], Row]]

# Functions whose tenant is a filter, or what they record.
NO_WALLS = {
    "errors", "list_audit", "list_schedules", "list_webhook_endpoints", "list_reports", "list_differences", "reconcile",
    "record_reveal", "create_token", "list_operations", "preview_operation", "create_operation",
    "find_orders", "list_batches",
}  # fmt: skip
WITHOUT_A_TIME = {"history", "occurrences", "schedule_history", "show_operation", "show_batch"}
READS: list[Way] = [
    ("show_job", dead, by_id("job_id")),
    ("show_job", archived, by_id("job_id")),
    ("history", dead, by_id("job_id")),
    ("job_story", dead, by_id("job_id")),
    ("job_story", archived, by_id("job_id")),
    ("history", archived, by_id("job_id")),
    ("show_schedule", scheduled, by_id("id")),
    ("occurrences", scheduled, by_id("id")),
    ("schedule_history", scheduled, by_id("id")),
    ("webhook_endpoint", an_endpoint, by_id("endpoint_id")),
    ("show_operation", an_operation, by_id("id")),
    ("show_batch", an_open_batch, by_id("id")),
]
BY_ID = (
    *("requeue", "cancel", "restore_job", "decide_effect", "erase_customer", "save_schedule", "delete_schedule"),
    *("pause_schedule", "resume_schedule", "run_schedule", "update_webhook_endpoint", "delete_webhook_endpoint"),
    *("rotate_webhook_secret", "test_webhook_endpoint", "stop_operation", "add_to_batch"),
    "seal_batch",
)
CHANGES: list[Way] = [
    *((name, ACTS[name].before, ACTS[name].arguments) for name in BY_ID),
    # An archived job is refused in a way of its own, which must not show either.
    ("requeue", archived, by_id("job_id")),
    ("cancel", archived, by_id("job_id")),
    # The other way round: restoring one that is not archived.
    ("restore_job", dead, by_id("job_id")),
]
WAYS = {f"{name} {before.__name__}": (name, before, arguments) for name, before, arguments in [*READS, *CHANGES]}


def test_every_function_with_a_wall_is_walked(world: World) -> None:
    functions = world.rows(
        "select substr(proname, 10) as name from pg_proc where pronamespace = 'public'::regnamespace"
        " and pg_get_function_arguments(oid) ~ 'p_tenant_id text DEFAULT NULL'"
    )
    assert {f["name"] for f in functions} - NO_WALLS == {name for name, _, _ in WAYS.values()}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_of_another_tenant_does_not_exist(world: World, way: str) -> None:
    function, before, arguments = WAYS[way]
    given = arguments(world, before(world))
    kept = everything(world)
    said = refused(world, function, given | {"tenant_id": "another"})
    assert everything(world) == kept
    assert said == refused(world, function, nowhere(given) | {"tenant_id": "another"})


@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way] not in CHANGES[-3:]])
def test_its_own_tenant_sees_and_changes_it(world: World, way: str) -> None:
    function, before, arguments = WAYS[way]
    call = world.ask if function in WITHOUT_A_TIME else world.call
    assert call(function, **arguments(world, before(world)), tenant_id="shop")


def refused(world: World, function: str, given: Row) -> tuple[str | None, str]:
    """How it is refused: the state, and the sentence without numbers."""
    call = world.ask if function in WITHOUT_A_TIME else world.call
    with pytest.raises(psycopg.Error) as caught:
        call(function, **given)
    assert caught.value.sqlstate == "GC404"
    return caught.value.sqlstate, re.sub(r"\d+", "n", caught.value.diag.message_primary or "")


def nowhere(given: Row) -> Row:
    """The same arguments with the id of no row."""
    ids = {name: 2**62 for name in ("id", "job_id", "customer_id", "endpoint_id") if name in given}
    return given | ids | ({"plan": given["plan"] | {"id": 2**62}} if "plan" in given else {})


def everything(world: World) -> list[Row]:
    """All rows of all tables."""
    tables = world.rows(
        "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
        " and relname like 'giftcard%' order by 1"
    )
    return [
        row | {"table": table["name"]}
        for table in tables
        for row in world.rows(f"select to_jsonb(t) as row from public.{table['name']} t order by to_jsonb(t)::text")
    ]
