"""What a database holds that the overview shows: ticks and runs at given times."""

from datetime import datetime, timedelta
from typing import Any

from tests.support.factory import STAGES, World

Row = dict[str, Any]


def overview(world: World, **more: Any) -> Row:
    """The overview at the world's time; of the usual stages, unless `more` has others."""
    shown: Row = world.call("overview", **{"stages": dict(STAGES), "missing": {}} | more)
    return shown


def add_tick(world: World, at: datetime, *, lasted: float | None = 5, live: float = 130, **more: Any) -> int:
    """A tick of the clock that began then. `lasted` None: it has no end."""
    ended = None if lasted is None else at + timedelta(seconds=lasted)
    usual = {
        "source": "cron", "owner": "host:1", "started_at": at, "ended_at": ended, "stages": "{}",
        "live_until": at + timedelta(seconds=live), "stopped_because": None if lasted is None else "drained",
    }  # fmt: skip
    row = usual | more
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    insert = f"insert into giftcard_ticks (key, {names}) values (gen_random_uuid(), {places}) returning id"
    return int(world.rows(insert, *row.values())[0]["id"])


def add_run(world: World, ended: datetime | str, *, took: float = 1, late: float = 0, **more: Any) -> None:
    """A run of a job that is gone. `late`: how many seconds after its time it began."""
    row: Row = {"run_no": 1, "attempt": 1, "stage": "email", "result": "SUCCESS", "finished_at": ended} | more
    if isinstance(ended, datetime):
        began = ended - timedelta(seconds=took)
        row = {"started_at": began, "scheduled_at": began - timedelta(seconds=late)} | row
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    next_id = "(select coalesce(max(job_id), 0) + 1 from giftcard_job_history)"
    world.run(f"insert into giftcard_job_history (job_id, {names}) values ({next_id}, {places})", *row.values())


def fold(world: World) -> int:
    """Folds the runs that ended ten seconds ago or earlier. How many."""
    return int(world.call("update_counters"))


def moved(rows: list[Row], still: Row) -> dict[int, Row]:
    """Of a series of moments those that differ from `still`, by their place from the end: 0 is the present one."""
    return {
        place: {name: value for name, value in row.items() if name != "at" and value != still.get(name)}
        for place, row in enumerate(reversed(rows))
        if any(value != still.get(name) for name, value in row.items() if name != "at")
    }
