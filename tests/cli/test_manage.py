"""Cancel, pause, resume."""

import pytest

from tests.cli.conftest import NOT_A_TERMINAL, Door, Terminal
from tests.support.world import World, an_order


def test_cancel_of_a_queued_job(world: World, door: Door) -> None:
    one, other = world.enqueue("email", count=2)
    assert door.json("cancel", one) == {"id": one, "was": "queued", "status": "cancelled", "cancel_requested": False}
    assert door.says("cancel", other) == (
        f"job {other} is cancelled (was queued); to queue it again, due at once: flask jobs requeue {other}\n"
    )
    assert world.statuses() == {"cancelled": 2}


def test_cancel_of_a_running_job_is_a_wish(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email", status="running")
    assert door.json("cancel", job_id)["cancel_requested"] is True
    assert f"job {job_id} is running: it is cancelled after this run" in door.says("cancel", job_id)
    assert world.job(job_id)["cancel_requested_at"] is not None


def test_cancel_again_says_so(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email", status="cancelled")
    assert door.says("cancel", job_id) == f"job {job_id} was cancelled already\n"


def test_cancel_of_a_completed_job_is_refused_and_stops_no_other(world: World, door: Door) -> None:
    (done,) = world.enqueue("email", status="completed")
    (waiting,) = world.enqueue("email")
    result = door.run("cancel", done, waiting, "--json")
    assert (result.exit_code, world.job(waiting)["status"]) == (2, "cancelled")
    assert result.stderr == f"Error: job {done} is completed: there is nothing to cancel\n"


@pytest.fixture
def flow(world: World) -> str:
    """Three jobs of one order, one of them done, and one of the same name of another tenant."""
    name = "order 7/a"
    world.enqueue("payment", correlation_id=name, status="completed")
    world.enqueue("issue_card", correlation_id=name, status="error")
    world.enqueue("email", correlation_id=name)
    world.enqueue("email", correlation_id=name, tenant_id="acme")
    return name


def test_flow_is_cancelled_in_its_tenant_only(flow: str, door: Door) -> None:
    assert door.json("cancel", "--flow", flow, "--yes") == {
        "tenant_id": "default",
        "correlation_id": flow,
        "cancelled": 2,
        "cancel_requested": 0,
    }
    assert door.world.statuses() == {"completed": 1, "cancelled": 2, "queued": 1}
    assert "1 job cancelled" in door.says("cancel", "--flow", flow, "--tenant", "acme", "--yes")


def test_flow_is_not_cancelled_unasked(flow: str, door: Door) -> None:
    assert door.refuses("cancel", "--flow", flow) == NOT_A_TERMINAL
    assert door.world.statuses() == {"completed": 1, "error": 1, "queued": 2}


def test_flow_is_cancelled_once_a_person_says_yes(flow: str, direct: Door, terminal: Terminal) -> None:
    code, screen = terminal.run(direct.app, "cancel", "--flow", flow, types="yes\n")
    assert "Cancel 2 jobs of flow order 7/a (tenant default)?" in screen
    assert (code, direct.world.statuses()["cancelled"]) == (0, 2)
    assert "flow order 7/a (tenant default): 2 jobs cancelled" in screen


def test_flow_nobody_has_begun_is_refused(door: Door) -> None:
    assert door.refuses("cancel", "--flow", "none") == "no job has the correlation id none"


def test_cancel_of_who_knows_what_is_refused(door: Door) -> None:
    for options in ([], ["1", "--flow", "x"], ["1", "--tenant", "a"], ["--flow", ""], ["--flow", "x", "--tenant", " "]):
        door.refuses("cancel", *options, "--yes")


def test_pause_says_who_and_why_and_stops_the_stage(world: World, door: Door) -> None:
    world.enqueue("customer_ingest", an_order())
    answer = door.json("pause", "customer_ingest", "--by", "ann", "--reason", "the shop moves")
    assert (answer["stage"], answer["paused_by"], answer["reason"]) == ("customer_ingest", "ann", "the shop moves")
    assert world.tick()["started"] == 0
    assert "to resume: flask jobs resume 'email'" in door.says("pause", "email")


def test_who_pauses_is_who_types(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "kate")
    assert door.json("pause", "email")["paused_by"] == "kate"
    assert door.json("resume", "email")["resumed_by"] == "kate"


def test_everything_is_paused_and_resumed(world: World, door: Door) -> None:
    world.enqueue("customer_ingest", an_order())
    assert "everything is paused by" in door.says("pause", "*")
    assert world.tick()["paused"] is True
    assert "everything is resumed" in door.says("resume", "*")
    assert world.tick()["started"] > 0


def test_stage_that_is_none_cannot_be_paused(door: Door) -> None:
    assert door.refuses("pause", "emial") == "there is no stage emial; did you mean email?"
    assert "it is empty" in door.refuses("pause", "")


def test_stage_that_is_not_paused_cannot_be_resumed(door: Door) -> None:
    assert door.refuses("resume", "email") == "stage email is not paused"


def test_name_or_reason_that_is_too_long_is_refused(door: Door) -> None:
    assert "--by" in door.refuses("pause", "email", "--by", "x" * 201)
    assert "--reason" in door.refuses("pause", "email", "--reason", "")
