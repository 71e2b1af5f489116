"""What each form of an expression means, and the one sentence that refuses any other."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lib.errors import Invalid
from lib.schedules.cron import Times
from tests.support.planning import planned

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday

SAME = {
    "seven is Sunday": ("0 0 * * 7", "0 0 * * 0"),
    "from Sunday to Sunday": ("0 0 * * 0-7", "0 0 * * *"),
    "Monday to Sunday": ("0 0 * * 1-7", "0 0 * * *"),
    "names": ("0 0 * jan,FEB Mon", "0 0 * 1,2 1"),
    "days that wrap": ("0 0 * * FRI-SUN", "0 0 * * 5,6,0"),
    "days around Sunday": ("0 0 * * sat-tue", "0 0 * * 6,0,1,2"),
    "days from Sunday": ("0 0 * * SUN-TUE", "0 0 * * 0,1,2"),
    "days from seven": ("0 0 * * 7-2", "0 0 * * 0,1,2"),
    "months that wrap": ("0 0 1 NOV-FEB *", "0 0 1 11,12,1,2 *"),
    "hours that wrap": ("0 22-6 * * *", "0 22,23,0,1,2,3,4,5,6 * * *"),
    "days of the month that wrap": ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
    "minutes that wrap by steps": ("50-10/10 * * * *", "50,0,10 * * * *"),
    "a step from a number": ("5/15 * * * *", "5,20,35,50 * * * *"),
    "a step from a day": ("0 0 * * MON/2", "0 0 * * 1,3,5,7"),
    "a range of one": ("0 0 * * 7-7/5", "0 0 * * 0"),
    "a range of one minute": ("7-7/5 * * * *", "7 * * * *"),
    "a step of the whole": ("*/60 */24 * * *", "0 */24 * * *"),
    "blanks and tabs": (" \t0   3 * *\t* ", "0 3 * * *"),
    "zeros in front": ("05 04 * * *", "5 4 * * *"),
    "zeros in front of an nth day": ("0 0 * * 01#2,05L", "0 0 * * 1#2,5L"),
    "a list of everything": ("0 0 1-3,5,L,20/5 * *", "0 0 1,2,3,5,20,25,30,L * *"),
    "named nth days": ("0 0 * * MON#2,FRIL", "0 0 * * 1#2,5L"),
    "seconds first": ("0 30 2 * * *", "30 2 * * *"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_two_ways_to_write_the_same_times(one: str, other: str) -> None:
    assert Times(one).upcoming(START, limit=60) == Times(other).upcoming(START, limit=60)


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),  # either
        ("0 0 */10 * SUN", ["2026-01-11", "2026-02-01", "2026-03-01", "2026-05-31"]),  # both
        ("0 0 13 * */5", ["2026-02-13", "2026-03-13", "2026-09-13", "2026-11-13"]),  # both: Sunday and Friday
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
        ("0 0 31 2 MON", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23"]),  # either: the Mondays
        ("0 0 LW * *", ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30"]),
        ("0 0 * * 5L", ["2026-01-30", "2026-02-27", "2026-03-27", "2026-04-24"]),
        ("0 0 * * SUN#5", ["2026-03-29", "2026-05-31", "2026-08-30", "2026-11-29"]),
    ],
)
def test_the_days_of_an_expression(expression: str, days: list[str]) -> None:
    assert [str(time.date()) for time in Times(expression).upcoming(START, limit=4)] == days


USE = "is not valid: use {}, *, a list (1,5), a range (1-5) or a step (*/2)"
MINUTE = "the minute " + USE.format("0 to 59")
HOUR = "the hour " + USE.format("0 to 23")
DAY = "the day of the month " + USE.format("1 to 31") + ", or L (the last day) or LW (the last weekday)"
MONTH = "the month " + USE.format("1 to 12 or JAN to DEC")
WEEKDAY = (
    "the day of the week "
    + USE.format("0 to 7 (0 and 7 are Sunday) or SUN to SAT")
    + ", or 5L (the last Friday) or 1#2 (the second Monday)"
)
FIVE = "use five fields (minute, hour, day of the month, month, day of the week), or six with seconds first"
NEVER = "no date matches the expression: change its days or months"
FIELDS = "an expression cannot be a word with @: use fields, like */5 * * * * for every five minutes"
REFUSED = {
    "60 * * * *": MINUTE,
    "-1 * * * *": MINUTE,
    "1,,2 * * * *": MINUTE,
    ",1 * * * *": MINUTE,
    "1- * * * *": MINUTE,
    "1-2-3 * * * *": MINUTE,
    "/5 * * * *": MINUTE,
    "5/ * * * *": MINUTE,
    "1/2/3 * * * *": MINUTE,
    "*-5 * * * *": MINUTE,
    "*5 * * * *": MINUTE,
    "1.5 * * * *": MINUTE,
    "٣ * * * *": MINUTE,
    "1_0 * * * *": MINUTE,
    "L * * * *": MINUTE,
    "MON * * * *": MINUTE,
    "0 24 * * *": HOUR,
    "0 0 0 * *": DAY,
    "0 0 32 * *": DAY,
    "0 0 L-3 * *": DAY,
    "0 0 L/2 * *": DAY,
    "0 0 MON * *": DAY,
    "0 0 1 13 *": MONTH,
    "0 0 1 0 *": MONTH,
    "0 0 1 JANUARY *": MONTH,
    "0 0 * * 8": WEEKDAY,
    "0 0 * * L": WEEKDAY,
    "0 0 * * MON#6": WEEKDAY,
    "0 0 * * MON#0": WEEKDAY,
    "0 0 * * 9L": WEEKDAY,
    "0 0 * * MON-FRI#1": WEEKDAY,
    "0 0 * * MON#1/2": WEEKDAY,
    "a b c d e": MINUTE,
    "x 0 0 * * *": "the seconds field " + USE.format("0 to 59"),
    "60 0 0 * * *": "the seconds field " + USE.format("0 to 59"),
    "*/0 * * * *": "the minute cannot have this step: use 1 to 60, like */30",
    "*/61 * * * *": "the minute cannot have this step: use 1 to 60, like */30",
    "0 */25 * * *": "the hour cannot have this step: use 1 to 24, like */12",
    "0 0 * * */8": "the day of the week cannot have this step: use 1 to 7, like */3",
    "0 0 ? * MON": "the day of the month cannot be ?: use *",
    "0 0 1 * ?": "the day of the week cannot be ?: use *",
    "H * * * *": "the minute cannot be chosen at random: set a number",
    "h/15 * * * *": "the minute cannot be chosen at random: set a number",
    "0 H(0-7) * * *": "the hour cannot be chosen at random: set a number",
    "0 R * * *": "the hour cannot be chosen at random: set a number",
    "0 0 15W * *": "the day of the month cannot be the weekday nearest to a date: "
    "use LW for the last weekday of the month",
    "0 0 31 2 *": NEVER,
    "0 0 30,31 feb *": NEVER,
    "0 0 31 4,6,9,11 *": NEVER,
    "0 0 */30 2 SAT#5": NEVER,  # the 1st is no fifth Saturday
    "": f"the expression has 0 fields: {FIVE}",
    "*": f"the expression has 1 field: {FIVE}",
    "* * * *": f"the expression has 4 fields: {FIVE}",
    "0 0 0 1 1 * 2026": f"the expression has 7 fields: {FIVE}",
    "@hourly": "an expression cannot be a word with @: use 0 * * * *",
    "@daily": "an expression cannot be a word with @: use 0 0 * * *",
    "@Midnight": "an expression cannot be a word with @: use 0 0 * * *",
    "@weekly": "an expression cannot be a word with @: use 0 0 * * 0",
    "@monthly": "an expression cannot be a word with @: use 0 0 1 * *",
    "@yearly": "an expression cannot be a word with @: use 0 0 1 1 *",
    "@annually": "an expression cannot be a word with @: use 0 0 1 1 *",
    "@reboot": FIELDS,
    "@every 5m": FIELDS,
}


@pytest.mark.parametrize(("expression", "sentence"), REFUSED.items())
def test_what_an_expression_cannot_be_is_refused_with_what_it_can_be(expression: str, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Times(expression).upcoming(START, limit=1)
    assert (str(caught.value), caught.value.field) == (sentence, "schedule")


@pytest.mark.parametrize("expression", [e for e in REFUSED if e])
def test_a_schedule_that_plain_sql_made_is_paused_with_the_same_reason(expression: str) -> None:
    found: dict[str, Any] = planned(schedule=expression, next_at=None)
    never = REFUSED[expression] == NEVER
    no_date = "no further date matches its expression: change its days or months"
    assert found["pause"] == no_date if never else f"it cannot be planned: schedule: {REFUSED[expression]}"
