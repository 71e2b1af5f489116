"""Batches from a terminal: on the database, and over the API of a deployment."""

import json

import pytest

from tests.cli.conftest import Door
from tests.support.world import World


def body(*names: str, **more: object) -> str:
    members = [{"stage": "report", "correlation_id": name, "payload": {}} for name in names]
    return json.dumps({"jobs": members, "name": "reports of May"} | more)


def test_a_batch_is_created_filled_sealed_and_watched_to_its_end(world: World, door: Door) -> None:
    assert "No batch matches." in door.says("batches", "list")
    batch = json.loads(door.says("batches", "create", body("a", open=True), "--json"))
    number = str(batch["id"])
    more = json.loads(body("b"))["jobs"]
    assert "new" in door.says("batches", "add", number, json.dumps(more))
    assert "was there" in door.says("batches", "add", number, json.dumps({"jobs": more}))
    assert "flask jobs batches seal" in door.refuses("batches", "show", number, "--watch").replace("--url x ", "")
    assert "running" in door.says("batches", "seal", number)
    shown = door.says("batches", "show", number)
    assert "reports of May" in shown
    assert "0 % (0 of 2)" in shown
    world.drain()
    watched = door.says("batches", "show", number, "--watch")
    assert "[##############################] 100 % (2 of 2)" in watched
    assert "2 completed" in watched
    listed = door.says("batches", "list", "--state", "ended")
    assert "reports of May" in listed


def test_cancel_and_requeue_create_operations_on_its_jobs(world: World, door: Door) -> None:
    number = str(json.loads(door.says("batches", "create", body("a", "b"), "--json"))["id"])
    assert "Created operation 1" in door.says("batches", "cancel", number, "--reason", "wrong file", "--yes")
    world.sql("update giftcard_jobs set scheduled_at = now() + interval '1 day'")
    world.drain()
    assert world.statuses() == {"cancelled": 2}
    requeue = json.loads(door.says("batches", "requeue", number, "--reason", "x", "--yes", "--json"))
    assert (requeue["action"], requeue["filter"]["batch_id"]) == ("requeue", number)
    assert "cancelled" in door.says("list", "--batch-id", number)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("show", "7"), "batch 7 does not exist"),
        (("cancel", "7"), "--reason is required"),
        (("create", "{}"), "must be open"),
        (("create", '{"jobs": 7}'), "jobs"),
        (("create", "{"), "not valid JSON"),
        (("add", "7", "[]"), "jobs"),
        (("list", "--state", "odd"), "--state"),
    ],
)
def test_what_cannot_be_is_one_sentence(world: World, door: Door, words: tuple[str, ...], text: str) -> None:
    assert text in door.refuses("batches", *words)
