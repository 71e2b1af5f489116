"""Schedules that run once: at their time, or up to a day late; one that is later is paused and says why."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lib.job import Complete
from tests.support.planning import NOON, planned, times
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]


def test_what_runs_once_has_no_further_time() -> None:
    found = planned(is_recurring=False, late=25)
    assert times(found) == ["12:00:20"]
    assert (found["next_at"], found["missed"]) == (None, 2)
    assert found["jobs"][0]["trigger_type"] == "schedule_once"


@pytest.mark.parametrize("policy", ["one", "all"])
def test_what_runs_once_runs_once_under_each_policy(policy: str) -> None:
    found = planned(is_recurring=False, late=9000, missed_policy=policy, overlap_policy="queue")
    assert (times(found), found["next_at"]) == (["14:30:00"], None)


# Noon of New Year's Day: the next time is in a year.
YEARLY = "0 12 1 1 *"
DAY = 86_400


@pytest.mark.parametrize(
    ("late", "catch_up", "runs"),
    [
        (301, 300, True),
        (DAY - 1, 300, True),
        (DAY, 300, False),
        (59, 60, True),
        (60, 60, False),
        (DAY - 1, DAY, True),
        (DAY, DAY, False),
    ],
)
def test_what_runs_once_may_be_a_day_late_unless_it_says_otherwise(late: int, catch_up: int, runs: bool) -> None:
    found = planned(is_recurring=False, late=late, schedule=YEARLY, catch_up_seconds=catch_up)
    if runs:
        assert (times(found), found["next_at"], "pause" in found) == (["12:00:00"], None, False)
    else:
        span = "60 s" if catch_up == 60 else "a day"
        assert found["pause"] == f"its time, 2026-01-01T12:00:00Z, was missed by {span} or more"
        assert ("jobs" in found, found["missed"], found["missed_at"]) == (False, 1, "2026-01-01T12:00:00Z")


def test_what_recurs_is_not_paused_by_a_missed_time() -> None:
    found = planned(late=400, schedule=YEARLY)
    assert ("pause" in found, found["next_at"], found["missed"]) == (False, "2027-01-01T12:00:00Z", 1)


def test_what_runs_once_and_was_made_by_plain_sql_counts_from_its_creation() -> None:
    new = {"is_recurring": False, "next_at": None, "schedule": YEARLY}
    made = (NOON - timedelta(seconds=1)).isoformat()
    assert times(planned(**new, late=3600, created_at=made)) == ["12:00:00"]
    assert "was missed by a day" in planned(**new, late=DAY, created_at=made)["pause"]
    assert planned(**new, late=3600, created_at=NOON.isoformat())["next_at"] == "2027-01-01T12:00:00Z"
    assert planned(**new | {"is_recurring": True}, late=3600, created_at=made)["next_at"] == "2027-01-01T12:00:00Z"


@pytest.mark.parametrize(("policy", "waits"), [("skip", True), ("queue", True), ("allow", False)])
def test_what_runs_once_waits_for_what_overlaps_and_is_not_dropped(policy: str, waits: bool) -> None:
    found = planned(is_recurring=False, unfinished=1, overlap_policy=policy)
    assert ("jobs" in found, "skipped" in found, "check_in" in found) == (not waits, False, True)


def test_what_has_run_once_is_deleted_when_its_job_has_ended() -> None:
    ran = {"is_recurring": False, "next_at": None, "last_at": NOON.isoformat()}
    assert planned(**ran, late=60) == {"id": 7, "version": 3, "delete": True}
    assert planned(**ran, late=60, unfinished=1, busy_since=NOON.isoformat())["check_in"] == 6


# In a tick


def a_one_time_schedule(world: World, *, made: str, **columns: str) -> int:
    """One for a time an hour after it was made, as another service writes it."""
    of_time = f"to_char((now() - interval '{made}' + interval '1 hour') at time zone 'UTC', 'SS MI HH24 DD MM \"*\"')"
    row = {
        "stage": "'work'",
        "is_recurring": "false",
        "schedule": of_time,
        "created_at": f"now() - interval '{made}'",
        **columns,
    }
    statement = f"insert into giftcard_schedules ({', '.join(row)}) values ({', '.join(row.values())}) returning id"
    return int(world.sql(statement)[0]["id"])


PLANNED = "date_trunc('second', now() - interval '{made}' + interval '1 hour')"


@pytest.mark.parametrize("planned_before", [True, False])
@pytest.mark.parametrize(("made", "runs"), [("3 hours", True), ("24 hours", True), ("26 hours", False)])
def test_one_whose_time_was_missed_runs_once_or_says_why_not(
    make_world: Callable[..., World],
    log: Callable[[], list[dict[str, Any]]],
    made: str,
    runs: bool,
    planned_before: bool,
) -> None:
    world = make_world(handlers={"work": lambda payload, context: Complete()})
    columns = {"next_at": PLANNED.format(made=made)} if planned_before else {}
    schedule = a_one_time_schedule(world, made=made, **columns)
    for _ in range(3):
        world.sql("update giftcard_schedules set check_at = now() - interval '1 second' where check_at is not null")
        world.tick()
    assert world.statuses() == ({"completed": 1} if runs else {})
    events = [line for line in log() if line["event"] == "schedule_paused"]
    if runs:
        assert (events, world.value("select count(*) from giftcard_schedules")) == ([], 0)
        return
    shown = world.client.get(f"/api/v1/schedules/{schedule}", headers=bearer(ADMIN)).json
    assert (shown["status"], shown["paused_by"], shown["missed"]) == ("paused", "tick", 1)
    assert shown["pause_reason"].endswith("was missed by a day or more")
    assert [(line["schedule_id"], line["error"]) for line in events] == [(schedule, shown["pause_reason"])]


def test_one_of_the_api_may_be_a_day_late_or_as_late_as_it_says(make_world: Make) -> None:
    world = make_world(handlers={"work": lambda payload, context: Complete()})
    body = {"schedule": "0 12 1 1 *", "stage": "work", "is_recurring": False}
    made = [
        world.client.post("/api/v1/schedules", json=body | more, headers=bearer(ADMIN)).json["catch_up_seconds"]
        for more in ({}, {"catch_up_seconds": 60}, {"is_recurring": True})
    ]
    assert made == [DAY, 60, 300]
