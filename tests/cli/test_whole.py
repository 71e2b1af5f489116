"""The whole: status, stages, circuits."""

import re
from typing import Any

import pytest

from tests.cli.conftest import Door
from tests.support.world import World


def same(found: Any, other: Any) -> bool:
    """But for the moment they were asked at, and the numbers in what the doctor says of it."""
    moving = ("now", "oldest_due_seconds")

    def still(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: still(inner) for name, inner in value.items() if name not in moving}
            return kept | {"message": re.sub(r"\d+", "n", value["message"])} if "fix" in value else kept
        return [still(inner) for inner in value] if isinstance(value, list) else value

    return bool(still(found) == still(other))


@pytest.mark.parametrize("command", ["status", "stages", "circuits", "list"])
def test_both_doors_give_the_same_json(busy: World, direct: Door, remote: Door, command: str) -> None:
    direct.says("pause", "payment")
    busy.sql("insert into public.giftcard_circuits (circuit, state, failures) values ('email', 'closed', 2)")
    assert same(direct.json(command), remote.json(command))


def test_status_names_what_is_wrong_and_what_to_do(busy: World, door: Door) -> None:
    door.says("pause", "*", "--by", "ann", "--reason", "moving house")
    text = door.says("status")
    assert "everything is paused by ann" in text
    assert "flask jobs resume '*'" in text
    assert "Dead letters, the newest 20" in text
    assert "[email] is refused" in text
    assert door.json("status")["counts"]["payment"]["error"] == 2


def test_status_of_an_empty_house_is_shown(door: Door) -> None:
    assert "No job yet.\nNo tick yet.\n" in door.says("status")


def test_stages_tell_their_rules_and_who_paused_them(door: Door) -> None:
    door.says("pause", "email", "--by", "ann")
    stages = {stage["stage"]: stage for stage in door.json("stages")["stages"]}
    assert (stages["email"]["paused_by"], stages["email"]["max_attempts"]) == ("ann", 5)
    assert "paused by ann" in door.says("stages")


def test_circuit_that_failed_is_shown_and_reset(world: World, door: Door) -> None:
    assert door.says("circuits").startswith("All circuits are closed")
    world.sql(
        "insert into public.giftcard_circuits (circuit, state, failures, open_until)"
        " values ('webhook:7/a b', 'open', 3, now() + interval '1 minute')"
    )
    assert [c["circuit"] for c in door.json("circuits")["circuits"]] == ["webhook:7/a b"]
    assert "flask jobs circuits reset NAME" in door.says("circuits")
    assert door.json("circuits", "reset", "webhook:7/a b") == {
        "circuit": "webhook:7/a b",
        "was": "open",
        "state": "closed",
    }
    assert door.json("circuits") == {"circuits": [], "older": None}
    assert door.world.value("select cause from public.giftcard_circuit_changes").startswith("reset by ")


def test_circuit_that_never_failed_cannot_be_reset(door: Door) -> None:
    assert "has never failed" in door.refuses("circuits", "reset", "email")
