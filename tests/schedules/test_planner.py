"""What becomes of a schedule that is due, by its policies."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from lib.config.settings import Settings
from lib.job import Complete
from lib.jobs.enqueue import prepare
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from lib.schedules.planner import plan
from tests.support.planning import NOON, due, planned, times


def test_an_occurrence_becomes_a_job_and_the_next_is_ahead() -> None:
    assert planned(late=0.3) == {
        "id": 7,
        "version": 3,
        "next_at": "2026-01-01T12:00:10Z",
        "last_at": "2026-01-01T12:00:00Z",
        "jobs": [
            {
                "tenant_id": "acme",
                "stage": "report",
                "semantics": "at_least_once",
                "max_attempts": 4,
                "ttr_seconds": 60,
                "retry_delays": None,
                "priority": 0,
                "trigger_type": "schedule",
                "correlation_id": "schedule:7:2026-01-01T12:00:00Z",
                "scheduled_at": "2026-01-01T12:00:00Z",
            }
        ],
    }


def test_a_schedule_that_plain_sql_made_gets_its_first_time() -> None:
    assert planned(next_at=None, late=3) == {"id": 7, "version": 3, "next_at": "2026-01-01T12:00:10Z"}


# What was missed


def test_skip_runs_the_latest_alone() -> None:
    found = planned(late=35)
    assert times(found) == ["12:00:30"]
    assert (found["missed"], found["missed_at"]) == (3, "2026-01-01T12:00:20Z")


@pytest.mark.parametrize(("late", "run"), [(299.9, ["12:00:00"]), (300, [])])
def test_skip_runs_nothing_that_is_older_than_the_window(late: float, run: list[str]) -> None:
    found = planned(late=late, schedule="0 * * * *")
    assert times(found) == run
    assert found["next_at"] == "2026-01-01T13:00:00Z"
    assert found.get("missed", 0) == 1 - len(run)


def test_one_runs_the_latest_however_old() -> None:
    found = planned(late=9000, schedule="0 * * * *", missed_policy="one")
    assert times(found) == ["14:00:00"]
    assert (found["missed"], found["missed_at"]) == (2, "2026-01-01T13:00:00Z")


def test_all_runs_the_newest_up_to_the_cap() -> None:
    found = planned(late=45, missed_policy="all", missed_cap=3, overlap_policy="allow")
    assert times(found) == ["12:00:20", "12:00:30", "12:00:40"]
    assert (found["missed"], found["missed_at"]) == (2, "2026-01-01T12:00:10Z")
    assert found["next_at"] == "2026-01-01T12:00:50Z"


def test_all_in_a_queue_run_one_after_the_other() -> None:
    found = planned(late=45, missed_policy="all", missed_cap=3, overlap_policy="queue")
    assert times(found) == ["12:00:20"]
    assert (found["next_at"], found["missed"]) == ("2026-01-01T12:00:30Z", 2)
    after = planned(late=45, missed_policy="all", missed_cap=3, overlap_policy="queue", next_at="2026-01-01T12:00:30Z")
    assert (times(after), after["next_at"], "missed" in after) == (["12:00:30"], "2026-01-01T12:00:40Z", False)


@pytest.mark.parametrize("policy", ["skip", "one", "all"])
def test_what_was_missed_is_counted_to_a_thousand(policy: str) -> None:
    found = planned(late=100_000, schedule="* * * * * *", missed_policy=policy, overlap_policy="allow")
    run = 100 if policy == "all" else 1
    assert (len(times(found)), found["missed"]) == (run, 1000 - run)
    assert found["last_at"] == "2026-01-02T15:46:40Z"
    assert found["next_at"] == "2026-01-02T15:46:41Z"


# Overlap


def test_skip_drops_what_comes_while_a_job_has_not_ended() -> None:
    found = planned(late=0.2, unfinished=1)
    assert "jobs" not in found
    assert (found["skipped"], found["skipped_at"]) == (1, "2026-01-01T12:00:00Z")
    assert (found["next_at"], "missed" in found) == ("2026-01-01T12:00:10Z", False)


def test_allow_runs_beside_it() -> None:
    assert times(planned(unfinished=5, overlap_policy="allow")) == ["12:00:00"]


def test_queue_waits_for_its_end() -> None:
    found = planned(late=1, unfinished=1, overlap_policy="queue", busy_since=NOON.isoformat())
    assert found == {"id": 7, "version": 3, "next_at": "2026-01-01T12:00:00Z", "check_in": 1}


def test_who_waits_looks_the_less_often_the_longer() -> None:
    def check_in(**job: Any) -> float:
        waits: float = planned(late=600, unfinished=1, overlap_policy="queue", **job)["check_in"]
        return waits

    assert check_in(busy_since=(NOON + timedelta(seconds=500)).isoformat()) == 10
    assert check_in(busy_since=(NOON - timedelta(days=1)).isoformat()) == 60
    retry_at = (NOON + timedelta(seconds=640)).isoformat()
    assert check_in(busy_since=(NOON + timedelta(seconds=599)).isoformat(), busy_until=retry_at) == 40


# Pauses


def test_so_many_failures_in_a_row_pause_it() -> None:
    assert "jobs" in planned(failures=2, pause_after_failures=3)
    assert planned(failures=3, pause_after_failures=3)["pause"] == "3 occurrences in a row have failed"
    assert "jobs" in planned(failures=1000)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule": "every day"}, "it cannot be planned: schedule: the expression has 2 fields: use five fields"),
        ({"timezone": "Mars/Base"}, "it cannot be planned: timezone: there is no such time zone"),
        ({"next_at": "-infinity"}, "it cannot be planned: next_at: use a time well within the years 1 to 9999"),
        (
            {"schedule": "0 0 1 1 *", "next_at": "9999-12-31T23:59:59Z", "now": "9999-12-31T23:59:59Z"},
            "no further date matches its expression",
        ),
        ({"schedule": "0 0 31 2 *"}, "no further date matches its expression"),
        ({"next_at": "0001-01-01T00:00:00+00:00"}, "it cannot be planned: next_at: use a time well within"),
    ],
)
def test_one_that_cannot_be_planned_is_paused_and_stops_no_other(changes: dict[str, Any], reason: str) -> None:
    first, bad, last = plan([due(), due(**changes), due()])
    assert bad["pause"].startswith(reason)
    assert times(first) == times(last) == ["12:00:00"]


class Payload(BaseModel):
    a: str


def test_one_whose_payload_its_stage_does_not_take_is_paused_without_telling_the_payload() -> None:
    def prepared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return prepare(rows, Registry({"report": work}), Settings())

    work = stage("report", payload=Payload, circuit_of=lambda payload: payload.a)(lambda payload, context: Complete())
    bad, good = plan([due(payload={"a": 4711}), due(payload={"a": "report:1"})], prepare=prepared)
    assert bad["pause"] == "it cannot be planned: payload: a must be text"
    assert good["jobs"][0]["circuit"] == "report:1"


# Hooks, bounds


def test_a_payload_travels_only_if_a_hook_has_bent_it() -> None:
    def bent(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"payload": {"b": 2}, "delay_seconds": 5} for row in rows]

    assert "payload" not in planned()["jobs"][0]
    (found,) = plan([due()], prepare=bent)
    assert (found["jobs"][0]["payload"], found["jobs"][0]["delay_seconds"]) == ({"b": 2}, 5)


def test_a_step_makes_up_to_a_thousand_jobs_and_leaves_the_rest_due() -> None:
    many = [due(late=2000, missed_policy="all", overlap_policy="allow") for _ in range(50)]
    assert sum(len(one["jobs"]) for one in plan(many)) == 1000
    assert len(plan([due() for _ in range(50)])) == 50
