"""The times of cron expressions: five fields as in crontab(5), or six with seconds first. Aware UTC, to the second.

Expressions are matched with a clock that is never changed, and each matching time is mapped to UTC. Where an expression
has a `*` in its minute or hour, it follows the clock of the time zone: a time that the clock leaves out has no run, and
one that it shows twice has two. Any other expression has one run for each of its times: the first if the clock shows it
twice, and after the gap if the clock leaves it out.
"""

import bisect
import itertools
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lib.errors import Invalid
from lib.schedules.expression import written_out
from lib.schedules.zones import zone

_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
# Times in a gap of the clock move to within a minute after it.
_AFTER_GAP = timedelta(seconds=61)


class Times:
    """The times of one expression in one time zone.

    Raises:
        Invalid: the expression is not valid, or there is no such time zone.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        fields = written_out(expression)
        self._expression = " ".join(fields)
        self._zone = zone(timezone)
        self._is_fixed = not any(field.startswith("*") for field in fields[1:3])

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times after a moment, in order; endless, unless no time follows within 50 years."""
        last = moment.astimezone(UTC)
        try:
            for time in self._fixed(last) if self._is_fixed else self._running(last):
                if time > last:
                    last = time
                    yield time
        except OverflowError:  # the end of Python's calendar
            return

    def upcoming(self, moment: datetime, *, limit: int) -> list[datetime]:
        """Return the first times after a moment. Raises Invalid if there are none."""
        times = list(itertools.islice(self.after(moment), limit))
        if not times:
            raise Invalid("no date matches the expression: change its days or months", field="schedule")
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
        """Yield each time at which the clock of the zone shows a matching time."""
        # What the clock shows twice comes again after later times of the clock, which may match as well.
        again: deque[datetime] = deque()
        for wall_time in self._wall_times(min(self._wall_time(moment), self._wall_time(moment + _DAY) - _DAY)):
            first, second = self._instants(wall_time)
            if second < first:  # the clock leaves it out
                continue
            while again and again[0] < first:
                yield again.popleft()
            yield first
            if first < second:
                again.append(second)
        yield from again

    def _fixed(self, moment: datetime) -> Iterator[datetime]:
        """Yield one time for each matching time of an unchanged clock."""
        for wall_time in self._wall_times(min(map(self._wall_time, (moment, moment - _AFTER_GAP)))):
            first, second = self._instants(wall_time)
            yield first if first <= second else self._after_gap(wall_time, first - second)

    def _after_gap(self, wall_time: datetime, gap: timedelta) -> datetime:
        """Return the time of the same second in the first minute that the clock shows after a gap."""

        def instants(minutes: int) -> tuple[datetime, datetime]:
            return self._instants(wall_time + minutes * _MINUTE)

        def exists(minutes: int) -> bool:
            first, second = instants(minutes)
            return first <= second

        return instants(bisect.bisect_left(range(gap // _MINUTE), True, key=exists))[0]

    def _instants(self, wall_time: datetime) -> tuple[datetime, datetime]:
        """Return when the clock shows a time first and last. The last is before the first if it never does."""
        first = wall_time.replace(tzinfo=self._zone)
        return first.astimezone(UTC), first.replace(fold=1).astimezone(UTC)

    def _wall_time(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _wall_times(self, start: datetime) -> Iterator[datetime]:
        """Yield the matching times after a time of a clock without changes."""
        from cronsim import CronSim, CronSimError

        try:
            yield from CronSim(self._expression, start)
        except CronSimError:  # no month has its day
            return


def _of_second(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
