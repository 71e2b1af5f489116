"""Ticks that do not come, or not as they should, or that do not suffice."""

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest

from lib.job import Complete, Outcome
from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


def run_clock(world: World, times: int, *, every: float = 60) -> None:
    """So many calls of the clock, the last one now."""
    for number in range(times):
        if number:
            world.move(every)
        world.tick()


def begin(world: World, *, live_seconds: float = 99, **more: Any) -> None:
    """A call of the clock's that has begun, and goes on as long as something is due some day."""
    usual: dict[str, Any] = {
        "owner": "w",
        "source": "cron",
        "stages": {"email": 60},
        "limit": 1,
        "linger_seconds": 1e10,
    }
    world.store.begin_tick(key=str(uuid.uuid4()), live_seconds=live_seconds, **usual | more)


# Whether they come


def test_a_clock_that_never_called_is_red(world: World, examined: Examine) -> None:
    lines = examined(world)
    assert levels(lines) == {"ticks": "red"}
    assert lines["ticks"]["message"] == "the clock has not called yet"


@pytest.mark.parametrize(("later", "level"), [(170, "green"), (190, "red")])
def test_a_clock_that_has_stopped_is_red_after_three_minutes(
    healthy: World, examined: Examine, later: float, level: str
) -> None:
    assert examined(healthy, later=later)["ticks"]["level"] == level


def test_a_persons_tick_is_not_the_clocks(world: World, examined: Examine) -> None:
    world.run(source="manual")
    assert examined(world)["ticks"]["level"] == "red"


def test_ticks_of_others_do_not_hide_the_clocks(healthy: World, examined: Examine) -> None:
    for _ in range(25):
        healthy.run(source="manual")
    assert levels(examined(healthy)) == {}


def test_killed_ticks_are_counted(world: World, examined: Examine) -> None:
    world.enqueue("email", scheduled_at="2100-01-01")
    begin(world, live_seconds=9)
    world.move(60)
    world.tick()
    line = examined(world)["ticks"]
    assert (line["level"], line["message"]) == ("yellow", "1 of the last 2 ticks were killed before their end")


def test_a_tick_that_still_runs_was_not_killed(world: World, examined: Examine) -> None:
    world.enqueue("email", scheduled_at="2100-01-01")
    begin(world, live_seconds=99)
    assert examined(world)["ticks"]["level"] == "green"


def test_while_paused_by_the_setting_no_tick_is_missed(make_world: Make, examined: Examine) -> None:
    line = examined(make_world(GIFTCARD_PAUSED=1))["ticks"]
    assert (line["level"], line["fix"]) == ("yellow", "unset it to resume")


def test_a_preview_deployment_misses_no_tick(make_world: Make, examined: Examine) -> None:
    assert examined(make_world(VERCEL_ENV="preview"))["ticks"]["message"] == "a preview deployment runs no tick"
    assert examined(make_world(VERCEL_ENV="preview", GIFTCARD_ALLOW_PREVIEW=1))["ticks"]["level"] == "red"


# The rhythm


def test_one_call_a_minute_is_green(world: World, examined: Examine) -> None:
    run_clock(world, 8)
    line = examined(world)["rhythm"]
    assert (line["level"], line["message"]) == ("green", "one call a minute")


@pytest.mark.parametrize(("every", "level"), [(119, "green"), (140, "yellow")])
def test_a_minute_without_a_call_is_told(world: World, examined: Examine, every: float, level: str) -> None:
    """A cron may call at any second of its minute: nearly two minutes may lie between two calls on time."""
    run_clock(world, 2, every=every)
    line = examined(world)["rhythm"]
    assert line["level"] == level
    assert ("up to 2 min between two" in line["message"]) is (level == "yellow")


@pytest.mark.parametrize(("times", "level"), [(5, "green"), (6, "yellow")])
def test_two_clocks_are_told(world: World, examined: Examine, times: int, level: str) -> None:
    run_clock(world, times, every=25)
    line = examined(world)["rhythm"]
    assert line["level"] == level
    assert ("6 calls within 2 min" in line["message"]) is (level == "yellow")


def test_a_call_delivered_twice_is_told(world: World, examined: Examine) -> None:
    for _ in range(2):
        begin(world, execution_id="e-1")
    assert "1 calls were delivered twice" in examined(world)["rhythm"]["message"]


@pytest.mark.parametrize(("takes", "level"), [(55, "green"), (70, "yellow")])
def test_ticks_that_overlap_are_told(world: World, examined: Examine, takes: float, level: str) -> None:
    run_clock(world, 6)
    world.sql("update giftcard_ticks set ended_at = started_at + make_interval(secs => %s)", takes)
    line = examined(world)["rhythm"]
    assert line["level"] == level
    assert ("5 of 5 began before" in line["message"]) is (level == "yellow")


# Whether they suffice


def slow(payload: Any, context: Any) -> Outcome:
    time.sleep(0.2)
    return Complete()


TOO_LITTLE = [
    ("limit", "GIFTCARD_JOBS_PER_CRON_RUN", {"GIFTCARD_JOBS_PER_CRON_RUN": 1}),
    ("budget", "GIFTCARD_CONCURRENCY", {"GIFTCARD_CONCURRENCY": 1, "GIFTCARD_TICK_BUDGET_SECONDS": 0.1}),
]


@pytest.mark.parametrize(("reason", "setting", "environ"), TOO_LITTLE)
def test_what_to_raise_is_told_once_ticks_keep_leaving_work(
    make_world: Make, examined: Examine, reason: str, setting: str, environ: dict[str, Any]
) -> None:
    world = make_world(handlers={"slow": slow}, **environ)
    world.enqueue("slow", count=4)
    run_clock(world, 2)
    assert examined(world)["limit"]["level"] == "green", "twice is no habit yet"
    world.tick()
    line = examined(world)["limit"]
    assert (line["level"], line["message"]) == (
        "yellow",
        f"the last 3 ticks stopped at the {reason} with due jobs left",
    )
    assert line["fix"] == f"raise {setting}, now 1, and deploy again"
    world.tick()
    assert world.statuses() == {"completed": 4}
    assert examined(world)["limit"]["level"] == "green", "nothing is left"


@pytest.mark.parametrize("later", [{"scheduled_at": "2100-01-01"}, {"stage": "unknown"}])
def test_what_no_tick_could_start_is_no_reason_to_raise_anything(
    make_world: Make, examined: Examine, later: dict[str, str]
) -> None:
    world = make_world(handlers={"slow": slow}, GIFTCARD_JOBS_PER_CRON_RUN=1)
    world.enqueue("slow", count=3)
    world.enqueue(**({"stage": "slow"} | later))
    run_clock(world, 3)
    assert examined(world)["limit"]["level"] == "green"


@pytest.mark.parametrize(("reason", "setting", "environ"), TOO_LITTLE)
def test_the_clocks_report_says_what_to_raise_while_work_is_left(
    make_world: Make, reason: str, setting: str, environ: dict[str, Any]
) -> None:
    world = make_world(handlers={"slow": slow}, **environ)
    world.enqueue("slow", count=2)
    first, second, third = world.tick(), world.tick(), world.tick()
    assert first["advice"] == f"due jobs are left: if ticks keep stopping at the {reason}, raise {setting}"
    assert (second["stopped_because"], second["advice"]) == (reason, None), "nothing was left"
    assert (third["stopped_because"], third["advice"]) == ("drained", None)


@pytest.mark.parametrize("hours", [-8, 8])
def test_the_advice_follows_the_databases_clock(make_world: Make, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    class Skewed(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Skewed":
            return super().now(tz) + timedelta(hours=hours)

    monkeypatch.setattr("lib.tick.report.datetime", Skewed, raising=False)
    world = make_world(handlers={"slow": slow}, GIFTCARD_JOBS_PER_CRON_RUN=1)
    world.enqueue("slow", count=2)
    world.enqueue("slow", scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    assert [world.tick()["advice"] is not None for _ in range(3)] == [True, False, False]


def test_the_advice_sees_a_job_that_is_due_since_ever(make_world: Make) -> None:
    world = make_world(handlers={"slow": slow}, GIFTCARD_JOBS_PER_CRON_RUN=1)
    for moment in ("-infinity", "-infinity", "infinity"):
        world.enqueue("slow", scheduled_at=moment)
    reports = [world.tick() for _ in range(3)]
    assert [report["advice"] is not None for report in reports] == [True, False, False]


def test_a_limit_that_the_caller_set_needs_no_advice(make_world: Make) -> None:
    world = make_world(handlers={"slow": slow})
    world.enqueue("slow", count=2)
    report = world.client.post("/api/jobs/run", json={"limit": 1}, headers=bearer(ADMIN)).json
    assert (report["stopped_because"], report["advice"]) == ("limit", None)
