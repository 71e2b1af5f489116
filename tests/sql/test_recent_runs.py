"""Runs by minute and hour: the same whether they are folded already or read from the history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.job import Error, Release, Retry, Snooze
from tests.support.factory import World
from tests.support.overview import add_run, fold, moved, overview

NO_RUNS = dict.fromkeys(("succeeded", "failed", "interrupted", "snoozed"), 0)
NO_STARTS = {"runs": 0, "p50_ms": None, "p95_ms": None, "max_ms": None}


def ago(world: World, **time: float) -> datetime:
    assert world.now
    return world.now - timedelta(**time)


def stage(world: World, name: str = "email") -> dict[str, Any]:
    (found,) = (row for row in overview(world)["stages"] if row["stage"] == name)
    return {key: found[key] for key in ("runs", "succeeded", "p50_ms", "p95_ms")}


@pytest.fixture(params=["folded", "live", "half of each"])
def look(request: pytest.FixtureRequest) -> Any:
    """The overview of runs, in each way that they can be kept."""

    def looked(world: World) -> dict[str, Any]:
        if request.param == "half of each":
            world.call("update_counters", limit=3)
        elif request.param == "folded":
            fold(world)
        return overview(world)

    return looked


def test_there_are_sixty_minutes_and_168_hours_even_if_nothing_ran(world: World) -> None:
    world.later(61)
    shown = overview(world)
    minutes, hours, starts = shown["runs"]["minutes"], shown["runs"]["hours"], shown["starts"]
    assert [len(minutes), len(hours), len(starts)] == [60, 168, 60]
    assert (minutes[0]["at"], minutes[-1]["at"]) == ("2035-01-01T11:02:00+00:00", "2035-01-01T12:01:00+00:00")
    assert (hours[0]["at"], hours[-1]["at"]) == ("2034-12-25T13:00:00+00:00", "2035-01-01T12:00:00+00:00")
    assert [row["at"] for row in starts] == [row["at"] for row in minutes]
    assert moved(minutes, NO_RUNS) == moved(hours, NO_RUNS) == moved(starts, NO_STARTS) == {}


def test_runs_are_counted_by_the_minute_and_the_hour_in_which_they_ended(world: World, look: Any) -> None:
    for seconds in (20, 59, 61, 3540 + 59):
        add_run(world, ago(world, seconds=seconds))
    add_run(world, ago(world, seconds=70), result="FAILED")
    add_run(world, ago(world, hours=2), result="INTERRUPTED")
    add_run(world, ago(world, hours=167), result="SNOOZED")
    add_run(world, ago(world, hours=168, seconds=1))
    world.later(0.5)
    shown = look(world)["runs"]
    assert moved(shown["minutes"], NO_RUNS) == {1: {"succeeded": 2}, 2: {"succeeded": 1, "failed": 1}}
    assert moved(shown["hours"], NO_RUNS) == {
        1: {"succeeded": 4, "failed": 1}, 2: {"interrupted": 1}, 167: {"snoozed": 1}
    }  # fmt: skip


def test_a_stage_has_its_runs_of_the_last_hour_and_how_long_they_took(world: World, look: Any) -> None:
    for number in range(1, 21):
        add_run(world, ago(world, seconds=60 + number), took=number)
    add_run(world, ago(world, seconds=90), took=100, result="FAILED")
    add_run(world, ago(world, seconds=90), took=9000, result="INTERRUPTED")  # nobody knows when its function was killed
    add_run(world, ago(world, seconds=90), took=9000, result="SNOOZED")
    add_run(world, ago(world, seconds=90), took=9000, result="RELEASED")
    add_run(world, ago(world, hours=2), took=9000)
    (shown,) = (row for row in look(world)["stages"] if row["stage"] == "email")
    # 11 s is the 11th of 21, 20 s the 20th; 12 s is in the same bucket as 11 s: 10.0 to 12.6 s.
    assert {key: shown[key] for key in ("runs", "succeeded", "p50_ms", "p95_ms")} == {
        "runs": 22, "succeeded": 20, "p50_ms": 12_000, "p95_ms": 20_000
    }  # fmt: skip


def test_starts_have_how_long_after_their_time_they_began(world: World, look: Any) -> None:
    for late in (0, 0.4, 2, 2, 2):
        add_run(world, ago(world, seconds=40), took=30, late=late)  # began in the minute before
    add_run(world, ago(world, seconds=40), took=1, late=-5)  # on request, before its time
    add_run(world, ago(world, seconds=40), took=1, late=7, result="RELEASED")
    add_run(world, ago(world, seconds=40), took=1, late=300, result="INTERRUPTED")
    assert moved(look(world)["starts"], NO_STARTS) == {
        1: {"runs": 1, "p50_ms": 300_000, "p95_ms": 300_000, "max_ms": 300_000},
        2: {"runs": 5, "p50_ms": 2000, "p95_ms": 2000, "max_ms": 2000},
    }


def test_what_settles_write_is_counted(world: World) -> None:
    world.completed()
    world.settled(Retry(delay=9, error="E: no"))
    world.settled(Error(error="E: no"))
    world.settled(Snooze(delay=9, waiting_for="it"))
    world.settled(Release())
    present = overview(world)["runs"]["minutes"][-1]
    assert present == {"at": "2035-01-01T12:00:00+00:00"} | NO_RUNS | {"succeeded": 1, "failed": 2, "snoozed": 1}
    assert stage(world) == {"runs": 3, "succeeded": 1, "p50_ms": 0, "p95_ms": 0}


def test_a_run_is_counted_once_however_often_it_is_folded(world: World) -> None:
    for seconds in range(5):
        add_run(world, ago(world, seconds=30 + seconds))
    assert [int(world.call("update_counters", limit=2)) for _ in range(4)] == [2, 2, 1, 0]
    add_run(world, ago(world, seconds=15))
    assert [fold(world), fold(world)] == [1, 0]
    assert moved(overview(world)["runs"]["minutes"], NO_RUNS) == {1: {"succeeded": 6}}
    assert world.rows("select sum(runs) as runs from giftcard_run_minutes") == [{"runs": 6}]


def test_runs_of_the_last_ten_seconds_are_not_folded_yet(world: World) -> None:
    add_run(world, ago(world, seconds=9))
    assert fold(world) == 0
    world.later(1)
    assert fold(world) == 1


def test_a_fold_forgets_what_is_not_shown_any_more_and_what_is_from_the_future(world: World) -> None:
    add_run(world, ago(world, seconds=30))
    world.run("insert into giftcard_run_minutes values (%s, 'email', 'SUCCESS', 1, 1, 1)", ago(world, hours=3))
    world.run("insert into giftcard_run_minutes values (%s, 'email', 'SUCCESS', 1, 1, 1)", ago(world, hours=-3))
    world.run("insert into giftcard_start_minutes values (%s, 1, 1, 1)", ago(world, hours=3))
    world.run("insert into giftcard_run_hours values (%s, 'SUCCESS', 1)", ago(world, hours=193))
    fold(world)
    kept = [world.rows(f"select runs from giftcard_{table}") for table in ("run_minutes", "start_minutes", "run_hours")]
    assert kept == [[{"runs": 1}]] * 3


def test_old_runs_are_folded_into_hours_only(world: World) -> None:
    add_run(world, ago(world, hours=3))
    add_run(world, ago(world, hours=200))
    assert fold(world) == 2
    assert world.rows("select * from giftcard_run_minutes") == []
    assert world.rows("select runs from giftcard_run_hours") == [{"runs": 1}]


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize(
    ("times", "took"),
    [
        ({"started_at": "infinity"}, None),
        ({"started_at": "-infinity"}, None),
        ({"scheduled_at": "-infinity"}, 1000),
        ({"scheduled_at": "4713-01-01 BC"}, 1000),
        ({"started_at": "2050-01-01Z"}, 0),  # a clock that went back
        ({"started_at": "4713-01-01 BC", "scheduled_at": "4713-01-01 BC"}, 212_914_785_570_000),
    ],
)
def test_times_without_sense_hurt_nothing(world: World, folded: bool, times: dict[str, str], took: int | None) -> None:
    add_run(world, ago(world, seconds=30), **times)
    if folded:
        fold(world)
    assert moved(overview(world)["runs"]["minutes"], NO_RUNS) == {1: {"succeeded": 1}}
    assert stage(world) == {"runs": 1, "succeeded": 1, "p50_ms": took, "p95_ms": took}


@pytest.mark.parametrize("folded", [False, True])
def test_an_end_without_sense_counts_nowhere(world: World, folded: bool) -> None:
    for ended in ("infinity", "-infinity", "2040-01-01Z"):
        add_run(world, ended, started_at=world.now, scheduled_at=world.now)
    if folded:
        assert fold(world) == 0
    assert moved(overview(world)["runs"]["hours"], NO_RUNS) == {}


def test_a_name_that_is_too_long_for_an_index_is_cut(world: World) -> None:
    add_run(world, ago(world, seconds=30), stage="".join(chr(0x4E00 + n) for n in range(20_000)))
    assert fold(world) == 1
    ((name, runs),) = ((row["stage"], row["runs"]) for row in overview(world)["stages"] if row["runs"])
    assert (len(name), runs) == (200, 1)


def test_after_a_jump_of_the_clock_runs_are_counted_again(world: World) -> None:
    world.later(5 * 3600)
    add_run(world, ago(world, seconds=30))
    fold(world)
    world.later(-5 * 3600)
    assert moved(overview(world)["runs"]["hours"], NO_RUNS) == {}
    world.run("update giftcard_counter_watermarks set until = %s", ago(world, seconds=10))  # as a tick's begin does
    world.later(30)
    add_run(world, ago(world, seconds=15))
    assert fold(world) == 1
    assert moved(overview(world)["runs"]["hours"], NO_RUNS) == {0: {"succeeded": 1}}


def test_in_a_time_zone_of_half_hours_the_hours_are_those_of_utc(world: World) -> None:
    world.run("set timezone to 'Asia/Kolkata'")
    add_run(world, datetime(2035, 1, 1, 11, 40, tzinfo=UTC))
    fold(world)
    assert moved(overview(world)["runs"]["hours"], NO_RUNS) == {1: {"succeeded": 1}}
