"""Where runs failed, as the API and `jobs show` show it; and what counts as a bug."""

import socket
from typing import Any

import pytest

from lib.job import Complete, Outcome
from lib.telemetry.frames import fault_of
from tests.cli.conftest import Door
from tests.support.world import ADMIN, World, bearer

HERE = "tests/cli/test_frames.py"


def fails(_payload: Any, _context: Any) -> Outcome:
    try:
        look_up("id")
    except KeyError as error:
        raise RuntimeError("it has no id") from error
    return Complete()


def look_up(name: str) -> Any:
    return {}[name]


@pytest.fixture
def world(make_world: Any) -> World:
    """A world with a job that has failed twice."""
    world: World = make_world(handlers={"work": fails})
    world.move_to(world.run_job("work")["scheduled_at"])
    world.run()
    return world


def test_api_and_command_line_show_them(world: World, door: Door) -> None:
    run = world.history(1)[0]
    body = world.client.get("/api/v1/jobs/1/history", headers=bearer(ADMIN)).json
    assert body["runs"][0]["frames"] == run["frames"]
    for command in ("show", "history"):
        shown = door.says(command, 1)
        assert "Runs 2, 1 failed here" in shown
        assert f"> {HERE}:" in shown
        assert "in look_up: KeyError" in shown
    assert door.json("history", 1)["runs"][0]["frames"] == run["frames"]


@pytest.mark.parametrize(
    "odd", ["5", '"text"', "[]", "[1]", "{}", "[null]", '[{"file": {}, "function": 1, "line": 1e99}]']
)
def test_frames_written_by_hand_may_be_anything(world: World, door: Door, odd: str) -> None:
    world.sql("update public.giftcard_job_history set frames = %s::jsonb", odd)
    assert world.client.get("/api/v1/jobs/1/history", headers=bearer(ADMIN)).status_code == 200
    door.says("show", 1)


def test_network_that_fails_is_no_bug() -> None:
    for error in (ConnectionRefusedError(), TimeoutError(), socket.gaierror()):
        try:
            raise RuntimeError from error
        except RuntimeError as failure:
            fault = fault_of(failure, handler=None, secrets=[])
        assert fault is not None
        assert not fault.is_bug
