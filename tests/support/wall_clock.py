"""What the clocks of all time zones show around their changes, minute by minute, and the times of expressions there.

A slow second opinion: it walks through minutes and compares, with none of the code that it judges.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from importlib.resources import files
from zoneinfo import ZoneInfo

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NAMES = tuple(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())
# No time zone keeps an offset for less time: Fiji's winters are 28 days long.
_STEP = timedelta(days=14)
Sets = Sequence[set[int]]


@cache
def zone_of(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def changes_of(names: Sequence[str], first_year: int, last_year: int) -> list[tuple[str, datetime]]:
    """Each change of a clock in these time zones, once for zones that have the same changes."""
    by_content = {files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes(): name for name in names}
    start, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    moments = [start + _STEP * step for step in range((end - start) // _STEP + 2)]
    found: dict[tuple[object, ...], str] = {}
    for name in by_content.values():
        zone = zone_of(name)
        offsets = [moment.astimezone(zone).utcoffset() for moment in moments]
        changed = [i for i in range(len(offsets) - 1) if offsets[i] != offsets[i + 1]]
        changes = [(_change(zone, moments[i], moments[i + 1]), offsets[i], offsets[i + 1]) for i in changed]
        found.setdefault(tuple(changes), name)
    return sorted({change: (name, change[0]) for changes, name in found.items() for change in changes}.values())


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first minute with the offset of `after`."""
    offset = after.astimezone(zone).utcoffset()
    low, high = 0, (after - before) // MINUTE
    while high - low > 1:
        middle = (low + high) // 2
        if (before + middle * MINUTE).astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return before + high * MINUTE


@dataclass(frozen=True)
class Expression:
    """An expression, with what each of its six fields is to match, put down by whoever made up the text."""

    text: str
    sets: Sets
    stars: tuple[bool, ...]

    def matches_day(self, wall: datetime) -> bool:
        _, _, _, days, months, weekdays = self.sets
        day, weekday = wall.day in days, (wall.weekday() + 1) % 7 in weekdays
        both = self.stars[3] or self.stars[5]
        return wall.month in months and (day and weekday if both else day or weekday)

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.sets[1] and wall.hour in self.sets[2] and self.matches_day(wall)


class Window:
    """The minutes around a change of a clock."""

    def __init__(self, name: str, change: datetime, *, around: timedelta, beyond: timedelta) -> None:
        self.start, self.end = change - around, change + around
        zone = zone_of(name)
        minutes = range((2 * (around + beyond)) // MINUTE)
        walk = (self.start - beyond + minute * MINUTE for minute in minutes)
        self.walk = [(time, time.astimezone(zone).replace(tzinfo=None, fold=0)) for time in walk]

    @cached_property
    def first(self) -> dict[datetime, datetime]:
        """The first time at which the clock shows something."""
        found: dict[datetime, datetime] = {}
        for time, wall in self.walk:
            found.setdefault(wall, time)
        return found

    def times(self, expression: Expression) -> list[datetime]:
        """The times of an expression after the start of the window, by the rule of docs/schedules.md."""
        follows = expression.stars[1] or expression.stars[2]
        minutes = self._following(expression) if follows else self._fixed(expression)
        seconds = sorted(expression.sets[0])
        times = {minute + timedelta(seconds=second) for minute in minutes for second in seconds}
        return sorted(time for time in times if self.start < time <= self.end)

    def _following(self, expression: Expression) -> Iterator[datetime]:
        return (time for time, wall in self.walk if expression.matches(wall))

    def _fixed(self, expression: Expression) -> Iterator[datetime]:
        wall, last = min(self.first), max(self.first)
        while wall <= last:
            if expression.matches(wall):
                shown = wall
                while shown not in self.first:
                    shown += MINUTE
                yield self.first[shown]
            wall += MINUTE


_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def an_expression(dice: random.Random, wall: datetime) -> Expression:
    """An expression that is likely to have times about what a clock shows: in its hours, on its days."""
    near = (wall.second, wall.minute, wall.hour, wall.day, wall.month, (wall.weekday() + 1) % 7)
    dense = (0.0, 0.3, 0.5, 0.4, 0.7, 0.4)
    fields = [
        ("*", set(range(low, high + 1)), True) if dice.random() < all_ else _a_field(dice, low, high, value)
        for (low, high), value, all_ in zip(_BOUNDS, near, dense, strict=True)
    ]
    fields[0] = dice.choice([("", {0}, False), ("", {0}, False), ("7", {7}, False), ("*/20", {0, 20, 40}, True)])
    texts, sets, stars = zip(*fields, strict=True)
    return Expression(" ".join(texts).strip(), sets, stars)


def _a_field(dice: random.Random, low: int, high: int, near: int) -> tuple[str, set[int], bool]:
    """A field's text, the numbers it means, and whether it begins with a star."""
    size = high - low + 1

    def wrapped(number: int) -> int:
        return (number - low) % size + low

    start = wrapped(near + dice.choice((-2, -1, -1, 0, 0, 0, 1, 1, 2)))
    length, step = dice.randint(1, min(size - 1, 30)), dice.randint(1, size // 2)
    span = [start + offset for offset in range(length + 1)]
    ends = f"{start}-{wrapped(span[-1])}"
    some = sorted({start, wrapped(start + length), wrapped(start + step)})
    return dice.choice(
        [
            (str(start), {start}, False),
            (",".join(map(str, some)), set(some), False),
            (ends, set(map(wrapped, span)), False),
            (f"{ends}/{step}", set(map(wrapped, span[::step])), False),
            (f"*/{step}", set(range(low, high + 1, step)), True),
            (f"*/{step},{start}", {*range(low, high + 1, step), start}, True),
        ]
    )
