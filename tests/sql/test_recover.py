"""A clock that went wrong: one row that refuses its recovery keeps no other waiting."""

from typing import Any

import pytest

from tests.support.factory import World
from tests.support.triggers import refusing, silencing

HOUR = 3600.0
FAULTS = (
    "select kind, row_id, skip_until > %s as passed_over from giftcard_faulty_rows"
    " order by kind, length(row_id), row_id"
)


def hold(world: World, statements: list[str]) -> None:
    for statement in statements:
        world.run(statement)


def leases(world: World, jobs: list[int]) -> list[float]:
    """The seconds until the leases of these jobs end."""
    return [round(world.from_now(world.job(job)["lease_expires_at"])) for job in jobs]


def jumped(world: World) -> None:
    """A tick begins while the clock is hours ahead; then it is right again."""
    world.begin(limit=0)
    world.later(-5 * HOUR)


@pytest.mark.parametrize("how", [refusing, silencing])
def test_hostile_job_keeps_no_other_waiting(world: World, how: Any) -> None:
    world.later(5 * HOUR)
    running = [world.claimed().id for _ in range(4)]
    dead = [world.dead_letter(revive=600) for _ in range(2)]
    jumped(world)
    hold(world, how("giftcard_jobs", "update", f"new.id in ({running[0]}, {dead[0]})"))
    world.begin(limit=0)
    assert leases(world, running) == [5 * HOUR + 70, 70, 70, 70]
    assert [round(world.from_now(world.job(job)["revive_at"])) for job in dead] == [5 * HOUR + 600, 600]
    assert world.rows(FAULTS, world.now) == [
        {"kind": "job", "row_id": str(job), "passed_over": True} for job in (running[0], dead[0])
    ]


@pytest.mark.parametrize("how", [refusing, silencing])
def test_hostile_circuit_keeps_no_other_waiting(world: World, how: Any) -> None:
    world.later(5 * HOUR)
    for circuit in ("email", "payment", "sms"):
        world.run(
            "insert into giftcard_circuits (circuit, state, changed_at, open_until) values (%s, 'open', %s, %s)",
            *(circuit, world.now, world.now),
        )
    jumped(world)
    hold(world, how("giftcard_circuits", "update", "new.circuit = 'payment'"))
    world.begin(limit=0)
    changed = {row["circuit"]: round(world.from_now(row["changed_at"])) for row in world.circuits()}
    assert changed == {"email": 0, "payment": 5 * HOUR, "sms": 0}
    assert world.rows(FAULTS, world.now) == [{"kind": "circuit", "row_id": "payment", "passed_over": True}]


@pytest.mark.parametrize("how", [refusing, silencing])
def test_hostile_schedule_keeps_no_other_waiting(world: World, how: Any) -> None:
    for number in (7, 8, 9):
        world.run(
            "insert into giftcard_schedules (id, schedule, stage, check_at)"
            " values (%s, '* * * * *', 'email', 'infinity')",
            number,
        )
    hold(world, how("giftcard_schedules", "update", "new.id = 8"))
    tick = world.begin(limit=0)
    assert [due["id"] for due in tick.step.schedules] == [7, 9]
    assert world.rows(FAULTS, world.now) == [{"kind": "schedule", "row_id": "8", "passed_over": True}]


def test_hostile_maintenance_task_keeps_no_row_waiting(world: World) -> None:
    world.later(5 * HOUR)
    running = world.claimed()
    world.call("begin_maintenance", task="prune")
    jumped(world)
    hold(world, refusing("giftcard_maintenance_tasks", "update", "new.task = 'prune'"))
    world.begin(limit=0)
    assert leases(world, [running.id]) == [70]
    assert world.rows(FAULTS, world.now) == [{"kind": "tick", "row_id": "recovery", "passed_over": None}]
