"""Batches, as tests create and read them."""

from typing import Any

from tests.support.factory import World

Row = dict[str, Any]

FOLLOW_UP = {"stage": "payment", "correlation_id": "after"}


def jobs(count: int, **fields: Any) -> list[Row]:
    """Jobs of `count` flows."""
    return [{"stage": "email", "correlation_id": f"member-{n}"} | fields for n in range(count)]


def create(world: World, count: int = 2, **more: Any) -> Row:
    """A batch with `count` jobs and a follow-up, unless the arguments name others."""
    row: Row = world.call("create_batch", **({"jobs": jobs(count), "follow_up": FOLLOW_UP} | more))
    return row


def ids(batch: Row) -> list[int]:
    return [job["id"] for job in batch["jobs"]]


def shown(world: World, batch: Row) -> Row:
    row: Row = world.ask("show_batch", id=batch["id"])
    return row


def follow_ups(world: World) -> list[Row]:
    """What was enqueued at the end of batches: the context's `batch` of each."""
    found = world.rows(
        "select context -> 'batch' as batch from giftcard_jobs where correlation_id = 'after' order by id"
    )
    return [row["batch"] for row in found]
