"""The times of expressions around each change of a clock, in every time zone, compared with a slow second opinion."""

import random
import re
from datetime import datetime, timedelta

import pytest

from lib.schedules.cron import Times
from lib.schedules.planner import utc_text
from tests.support.pages import TEXTS
from tests.support.planning import planned
from tests.support.wall_clock import DAY, HOUR, MINUTE, NAMES, Window, an_expression, changes_of, zone_of

# Changes at midnight and next to it, by half an hour, two, three and a whole day, twice in spring, for good.
ODD = (
    "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Caracas", "America/Havana", "America/Sao_Paulo",
    "America/Scoresbysund", "Antarctica/Casey", "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Pyongyang",
    "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Volgograd", "Pacific/Apia",
)  # fmt: skip
# Another seed makes up other expressions. A test that fails names it.
SEED = 20_261_129


def compare(name: str, change: datetime, dice: random.Random, *, expressions: int, around: timedelta) -> int:
    """Compare some expressions around one change. Return how many of them have times there."""
    window = Window(name, change, around=around, beyond=3 * HOUR)
    wall = change.astimezone(zone_of(name)).replace(tzinfo=None)
    compared = 0
    for _ in range(expressions):
        # About what the clock shows before, at, and after the change.
        expression = an_expression(dice, wall + dice.choice((-61, -31, -1, 0, 29)) * MINUTE)
        expected = window.times(expression)
        times = Times(expression.text, name)
        found = times.between(window.start, window.end, limit=10_000)
        case = f"seed {SEED}: {expression.text!r} in {name} around {change}"
        assert found == expected, case
        compared += bool(expected)
        # From any moment on, the same follow, and the newest are the last of them.
        if dice.random() < 0.1:
            moment = window.start + timedelta(seconds=dice.randrange(int(2 * around.total_seconds())))
            after = [time for time in expected if time > moment]
            assert times.between(moment, window.end, limit=3) == after[:3], case
            assert times.newest(moment, window.end, limit=2) == after[-2:], case
    return compared


def test_times_around_odd_changes_are_those_of_the_rule() -> None:
    dice = random.Random(SEED)
    changes = changes_of(ODD, 2010, 2027)
    found = {zone_of(name).key for name, _ in changes}
    assert found == set(ODD), "each of them changes its clock in its own way"
    one_of_each = [dice.choice([change for change in changes if change[0] == name]) for name in ODD]
    compared = sum(compare(name, change, dice, expressions=2, around=HOUR) for name, change in one_of_each)
    assert compared > 5


@pytest.mark.slow
def test_times_around_every_change_are_those_of_the_rule() -> None:
    dice = random.Random(SEED)
    changes = changes_of(NAMES, 2015, 2035)
    assert len(changes) > 1000
    compared = sum(compare(name, change, dice, expressions=2, around=1.5 * HOUR) for name, change in changes)
    assert compared > 1000


@pytest.mark.parametrize("policy", ["skip", "one", "all"])
def test_ticks_leave_out_no_time_around_a_change_and_double_none(policy: str) -> None:
    dice = random.Random(SEED)
    for name, change in dice.sample(changes_of(ODD, 2010, 2027), 12):
        window = Window(name, change, around=2 * HOUR, beyond=3 * HOUR)
        expression = an_expression(dice, change.astimezone(zone_of(name)).replace(tzinfo=None))
        case = f"seed {SEED}: {expression.text!r} in {name} around {change}"
        expected = list(map(utc_text, window.times(expression)))
        handled: list[str] = []
        missed = 0
        schedule = {"schedule": expression.text, "timezone": name, "missed_policy": policy}
        schedule |= {"overlap_policy": "allow", "catch_up_seconds": 600}
        next_at, now = expected[0] if expected else utc_text(window.end), window.start
        while expected and now < window.end:
            now = min(now + timedelta(seconds=dice.choice((1, 60, 60, 1800, 9000))), window.end)
            if utc_text(now) < next_at:
                continue
            plan = planned(now=now.isoformat(), next_at=next_at, **schedule)
            handled += [job["scheduled_at"] for job in plan.get("jobs", [])]
            missed += plan.get("missed", 0)
            next_at = plan["next_at"]
        assert handled == sorted(set(handled)), case
        assert set(handled) <= set(expected), case
        assert len(handled) + missed == len(expected), case


ROWS = re.findall(r"(?m)^\| (\w+/\w+) ([\d-]{10}) \|[^|]*\| `([^`]+)` \| ([^|]+) \|$", TEXTS["schedules"])


@pytest.mark.parametrize(("name", "day", "expression", "runs"), ROWS)
def test_the_examples_of_the_page_are_right(name: str, day: str, expression: str, runs: str) -> None:
    zone = zone_of(name)
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=zone)
    between = Times(expression, name).between(noon - 2 * DAY, noon + 2 * DAY, limit=500)
    times = [time.astimezone(zone) for time in between]
    found = [f"{time:%H:%M}" for time in times if str(time.date()) == day]
    assert runs in (", ".join(found) or "none", str(len(found)))


def test_the_page_has_an_example_for_each_kind() -> None:
    assert len(ROWS) > 12
