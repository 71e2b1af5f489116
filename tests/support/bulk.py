"""Operations on many jobs, as tests create and carry them out."""

from typing import Any

from tests.support.factory import World

Row = dict[str, Any]


def create(world: World, action: str = "requeue", **more: Any) -> Row:
    row: Row = world.call("create_operation", action=action, **({"reason": "the vendor is back"} | more))
    return row


def step(world: World, **more: Any) -> Row | None:
    row: Row | None = world.call("step_operation", **more)
    return row


def carry_out(world: World, *, limit: int = 500) -> list[Row]:
    """Steps until nothing is left, or all that is left waits."""
    steps: list[Row] = []
    waiting: set[int] = set()
    while (row := step(world, limit=limit, skip=tuple(waiting))) is not None:
        waiting |= {row["id"]} if row["waits"] else set()
        steps.append(row)
        assert len(steps) < 100
    return steps


def shown(world: World, operation: Row) -> Row:
    row: Row = world.ask("show_operation", id=operation["id"])
    return row


def statuses(world: World, ids: list[int]) -> list[str]:
    return [world.job(job_id)["status"] for job_id in ids]
