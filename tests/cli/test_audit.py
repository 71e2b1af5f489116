"""`flask jobs audit`, through both doors: who did what, filtered and a page at a time."""

from typing import Any

import pytest

from tests.cli.conftest import KATE, Door
from tests.support.world import World, an_order


def test_acts_are_listed_the_newest_first(world: World, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "kate")
    ids = [world.add("customer_ingest", an_order(), status="error") for _ in range(2)]
    for job_id in ids:
        door.says("requeue", job_id)
    door.says("pause", "email", "--reason", "vendor moves")
    by = "admin token" if door.url else "kate"
    acts = door.json("audit")["acts"]
    assert [(act["by"], act["action"], act["subject"]) for act in acts] == [
        (by, "pause", "stage email"),
        (by, "requeue", f"job {ids[1]}"),
        (by, "requeue", f"job {ids[0]}"),
    ]
    text = door.says("audit", "--action", "requeue", "--by", by, "--limit", "1")
    assert f"job {ids[1]}" in text
    assert f"--older {acts[1]['id']}" in text
    assert f"job {ids[0]}" in door.says("audit", "--action", "requeue", "--older", acts[1]["id"])
    assert door.says("audit", "--subject", "job 99").strip() == "No act matches."


REASON = ("--reason", f"{KATE} asks")


def test_a_reason_is_kept_masked_with_each_act(world: World, door: Door) -> None:
    world.sql("insert into giftcard_circuits (circuit, failures) values ('email', 2)")
    world.enqueue("email", correlation_id="order-7")
    ids = [world.add("email", status="error", finished_at="2026-01-01") for _ in range(5)]
    world.sql("select giftcard_archive_jobs(array[%s::bigint], now())", ids[0])
    commands: dict[str, tuple[Any, ...]] = {
        "restore": ("restore", ids[0]),
        "requeue": ("requeue", ids[1]),
        "cancel": ("cancel", ids[2]),
        "cancel_flow": ("cancel", "--flow", "order-7", "--yes"),
        "pause": ("pause", "email"),
        "resume": ("resume", "email"),
        "reset_circuit": ("circuits", "reset", "email"),
    }
    for action, command in commands.items():
        assert "--reason" in door.refuses(*command, "--reason", "x" * 201)
        door.says(*command, *REASON)
        (act,) = door.json("audit", "--limit", 1)["acts"]
        assert (act["action"], act["details"]["reason"]) == (action, "[email] asks")
    door.says("requeue", "--stage", "email", "--yes", *REASON)
    (act,) = door.json("audit", "--limit", 1)["acts"]
    assert (act["details"]["jobs"], act["details"]["reason"]) == (3, "[email] asks")
    assert "no job is selected" in door.refuses("requeue", *REASON)


def test_a_wrong_filter_is_named(door: Door) -> None:
    assert "--since" in door.refuses("audit", "--since", "yesterday")
