"""Running jobs, as the commands show them: the run that is under way, and one whose function was killed."""

import pytest

from tests.cli.conftest import Door
from tests.support.world import World


def running(world: World, lease: str) -> int:
    world.tick()
    job_id = world.add("payment")
    world.sql(
        "update public.giftcard_jobs set status = 'running', attempts = 1, run_no = 1, lock_owner = 'host:7',"
        " locked_at = now() - interval '3 minutes', updated_at = now() - interval '3 minutes', lease_expires_at = %s"
        " where id = %s",
        *(lease, job_id),
    )
    return job_id


@pytest.mark.parametrize("command", ["list", "show", "status"])
def test_a_killed_run_is_named_with_the_end_of_its_lease(world: World, door: Door, command: str) -> None:
    job_id = running(world, "2026-01-31T14:02:10.123456+02:00")
    text = door.says(command, *([job_id] if command == "show" else []))
    assert "its function was killed (lease ended 2026-01-31 12:02:10Z); the next tick takes it over" in text


def test_show_has_the_current_run_before_those_that_ended(world: World, door: Door) -> None:
    job_id = running(world, "2050-01-31T12:00:10.5Z")
    text = door.says("show", job_id)
    lines = [" ".join(line.split()) for line in text.partition("Current run\n")[2].splitlines()]
    assert {"run 1", "attempt 1", "runs for 3 min", "last heartbeat none", "tick unknown, process host:7"} <= set(lines)
    assert {"deadline 2050-01-31 12:00:00Z", "lease until 2050-01-31 12:00:10Z"} <= set(lines)
    assert "has not run yet" not in text
