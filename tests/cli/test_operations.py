"""Operations on many jobs from a terminal: on the database, and over the API of a deployment."""

import json

import pytest

from tests.cli.conftest import Door
from tests.support.world import World

KIND = "TransientError: HTTP 503 from [host]"


def dead(world: World, count: int) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " select i, 'email', 'error', 'TransientError: HTTP 503 from ' || i || '.example.com', now()"
        " from generate_series(1, %s) i",
        count,
    )


def test_an_operation_is_previewed_created_watched_and_stopped(world: World, door: Door) -> None:
    dead(world, 3)
    only = ("--error-kind", KIND)
    assert "3 jobs would be changed." in door.says("operations", "create", "requeue", *only, "--dry-run")
    created = door.says("operations", "create", "requeue", *only, "--reason", "it works", "--yes", "--json")
    operation = json.loads(created)
    assert (operation["total"], operation["state"], operation["filter"]) == (3, "running", {"error_kind": KIND})
    number = str(operation["id"])
    assert "running" in door.says("operations", "list", "--state", "running")
    assert "it works" in door.says("operations", "show", number)
    assert "stopped" in door.says("operations", "stop", number)
    world.tick()
    assert world.statuses() == {"error": 3}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("delete", "--all", "--reason", "r"), "the action must be one of requeue, requeue_slowly, cancel"),
        (("cancel", "--reason", "r"), "no job is selected"),
        (("cancel", "--all"), "--reason is required"),
        (("cancel", "--id", "1", "--stage", "email", "--reason", "r"), "job_ids and filter exclude each other"),
        (("requeue", "--status", "completed", "--reason", "r"), "only jobs in error or cancelled"),
        (("requeue_slowly", "--all", "--per-minute", "0", "--reason", "r"), "--per-minute"),
    ],
)
def test_what_cannot_be_is_one_sentence(world: World, door: Door, words: tuple[str, ...], text: str) -> None:
    assert text in door.refuses("operations", "create", *words)
