"""The times of cron expressions: five fields as in crontab(5), or six with seconds first. Aware UTC, to the second.

When the clocks of a time zone change, an expression with a fixed hour and minute still has one time that day: a time
that does not exist moves to the end of the gap, and of a time that exists twice the first counts. An expression with a
`*` in its hour or minute follows the wall clock.
"""

import bisect
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from lib.errors import Invalid

# Times in the gap of a clock change move to within a minute after it.
_AFTER_GAP = timedelta(seconds=61)


class Times:
    """The times of one expression in one time zone. Methods raise Invalid if the expression cannot be parsed.

    Raises:
        Invalid: there is no such time zone.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self._expression = expression
        self._zone = _zone(timezone)
        minute_and_hour = expression.split()[-5:-3]
        self._is_fixed = not any(part.startswith("*") for part in minute_and_hour)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times after a moment, in order; endless, unless no time follows within 50 years."""
        last = moment.astimezone(UTC)
        for time in self._fixed(moment) if self._is_fixed else self._running(moment):
            if time > last:
                last = time
                yield time

    def upcoming(self, moment: datetime, *, limit: int) -> list[datetime]:
        """Return the first times after a moment. Raises Invalid if there are none."""
        times = list(itertools.islice(self.after(moment), limit))
        if not times:
            raise Invalid("the expression matches no date", field="schedule")
        return times

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[datetime]:
        """Return the first `limit` times after `start`, up to and including `end`."""
        return list(itertools.islice(itertools.takewhile(lambda time: time <= end, self.after(start)), limit))

    def newest(self, start: datetime, end: datetime, *, limit: int) -> list[datetime]:
        """Return the last `limit` times after `start`, up to and including `end`. Cheap, however many there are."""
        first, last = int(start.timestamp()), int(end.timestamp())

        def are_fewer(second: int) -> bool:
            return len(self.between(_of_second(second), end, limit=limit)) < limit

        # Bisect: the later the start, the fewer the times.
        offset = bisect.bisect_left(range(first, last), True, key=are_fewer)
        return self.between(_of_second(first + offset - 1) if offset else start, end, limit=limit)

    def _running(self, moment: datetime) -> Iterator[datetime]:
        for time in _simulate(self._expression, moment.astimezone(self._zone)):
            yield time.astimezone(UTC)

    def _fixed(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times on a clock without changes, each mapped to the clock of the zone."""
        wall_times = (_wall_time(time, self._zone) for time in (moment, moment - _AFTER_GAP))
        for wall_time in _simulate(self._expression, min(wall_times)):
            time = wall_time.replace(tzinfo=self._zone)
            while _wall_time(time.astimezone(UTC), self._zone) != time.replace(tzinfo=None):
                time += timedelta(minutes=1)
            yield time.astimezone(UTC)


def _simulate(expression: str, start: datetime) -> Iterator[datetime]:
    from cronsim import CronSim, CronSimError

    try:
        yield from CronSim(expression, start)
    except CronSimError as error:
        raise Invalid(f"{str(error).lower()}: use five fields, or six with seconds first", field="schedule") from None
    except OverflowError:  # the end of Python's calendar
        return


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone; not a valid name; the name of a folder
        raise Invalid("there is no such time zone: use a name like Europe/Berlin", field="timezone") from None


def _wall_time(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)


def _of_second(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
