"""The overview's ticks: the last that was good, the newest, silence, and the clock's last 60 minutes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.factory import World
from tests.support.overview import add_tick, moved, overview

QUIET = dict.fromkeys(("ticks", "started", "failed", "doubled", "overlapping", "limit"), 0) | {"late_s": None}
MISSING = QUIET | {"missing": True}
EXPECTED = QUIET | {"missing": False, "ticks": 1, "late_s": 2}
NAMES = {
    "id", "source", "started_at", "ended_at", "duration_ms", "started", "completed", "retried", "errored", "snoozed",
    "interrupted", "stopped_because",
}  # fmt: skip


def at(minute: int, second: float = 2) -> datetime:
    """So many minutes before noon, and seconds after the full minute."""
    return datetime(2035, 1, 1, 12, tzinfo=UTC) - timedelta(minutes=minute) + timedelta(seconds=second)


def ticks(world: World) -> dict[str, Any]:
    world.now = at(0, 30)
    shown: dict[str, Any] = overview(world)["ticks"]
    return shown


def every_minute(world: World, *, but: tuple[int, ...] = ()) -> None:
    """Ticks as they should be, for more than an hour, and in the present minute."""
    for minute in reversed(range(62)):
        if minute not in but:
            add_tick(world, at(minute))


def strip(world: World) -> dict[int, Any]:
    """What is unusual in the last 60 minutes, by how many minutes ago."""
    return moved(ticks(world)["minutes"], EXPECTED)


def test_without_ticks_nothing_is_missing(world: World) -> None:
    assert moved(ticks(world)["minutes"], QUIET | {"missing": False}) == {}
    assert len(ticks(world)["minutes"]) == 60
    assert ticks(world) | {"minutes": 0} == {
        "last_good": None, "newest": None, "silent": False, "silence_began": None, "minutes": 0
    }  # fmt: skip


def test_ticks_as_they_should_be(world: World) -> None:
    every_minute(world)
    assert strip(world) == {}
    shown = ticks(world)
    assert (shown["silent"], shown["silence_began"]) == (False, None)
    assert shown["newest"] == shown["last_good"] | {"error": None}
    assert set(shown["last_good"]) == NAMES
    assert (shown["newest"]["duration_ms"], shown["newest"]["started_at"]) == (5000, "2035-01-01T12:00:02+00:00")


def test_what_a_tick_did_is_shown(world: World) -> None:
    numbers = {"started": 9, "completed": 4, "retried": 1, "errored": 2, "snoozed": 1, "interrupted": 1}
    add_tick(world, at(0), **numbers)
    assert numbers.items() <= ticks(world)["last_good"].items()
    assert ticks(world)["minutes"][-1]["started"] == 9


def test_minutes_that_the_clock_left_out_are_missing_but_not_the_present_one(world: World) -> None:
    every_minute(world, but=(0, 3, 4))
    assert strip(world) == {0: {"ticks": 0, "late_s": None}, **{n: _missing() for n in (3, 4)}}


def test_before_the_first_tick_nothing_is_missing(world: World) -> None:
    add_tick(world, at(5))
    add_tick(world, at(3))
    assert moved(ticks(world)["minutes"], QUIET | {"missing": False}) == {
        5: {"ticks": 1, "late_s": 2}, 4: {"missing": True}, 3: {"ticks": 1, "late_s": 2}, 2: {"missing": True},
        1: {"missing": True},
    }  # fmt: skip


def test_a_tick_that_took_its_time_covers_the_minutes_in_which_the_clock_did_not_call(world: World) -> None:
    every_minute(world, but=(1, 2, 3, 4, 5))
    add_tick(world, at(5), lasted=180)
    # It ended at 11:58:02: 11:56 and 11:57 are covered, 11:58 and 11:59 are not.
    covered = {"ticks": 0, "late_s": None}
    assert strip(world) == {4: covered, 3: covered, 2: _missing(), 1: _missing()}


def test_a_lingering_tick_makes_the_next_ones_overlap_until_it_ends(world: World) -> None:
    every_minute(world, but=(6,))
    add_tick(world, at(6), lasted=200)
    assert strip(world) == {n: {"overlapping": 1} for n in (5, 4, 3)}


def test_a_tick_that_is_under_way_overlaps_with_the_next(world: World) -> None:
    every_minute(world, but=(1,))
    add_tick(world, at(1), lasted=None)
    assert strip(world) == {0: {"overlapping": 1}}
    newest = ticks(world)["newest"]
    assert newest["id"] != ticks(world)["last_good"]["id"]
    assert [newest[name] for name in ("ended_at", "duration_ms", "stopped_because")] == [None] * 3


def test_a_killed_tick_has_failed_and_overlaps_with_none(world: World) -> None:
    every_minute(world, but=(4,))
    killed = add_tick(world, at(4), lasted=None)
    assert strip(world) == {4: {"failed": 1}}
    world.run("update giftcard_ticks set live_until = %s where id = %s", at(0), killed)
    assert strip(world) == {4: {"failed": 1}}


def test_a_second_delivery_is_doubled_and_does_not_overlap(world: World) -> None:
    every_minute(world, but=(2,))
    add_tick(world, at(2), lasted=20)
    add_tick(world, at(2, 4), lasted=0, stopped_because="duplicate")
    assert strip(world) == {2: {"ticks": 2, "doubled": 1}}


@pytest.mark.parametrize(
    ("why", "counted"),
    [("failed", {"failed": 1}), ("limit", {"limit": 1}), ("budget", {"limit": 1}), ("paused", {}), ("shutdown", {})],
)
def test_why_ticks_stopped_is_counted(world: World, why: str, counted: dict[str, int]) -> None:
    every_minute(world, but=(2,))
    add_tick(world, at(2), stopped_because=why)
    assert strip(world) == ({2: counted} if counted else {})


def test_only_the_clocks_first_call_of_a_minute_can_be_late(world: World) -> None:
    every_minute(world, but=(5, 6))
    add_tick(world, at(5, 1), source="manual", lasted=0)
    add_tick(world, at(5, 41.9))
    add_tick(world, at(5, 55))
    add_tick(world, at(6), source="cli")
    assert strip(world) == {5: {"ticks": 3, "late_s": 41}, 6: {"late_s": None}}


def test_a_silence_is_shown_with_its_beginning_until_a_tick_ends_it(world: World) -> None:
    every_minute(world, but=(0, 1, 2, 3))
    shown = ticks(world)
    assert (shown["silent"], shown["silence_began"]) == (True, "2035-01-01T11:56:07+00:00")
    add_tick(world, at(0))
    shown = ticks(world)
    assert (shown["silent"], shown["silence_began"]) == (False, None)


def test_a_failed_tick_is_the_newest_and_not_the_last_good_one(world: World) -> None:
    good = add_tick(world, at(1))
    failed = add_tick(world, at(0), stopped_because="failed", error="Unavailable: " + "x" * 900)
    shown = ticks(world)
    assert (shown["last_good"]["id"], shown["newest"]["id"]) == (good, failed)
    assert (shown["newest"]["error"][:14], len(shown["newest"]["error"])) == ("Unavailable: x", 500)


@pytest.mark.parametrize(
    "times",
    [
        {"started_at": "infinity"},
        {"started_at": "-infinity"},
        {"started_at": "2040-01-01Z", "ended_at": "2040-01-01Z"},
        {"started_at": "1970-01-01Z"},
    ],
)
def test_a_tick_at_a_time_without_sense_is_passed_over(world: World, times: dict[str, str]) -> None:
    every_minute(world)
    newest = ticks(world)["newest"]["id"]
    add_tick(world, at(3), **times)
    assert strip(world) == {}
    assert ticks(world)["newest"]["id"] == newest


@pytest.mark.parametrize("ended", ["infinity", "-infinity", "2040-01-01Z", "2034-12-31Z"])
def test_a_tick_whose_end_has_no_sense_is_not_good(world: World, ended: str) -> None:
    every_minute(world, but=(0,))
    good = ticks(world)["last_good"]["id"]
    newest = add_tick(world, at(0), ended_at=ended)
    shown = ticks(world)
    assert (shown["last_good"]["id"], shown["newest"]["id"]) == (good, newest)
    assert strip(world) == {}


def test_minutes_of_which_no_tick_is_read_are_not_missing(world: World) -> None:
    every_minute(world, but=(3,))
    world.run(
        """insert into giftcard_ticks (key, source, owner, started_at, live_until, ended_at, stopped_because, stages)
             select gen_random_uuid(), 'requeue', 'o', t, t, t, 'drained', '{}'
               from (select %s::timestamptz as t from generate_series(1, 1990) n) s""",
        at(2),
    )
    shown = ticks(world)["minutes"]
    assert [row["at"] for row in shown if row["missing"]] == ["2035-01-01T11:57:00+00:00"]
    assert [row["ticks"] for row in shown[-12:]] == [0, 1, 1, 1, 1, 1, 1, 1, 0, 1991, 1, 1]


def _missing() -> dict[str, Any]:
    return {name: value for name, value in MISSING.items() if value != EXPECTED[name]}
