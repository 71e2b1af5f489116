"""The times of cron expressions: five fields as in crontab(5), or six with seconds first. Aware UTC, to the second.

Where the clocks of a time zone are put forward or back, an expression with a fixed hour and minute has its one run that
day: a time that does not exist is made up for as soon as the clock goes on, one that comes twice counts the first time.
With a `*` in its hour or minute it follows the clock on the wall as it goes.
"""

import bisect
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from lib.errors import Invalid

# Where clocks are put forward, times that do not exist are made up for within a minute.
_MADE_UP = timedelta(seconds=61)


class Times:
    """The times of one expression in one time zone. A method raises Invalid for an expression that is none.

    Raises:
        Invalid: there is no such time zone.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self._expression = expression
        self._zone = _zone(timezone)
        minute_and_hour = expression.split()[-5:-3]
        self._is_fixed = not any(part.startswith("*") for part in minute_and_hour)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Its times after a moment, in order; without end, but for what does not come once in 50 years."""
        last = moment.astimezone(UTC)
        for time in self._fixed(moment) if self._is_fixed else self._running(moment):
            if time > last:
                last = time
                yield time

    def upcoming(self, moment: datetime, *, most: int) -> list[datetime]:
        """Its first times after a moment. Raises Invalid where there are none."""
        times = list(itertools.islice(self.after(moment), most))
        if not times:
            raise Invalid("it never comes: there is no such day", field="schedule")
        return times

    def between(self, start: datetime, end: datetime, *, most: int) -> list[datetime]:
        """Its times after `start`, up to and with `end`: the first `most` of them."""
        return list(itertools.islice(itertools.takewhile(lambda time: time <= end, self.after(start)), most))

    def newest(self, start: datetime, end: datetime, *, most: int) -> list[datetime]:
        """Its times after `start`, up to and with `end`: the last `most`. It costs little, however many there are."""
        first, last = int(start.timestamp()), int(end.timestamp())

        def are_fewer(second: int) -> bool:
            return len(self.between(_of_second(second), end, most=most)) < most

        # Looking from ever later, there are ever fewer.
        ahead = bisect.bisect_left(range(first, last), True, key=are_fewer)
        return self.between(_of_second(first + ahead - 1) if ahead else start, end, most=most)

    def _running(self, moment: datetime) -> Iterator[datetime]:
        for time in _simulated(self._expression, moment.astimezone(self._zone)):
            yield time.astimezone(UTC)

    def _fixed(self, moment: datetime) -> Iterator[datetime]:
        """On a clock that is never put forward or back; what it reads is then looked for on the one of the zone."""
        readings = (_reading(time, self._zone) for time in (moment, moment - _MADE_UP))
        for reading in _simulated(self._expression, min(readings)):
            time = reading.replace(tzinfo=self._zone)
            while _reading(time.astimezone(UTC), self._zone) != time.replace(tzinfo=None):
                time += timedelta(minutes=1)
            yield time.astimezone(UTC)


def _simulated(expression: str, start: datetime) -> Iterator[datetime]:
    from cronsim import CronSim, CronSimError

    try:
        yield from CronSim(expression, start)
    except CronSimError as error:
        raise Invalid(f"{str(error).lower()}: five fields, or six with seconds first", field="schedule") from None
    except OverflowError:  # the end of Python's calendar
        return


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone; not even a name; the name of a folder
        raise Invalid("there is no such time zone: they are named like Europe/Berlin", field="timezone") from None


def _reading(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)


def _of_second(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
