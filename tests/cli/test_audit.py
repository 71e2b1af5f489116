"""`flask jobs audit`, through both doors: who did what, filtered and a page at a time."""

import pytest

from tests.cli.conftest import Door
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


def test_a_wrong_filter_is_named(door: Door) -> None:
    assert "--since" in door.refuses("audit", "--since", "yesterday")
