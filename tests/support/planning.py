"""Due schedules as the database gives them, and what the planner makes of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from lib.schedules.planner import plan

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def due(*, late: float = 0, **changes: Any) -> dict[str, Any]:
    """A schedule of each ten seconds whose occurrence at noon is due for `late` seconds."""
    row = {
        "id": 7,
        "version": 3,
        "now": (NOON + timedelta(seconds=late)).isoformat(),
        "tenant_id": "acme",
        "schedule": "*/10 * * * * *",
        "timezone": "UTC",
        "stage": "report",
        "payload": {"a": 1},
        "semantics": "at_least_once",
        "is_recurring": True,
        "max_attempts": 4,
        "ttr_seconds": 60,
        "retry_delays": None,
        "priority": 0,
        "next_at": NOON.isoformat(),
        "last_at": None,
        "created_at": None,
        "missed_policy": "skip",
        "catch_up_seconds": 300,
        "missed_cap": 100,
        "overlap_policy": "skip",
        "pause_after_failures": None,
        "failures": 0,
        "unfinished": 0,
        "busy_since": None,
        "busy_until": None,
    }
    assert set(changes) <= set(row)
    row |= changes
    return row | {"payload_json": json.dumps(row.pop("payload"))}


def planned(**schedule: Any) -> dict[str, Any]:
    (found,) = plan([due(**schedule)])
    return found


def times(found: dict[str, Any]) -> list[str]:
    """The clock times of its jobs, as in 12:00:10."""
    return [job["scheduled_at"][11:-1] for job in found.get("jobs", [])]
