"""The times of expressions, as the contract's table has them, in every time zone and over every change of its clock."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import Invalid
from lib.schedules.cron import Times
from lib.schedules.planner import utc_text
from tests.support.cases import CASES

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CRON = CASES["cron"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def local_days(expression: str, zone: str, start: str, *, days: int = 4) -> Counter[str]:
    """How many runs each local day has."""
    times = Times(expression, zone).between(at(start), at(start) + timedelta(days=days), limit=100_000)
    return Counter(str(time.astimezone(ZoneInfo(zone)).date()) for time in times)


@pytest.mark.parametrize("case", [c for c in CRON["examples"] if "next" in c], ids=lambda c: c["expression"])
def test_the_next_times_are_those_of_the_contract(case: dict[str, Any]) -> None:
    times = Times(case["expression"]).after(at(case["from"]))
    assert [utc_text(time) for time in islice(times, len(case["next"]))] == case["next"]


@pytest.mark.parametrize("case", [c for c in CRON["examples"] if "timezone" in c], ids=lambda c: c["expression"])
def test_a_day_on_which_the_clock_is_changed_has_the_runs_of_the_contract(case: dict[str, Any]) -> None:
    found = local_days(case["expression"], case["timezone"], case["from"])
    assert {day: found[day] for day in case["runs_on_local_day"]} == case["runs_on_local_day"]
    # The days around it too.
    assert set(found.values()) == {1}


@pytest.mark.parametrize("expression", CRON["refused"])
def test_what_the_contract_refuses_is_refused(expression: str) -> None:
    with pytest.raises(Invalid) as caught:
        Times(expression).upcoming(NOW, limit=5)
    assert caught.value.field == "schedule"


def test_what_has_no_time_any_more_is_refused() -> None:
    with pytest.raises(Invalid, match="no date matches"):
        Times("0 0 1 1 *").upcoming(datetime(9999, 12, 31, tzinfo=UTC), limit=1)


def test_a_time_that_does_not_exist_is_made_up_for_when_the_clock_goes_on() -> None:
    (time,) = Times("30 2 * * *", "America/New_York").upcoming(at("2026-03-08T00:00:00-05:00"), limit=1)
    assert time == at("2026-03-08T03:00:00-04:00")


def test_a_time_that_comes_twice_counts_the_first_time() -> None:
    times = Times("30 1 * * *", "America/New_York")
    assert times.upcoming(at("2026-11-01T00:00:00-04:00"), limit=1) == [at("2026-11-01T01:30:00-04:00")]
    # Between the two: the next is tomorrow's.
    assert times.upcoming(at("2026-11-01T01:10:00-05:00"), limit=1) == [at("2026-11-02T01:30:00-05:00")]


def test_six_fields_go_by_the_same_rule() -> None:
    assert local_days("0 30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z")["2026-03-08"] == 1
    assert local_days("0 30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z")["2026-11-01"] == 1
    # Six runs in a minute that comes twice are six runs.
    assert local_days("*/10 30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z")["2026-11-01"] == 6
    assert local_days("*/10 30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z")["2026-03-08"] == 6


def test_in_the_minute_that_is_made_up_for_one_can_begin_anywhere() -> None:
    times = Times("*/10 30 2 * * *", "America/New_York")
    assert times.upcoming(at("2026-03-08T03:00:15-04:00"), limit=1) == [at("2026-03-08T03:00:20-04:00")]


def test_what_runs_every_hour_follows_the_clock_on_the_wall() -> None:
    assert local_days("0 * * * *", "Europe/Berlin", "2026-03-28T12:00:00Z")["2026-03-29"] == 23
    assert local_days("0 * * * *", "Europe/Berlin", "2026-10-24T12:00:00Z")["2026-10-25"] == 25


def test_a_time_zone_moves_the_times() -> None:
    (time,) = Times("0 9 * * *", "Asia/Kathmandu").upcoming(NOW, limit=1)
    assert utc_text(time) == "2026-01-02T03:15:00Z"


# Properties

ZONES = (
    "UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll",
    "Africa/Casablanca", "Africa/Cairo", "Pacific/Apia",
)  # fmt: skip


def parts(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        numbers.map(str),
        st.integers(1, high + 3).map(lambda step: f"*/{step}"),
        st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        st.lists(numbers, min_size=2, max_size=4).map(lambda some: ",".join(map(str, some))),
        st.sampled_from(
            ["L", "LW", "1#2", "5L", "MON-FRI", "L/2", "1L,2", "6L,3", "JAN", "x", "", "1-", "/2", "#", "٣"]
        ),
    )


expressions = st.tuples(st.just("") | parts(0, 59), parts(0, 59), parts(0, 23), parts(1, 31), parts(1, 12), parts(0, 7))
# The year's changes of clocks among them, and the day that Samoa left out.
moments = st.integers(0, 370 * 86_400).map(lambda s: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=s))
moments |= st.integers(0, 4 * 86_400).map(lambda s: datetime(2011, 12, 28, tzinfo=UTC) + timedelta(seconds=s))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(fields=expressions, zone=st.sampled_from(ZONES), start=moments)
def test_times_go_up_and_do_not_depend_on_where_one_begins(fields: Any, zone: str, start: datetime) -> None:
    try:
        times = Times(" ".join(fields), zone)
        found = list(islice(times.after(start), 30))
    except Invalid:
        return
    assert all(one < other for one, other in zip([start, *found], found, strict=False))
    if len(found) > 10:
        middle = random.Random(len(found)).choice(found[:-10])
        place = found.index(middle)
        assert list(islice(times.after(middle), 5)) == found[place + 1 : place + 6]
        assert times.newest(start, found[-1], limit=3) == found[-3:]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_the_newest_of_a_hundred_thousand_are_found_without_counting_them(zone: str) -> None:
    times = Times("* * * * * *", zone)
    end = NOW + timedelta(seconds=100_000.5)
    assert times.newest(NOW, end, limit=2) == [NOW + timedelta(seconds=s) for s in (99_999, 100_000)]
