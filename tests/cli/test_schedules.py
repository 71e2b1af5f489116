"""Schedules from a terminal, through each of the two doors."""

import json
import re
from typing import Any

import pytest

from lib.schedules.planner import plan
from tests.cli.conftest import NOT_A_TERMINAL, Door
from tests.support.cases import CASES
from tests.support.world import World, an_order

ORDER = ("--stage", "payment", "--payload")


def create(door: Door, *options: Any, expression: str = "*/10 * * * * *") -> dict[str, Any]:
    made: dict[str, Any] = door.json("schedules", "create", expression, *ORDER, json.dumps(an_order()), *options)
    return made


def test_a_schedule_is_made_with_its_next_times(door: Door) -> None:
    made = create(door, "--name", "nightly", "--tenant", "acme", "--max-retry-count", "2", "--type", "AT_MOST_ONCE")
    assert (made["name"], made["tenant_id"], made["max_retry_count"], made["type"]) == (
        "nightly",
        "acme",
        2,
        "AT_MOST_ONCE",
    )
    assert len(made["next_times"]) == 5
    assert "0 3 * * *: Europe/Berlin" in door.says(
        "schedules", "create", "0 3 * * *", "--timezone", "Europe/Berlin", *ORDER, json.dumps(an_order())
    ).replace(" Europe", ": Europe")


def test_one_that_runs_once_and_one_that_calls_an_address(door: Door) -> None:
    made = door.json("schedules", "create", "0 0 12 * * *", "--once", "--api", '{"url": "https://example.com/"}')
    assert (made["is_recurring"], made["stage"], made["payload"]) == (
        False,
        "http_call",
        {"url": "https://example.com/"},
    )
    assert len(made["next_times"]) == 1


def test_api_may_be_the_url_alone(door: Door) -> None:
    made = door.json("schedules", "create", "* * * * *", "--api", "https://example.com/")
    assert (made["stage"], made["payload"]) == ("http_call", {"url": "https://example.com/"})
    assert "url must have a public" in door.refuses("schedules", "create", "* * * * *", "--api", "https://127.0.0.1/")


@pytest.mark.parametrize("expression", CASES["cron"]["refused"])
def test_an_expression_that_the_contract_refuses_is_one_sentence(door: Door, expression: str) -> None:
    assert door.refuses("schedules", "create", expression, "--stage", "payment")


def test_what_is_wrong_is_named_by_its_option(door: Door) -> None:
    assert "--max-retry-count" in door.refuses("schedules", "create", "* * * * *", "--max-retry-count", "99")
    assert "--missed-policy" in door.refuses("schedules", "create", "* * * * *", "--missed-policy", "some")
    assert "set what runs" in door.refuses("schedules", "create", "* * * * *")
    assert "--api is not valid JSON" in door.refuses("schedules", "create", "* * * * *", "--api", "{")
    assert "customer" in door.refuses("schedules", "create", "* * * * *", *ORDER, "{}")


def test_a_schedule_is_changed_paused_resumed_run_and_deleted(door: Door) -> None:
    number = create(door, "--name", "nightly")["id"]
    assert door.json("schedules", "update", number, "--overlap-policy", "queue")["overlap_policy"] == "queue"
    assert door.json("schedules", "update", number, "--schedule", "0 * * * *")["schedule"] == "0 * * * *"
    assert door.refuses("schedules", "update", number) == "nothing to update: give at least one option"
    assert "is paused by ann" in door.says("schedules", "pause", number, "--by", "ann", "--reason", "moving house")
    assert "moving house" in door.says("schedules", "show", number)
    assert re.search(r"created_at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\n", door.says("schedules", "show", number))
    assert "moving house" in door.says("schedules", "list", "--status", "paused")
    assert "next: " in door.says("schedules", "resume", number)
    assert "the next tick runs it" in door.says("schedules", "run", number)
    shown = door.json("schedules", "show", number)
    assert [o["status"] for o in shown["occurrences"]] == ["queued"]
    assert "kate@example.com" not in door.says("schedules", "show", number)
    assert "kate@example.com" in door.says("schedules", "show", number, "--reveal")
    assert door.refuses("schedules", "delete", number) == NOT_A_TERMINAL
    assert "is deleted" in door.says("schedules", "delete", number, "--yes")
    assert door.says("schedules", "list") == "No schedule matches.\n"
    assert "does not exist" in door.refuses("schedules", "show", number)


def test_both_doors_give_the_same_json(world: World, direct: Door, remote: Door) -> None:
    numbers = [create(direct, "--name", f"n{n}")["id"] for n in range(3)]
    for command in (("list",), ("list", "--limit", "2"), ("list", "--name", "n1"), ("show", numbers[0])):
        assert direct.json("schedules", *command) == remote.json("schedules", *command)
    assert f"--older {numbers[1]}" in direct.says("schedules", "list", "--limit", "2")


def test_what_was_missed_is_seen(world: World, door: Door) -> None:
    number = create(door)["id"]
    world.sql("update giftcard_schedules set next_at = next_at - interval '1 hour', check_at = now()")
    world.store.enqueue_occurrences(plan(world.store.due_schedules()))
    (row,) = door.json("schedules", "list")["schedules"]
    assert (row["id"], row["missed"] in (359, 360), row["last_job"]["status"]) == (number, True, "queued")


def test_precision_tells_how_late_runs_began(world: World, door: Door) -> None:
    assert door.says("precision").startswith("No run has ended within 60 min")
    world.enqueue("payment", an_order(), scheduled_at=world.value("select now() - interval '90 seconds'"))
    world.run()
    (found,) = (stage for stage in door.json("precision")["precision"] if stage["stage"] == "payment")
    assert found["runs"] == 1
    assert 90_000 <= found["p50_ms"] == found["p95_ms"] == found["max_ms"] < 120_000
    assert "90." in door.says("precision", "--window", "600")
    assert door.json("status")["precision"] == door.json("precision")["precision"]
    assert "How long after its time" in door.says("status")
    world.move(7200)
    assert door.json("precision")["precision"] == []
    assert "payment" in [stage["stage"] for stage in door.json("precision", "--window", "8000")["precision"]]
    assert "--window" in door.refuses("precision", "--window", "0")
