"""Schedules in tests: made by plain SQL, looked at as ticks do, with time that stands still until it is moved."""

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from lib.schedules.cron import Times
from lib.schedules.planner import plan
from tests.support.factory import World

Row = dict[str, Any]


def a_schedule(world: World, expression: str = "*/10 * * * * *", **columns: Any) -> int:
    """A schedule whose first time is ahead."""
    assert world.now
    row = {"schedule": expression, "stage": "email", "next_at": None} | columns
    if row["next_at"] is None:
        row["next_at"] = Times(row["schedule"], row.get("timezone", "UTC")).upcoming(world.now, limit=1)[0]
    return an_insert(world, row | {"check_at": row["next_at"]})


def an_insert(world: World, row: Row) -> int:
    """A row as another service might write it."""
    names, values = SQL(", ").join(map(Identifier, row)), SQL(", ").join([Placeholder()] * len(row))
    statement = SQL("insert into public.giftcard_schedules ({}) values ({}) returning id").format(names, values)
    adapted = [Jsonb(value) if isinstance(value, dict) else value for value in row.values()]
    with world.connection.cursor() as cursor:
        made = cursor.execute(statement, adapted).fetchone()
    assert made
    return int(made[0])


def the_schedule(world: World, schedule_id: int) -> Row:
    (row,) = world.rows("select * from public.giftcard_schedules where id = %s", schedule_id)
    return row


def look(world: World, **options: Any) -> Row:
    """What a tick does with schedules: reads those that are due, plans, writes it down."""
    answer: Row = world.call("enqueue_occurrences", planned=plan(world.call("due_schedules"), **options))
    return answer


def check_at(world: World, moment: datetime | str, **options: Any) -> Row:
    """The same at this time: like 12:00:10, or a whole one."""
    assert world.now
    if isinstance(moment, str):
        day = f"{world.now:%Y-%m-%d}T" if len(moment) <= 8 else ""
        moment = datetime.fromisoformat(f"{day}{moment}").replace(tzinfo=UTC)
    world.now = moment
    return look(world, **options)


def occurrences(world: World, schedule_id: int) -> list[str]:
    """The times of its jobs, as their correlation ids tell them: 12:00:10."""
    rows = world.rows(
        "select correlation_id from public.giftcard_jobs where starts_with(correlation_id, %s)",
        f"schedule:{schedule_id}:",
    )
    return sorted(row["correlation_id"].split("T")[1].removesuffix("Z") for row in rows)


def end(world: World, schedule_id: int, status: str = "completed") -> None:
    """All its jobs end like this."""
    world.run(
        "update public.giftcard_jobs set status = %s, finished_at = now() where starts_with(correlation_id, %s)"
        " and status in ('queued', 'running')",
        status,
        f"schedule:{schedule_id}:",
    )


def later(world: World, seconds: float) -> datetime:
    """So far ahead of this world's time."""
    assert world.now
    return world.now + timedelta(seconds=seconds)
