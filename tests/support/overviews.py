"""Answers of giftcard_overview, as they are when all is well, with what a test changes."""

from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

NOW = "2026-11-29T14:05:10+00:00"
FLOW = ["customer_ingest", "personal_code", "payment", "issue_card", "email"]


def before(**ago: float) -> str:
    """A time before NOW, as the database writes it."""
    return (datetime.fromisoformat(NOW) - timedelta(**ago)).isoformat()


def a_tick(**changes: Any) -> Json:
    """One that ended eight seconds ago, and ran twelve jobs."""
    return {
        "id": 4711,
        "source": "cron",
        "started_at": before(seconds=9),
        "ended_at": before(seconds=8),
        "duration_ms": 1000,
        "started": 12,
        "completed": 12,
        "retried": 0,
        "errored": 0,
        "snoozed": 0,
        "interrupted": 0,
        "stopped_because": "drained",
        "error": None,
    } | changes


def a_minute(ago: int, **changes: Any) -> Json:
    return {
        "at": before(minutes=ago, seconds=10),
        "ticks": 1,
        "started": 12,
        "failed": 0,
        "doubled": 0,
        "overlapping": 0,
        "late_s": 1,
        "limit": 0,
        "missing": False,
    } | changes


def a_stage(name: str, **changes: Any) -> Json:
    return {
        "stage": name,
        "waiting": 0,
        "retrying": 0,
        "later": 0,
        "running": 0,
        "dead": 0,
        "cap": 1000,
        "oldest_due_at": None,
        "availability": "ready",
        "paused": None,
        "runs": 60,
        "succeeded": 60,
        "p50_ms": 120,
        "p95_ms": 480,
    } | changes


def a_circuit(name: str = "payment", **changes: Any) -> Json:
    return {
        "circuit": name,
        "stage": name.partition(":")[0],
        "state": "open",
        "failures": 3,
        "since": before(minutes=3, seconds=10),
        "open_until": before(seconds=-32),
        "waiting": 212,
        "last_error": "TransientError: payment service answered 503",
    } | changes


def a_group(**changes: Any) -> Json:
    """Dead letters of one kind."""
    return {
        "stage": "payment",
        "kind": "PermanentError: the card was declined",
        "count": 3,
        "capped": False,
        "since": before(hours=2),
        "last_at": before(hours=1),
        "job_id": 7,
        "revive_at": None,
    } | changes


def an_overview(*, ticks: Json | None = None, stages: list[Json] | None = None, **changes: Any) -> Json:
    """The facts of a deployment where all is well. `ticks`: changes to those facts; `stages`: instead of its own."""
    return {
        "now": NOW,
        "schema": 1,
        "ticks": {
            "last_good": a_tick(),
            "newest": a_tick(),
            "silent": False,
            "silence_began": None,
            "minutes": [a_minute(ago) for ago in range(59, -1, -1)],
        }
        | (ticks or {}),
        "stages": [a_stage(name) for name in FLOW] if stages is None else stages,
        "circuits": [],
        "circuits_more": False,
        "oldest_due": None,
        "dead": [],
        "dead_more": False,
        "killed": None,
        "endpoints_off": None,
        "differences": {"count": 0, "capped": False, "lines": []},
        "all_paused": None,
        "today": {
            "since": "2026-11-29T00:00:00+00:00",
            "orders": 0,
            "cards": 0,
            "mails": 0,
            "capped": False,
            "sums": [],
        },
        "runs": {"minutes": [], "hours": []},
        "starts": [],
        "flow": FLOW,
        "missing": {},
        "runs_ticks": True,
        "checks": [],
    } | changes
