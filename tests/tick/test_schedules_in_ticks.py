"""One schedule stops neither the tick, nor the results beside it, nor another schedule."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Unavailable
from lib.job import Complete, Outcome
from lib.store.postgres import PostgresWire
from tests.support.triggers import defer, refuse, rows_line, silence
from tests.support.world import World

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]
DUE = "date_trunc('minute', now())"


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


def a_day_of(world: World) -> None:
    """Three jobs, a run of a killed function, and a schedule that is due: all of it has to go on."""
    world.enqueue("work", count=3)
    world.add("work", status="running", run_no=1, attempts=1, lease_expires_at="2020-01-01T00:00:00Z")
    world.sql(f"insert into giftcard_schedules (schedule, stage, next_at) values ('* * * * *', 'other', {DUE})")


def went_on(world: World) -> bool:
    report = world.tick()
    assert (report["completed"], report["retried"], report["scheduled"]) == (4, 1, 1)
    assert world.statuses() == {"completed": 4, "queued": 1}
    return True


# Postgres stores them in the schedule; what they become cannot be stored, read or counted.
HOSTILE = {
    "a stage too long for an index": ("stage", secrets.token_hex(4000)),
    "a tenant too long for an index": ("tenant_id", secrets.token_hex(1300)),
    "its version at the end": ("version", 2147483647),
    "its failures at the end": ("failures", 2147483647),
    "missed at the end": ("missed", 9223372036854775807),
    "skipped at the end": ("skipped", 9223372036854775807),
    "a number of 5,000 digits": ("payload", '{"n": ' + "9" * 5000 + "}"),
    "3,000 levels": ("payload", '{"d": ' + "[" * 3000 + "]" * 3000 + "}"),
    "a time beyond Python": ("next_at", "4713-01-01 BC"),
    "minus infinity": ("next_at", "-infinity"),
    "jobs that are none": ("open_jobs", "{NULL,0,-1,9223372036854775807}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_schedule_that_cannot_run_stops_nothing_else(make_world: Make, name: str) -> None:
    column, value = HOSTILE[name]
    world = make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)
    a_day_of(world)
    world.sql("set session_replication_role = replica")  # a row from before the table had its triggers
    world.sql(
        f"insert into giftcard_schedules (schedule, stage, next_at, {column}) values ('* * * * *', 'work', {DUE}, %s)"
        if column not in ("stage", "next_at")
        else "insert into giftcard_schedules (schedule, stage, next_at) values ('* * * * *', "
        + (f"%s, {DUE})" if column == "stage" else "'work', %s)"),
        value,
    )
    world.sql("reset session_replication_role")
    report = world.tick()
    made = report["scheduled"] - 1
    assert made in (0, 1)
    assert (report["completed"], report["retried"]) == (4 + made, 1)
    paused = world.sql("select id, paused_by, pause_reason from giftcard_schedules where paused_at is not null")
    assert [row["paused_by"] for row in paused] == ([] if made else ["tick"])


def test_schedule_that_cannot_even_be_paused_is_passed_over(make_world: Make, log: Log) -> None:
    world = make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)
    a_day_of(world)
    world.sql(f"insert into giftcard_schedules (id, schedule, stage, next_at) values (77, '* * * * *', 'work', {DUE})")
    refuse(world, "giftcard_schedules", "update or delete", "old.id = 77")
    assert went_on(world)
    assert "schedule 77 (passed over): its job cannot be stored: not this row" in rows_line(world)["message"]
    before = len(log())
    assert world.tick()["stopped_because"] == "drained"
    assert "schedule_paused" not in [line["event"] for line in log()[before:]]


@pytest.mark.parametrize("is_recurring", [True, False])
@pytest.mark.parametrize("linger", [0, 1])
def test_schedule_that_a_trigger_leaves_as_it_was_is_passed_over(
    make_world: Make, linger: int, is_recurring: bool
) -> None:
    world = make_world(
        handlers={"work": good, "other": good},
        GIFTCARD_JOBS_PER_CRON_RUN=20,
        GIFTCARD_TICK_LINGER=linger,
        GIFTCARD_TICK_BUDGET_SECONDS=4,
    )
    a_day_of(world)
    world.sql(
        "insert into giftcard_schedules (id, schedule, stage, next_at, is_recurring, last_at)"
        f" values (77, '* * * * *', 'work', {DUE}, %s, case when not %s then {DUE} - interval '1 minute' end)",
        *(is_recurring, is_recurring),
    )
    silence(world, "giftcard_schedules", "update or delete", "old.id = 77")
    report = world.tick()
    made = report["scheduled"]
    assert (report["completed"], made) == (3 + made, made)
    assert made in (1, 2)  # two, if it waits past the end of a minute
    assert report["calls"] <= 12
    assert "schedule 77 (passed over): " in rows_line(world)["message"]
    assert "a trigger leaves the row as it was (SQLSTATE 27000)" in rows_line(world)["message"]


def test_schedule_that_is_refused_at_the_commit_is_paused(make_world: Make) -> None:
    world = make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)
    a_day_of(world)
    world.sql(f"insert into giftcard_schedules (id, schedule, stage, next_at) values (77, '* * * * *', 'work', {DUE})")
    defer(world, "giftcard_jobs", "insert", "new.stage = 'work' and new.trigger_type = 'schedule'")
    assert went_on(world)
    assert world.sql("select id, paused_by from giftcard_schedules where paused_at is not null") == [
        {"id": 77, "paused_by": "tick"}
    ]


def test_schedule_that_is_passed_over_keeps_no_tick_waiting(make_world: Make) -> None:
    world = make_world(handlers={"work": good}, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=4)
    world.sql(f"insert into giftcard_schedules (schedule, stage, next_at) values ('* * * * *', 'work', {DUE})")
    refuse(world, "giftcard_schedules", "update", "true")
    world.tick()
    report = world.tick()
    assert (report["calls"], report["stopped_because"], report["next_due_at"]) == (1, "drained", None)


class _NoPlans(PostgresWire):
    failure: BaseException = Unavailable("gone")

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if function == "giftcard_enqueue_occurrences":
            raise self.failure
        return super().call(function, repeat=repeat, **arguments)


@pytest.mark.parametrize("failure", [Unavailable("gone"), KeyError("paused"), TypeError("a page of HTML")])
def test_plans_that_cannot_be_stored_lose_no_result_and_do_not_keep_the_tick(
    make_world: Make, database_url: str, log: Log, failure: BaseException
) -> None:
    wire = _NoPlans(database_url)
    wire.failure = failure
    world = make_world(handlers={"work": good, "other": good}, wire=wire, GIFTCARD_JOBS_PER_CRON_RUN=20)
    a_day_of(world)
    report = world.tick()
    assert (report["completed"], report["retried"], report["scheduled"]) == (3, 1, 0)
    assert report["stopped_because"] == "drained"
    assert [line["event"] for line in log()].count("planning_failed") == 1
    assert world.value("select count(*) from giftcard_schedules where check_at <= now()") == 1
