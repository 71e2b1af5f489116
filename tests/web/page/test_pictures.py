"""Pictures: what a minute was, and where bars and dots are."""

import re
from typing import Any

import pytest

from lib.web.page import pictures
from tests.support.overviews import a_minute, before


def a_run(ago: int, **changes: int) -> dict[str, Any]:
    return {"at": before(minutes=ago), "succeeded": 0, "failed": 0, "interrupted": 0, "snoozed": 0} | changes


def a_start(ago: int, **changes: Any) -> dict[str, Any]:
    return {"at": before(minutes=ago), "runs": 3, "p50_ms": 200, "p95_ms": 900, "max_ms": 1000} | changes


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "worked"),
        ({"started": 0}, "idle"),
        ({"late_s": 21}, "late"),
        ({"late_s": 20}, "worked"),
        ({"late_s": None}, "worked"),
        ({"ticks": 2, "doubled": 1}, "doubled"),
        ({"ticks": 2, "overlapping": 1, "doubled": 1}, "overlapping"),
        ({"limit": 1, "late_s": 40}, "limit"),
        ({"failed": 1, "limit": 1}, "failed"),
        ({"ticks": 0, "started": 0, "late_s": None, "missing": True}, "missing"),
        ({"ticks": 0, "started": 0, "late_s": None}, ""),
    ],
)
def test_a_minute_is_what_matters_most_about_it(changes: dict[str, Any], kind: str) -> None:
    assert pictures.kind_of(a_minute(1, **changes)) == kind


def test_no_two_kinds_have_the_same_shape() -> None:
    """People who do not see colours see shapes."""
    assert {*pictures.SHAPES} == {*pictures.MINUTES, ""}
    assert len({pictures.swatch(kind) for kind in pictures.SHAPES}) == len(pictures.SHAPES)


def test_a_strip_counts_its_kinds_and_has_all_facts_of_a_minute() -> None:
    minutes = [a_minute(3), a_minute(2, started=0), a_minute(1, ticks=2, doubled=1, late_s=31, failed=1)]
    picture = pictures.strip(minutes)
    assert [(text, count) for _, text, count in picture.counts] == [("worked", 1), ("idle", 1), ("failed", 1)]
    assert [column.text for column in picture.columns] == [
        "worked",
        "no job was due",
        "1 tick failed, 1 tick called twice, 31 s late",
    ]
    assert [column.place for column in picture.columns] == [0, 1, 2]


def test_what_has_one_kind_is_one_path() -> None:
    picture = pictures.strip([a_minute(3, started=0), a_minute(2, failed=1), a_minute(1, started=0)])
    assert [kind for kind, _ in picture.paths] == ["idle", "failed"]
    assert dict(picture.paths)["idle"] == "M14 820V1000h72V820zM214 820V1000h72V820z"
    runs = pictures.bars([a_run(2, succeeded=80, failed=20), a_run(1, succeeded=10)])
    assert dict(runs.paths) == {"succeeded": "M50 1000V200M150 1000V900", "failed": "M50 200V0"}


def test_minutes_that_ran_more_are_higher_but_never_as_high_as_trouble() -> None:
    picture = pictures.strip([a_minute(1, started=n) for n in (1, 10, 100, 10_000)])
    heights = [1000 - int(top) for top in re.findall(r"M\d+ (\d+)V", dict(picture.paths)["worked"])]
    assert heights == sorted(heights)
    assert 180 < heights[0] < heights[1] < heights[-1] <= 800


def test_bars_are_stacked_to_the_scale() -> None:
    picture = pictures.bars([a_run(2, succeeded=80, failed=20), a_run(1)])
    assert picture.marks == ((0.0, "100"), (50.0, "50"))
    assert picture.columns[0].parts == (("succeeded", 20.0, 80.0), ("failed", 0.0, 20.0))
    assert picture.columns[1].parts == ()


@pytest.mark.parametrize(
    ("most", "top"), [(1, 1), (2, 2), (3, 5), (7, 10), (11, 20), (99, 100), (101, 200), (10**9, 10**9)]
)
def test_a_scale_ends_at_a_round_number(most: int, top: int) -> None:
    picture = pictures.bars([a_run(1, succeeded=most)])
    assert picture.columns[0].parts == (
        ("succeeded", round(100 - max(2.5, 100 * most / top), 2), round(100 * most / top, 2)),
    )


def test_one_failed_run_of_thousands_is_seen() -> None:
    (column,) = pictures.bars([a_run(1, succeeded=9999, failed=1)]).columns
    assert column.parts[1][2] >= 2


def test_a_bar_stays_within_its_picture() -> None:
    (column,) = pictures.bars([a_run(1, succeeded=9997, snoozed=1, interrupted=1, failed=1)]).columns
    assert all(0 <= y <= 100 and 0 <= y + height <= 100 for _, y, height in column.parts)


def test_hours_have_their_days() -> None:
    hours = [a_run(0, succeeded=1) | {"at": before(hours=ago, minutes=5, seconds=10)} for ago in range(40, -1, -1)]
    assert [day for _, day in pictures.bars(hours, hours=True).days] == ["Sat", "Sun"]


def test_no_runs_are_an_empty_picture() -> None:
    assert pictures.bars([]).columns == ()
    assert pictures.bars([a_run(1)]).counts == ()
    assert pictures.spread([]).columns == ()
    assert pictures.spread([a_start(1, runs=0, p50_ms=None, p95_ms=None, max_ms=None)]).columns == ()


def test_delays_are_on_a_logarithmic_scale_that_has_room_for_the_slowest() -> None:
    picture = pictures.spread([a_start(2, p50_ms=0, p95_ms=100), a_start(1, p50_ms=1000, p95_ms=1000)])
    assert [text for _, text in picture.marks] == ["10 ms", "100 ms", "1 s"]
    assert [part[1] for column in picture.columns for part in column.parts] == [50.0, 100.0, 0.0, 0.0]
    slow = pictures.spread([a_start(1, p95_ms=5 * 60_000)])
    assert slow.marks[-1] == (0.0, "10 min")
    assert pictures.spread([a_start(1, p95_ms=10**12)]).columns[0].parts[0][1] == 0
