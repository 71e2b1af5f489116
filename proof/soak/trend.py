"""Trends and the verdict: what must not grow, by a robust slope after the warm-up, against a bound."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proof.soak.sampling import Sample

# The share of a run in which tables fill up and processes warm up, and the samples that a trend needs after it.
WARM_UP = 0.35
_ENOUGH = 30
# Samples in a minute.
_MINUTE = 6
# Points that a slope is taken over: its cost grows with their square.
_POINTS = 400
_MB = 1024 * 1024
# Megabytes below which a table is not worth a line of the report.
SMALL = 0.25

# Rows that are never deleted: bytes an order, all of them together.
KEPT = (
    *("orders", "customers", "payments", "payment_events", "cards", "effects"),
    *("audit", "inbound_events", "accepted_differences"),
)
_KEPT_BYTES = 12_000.0


@dataclass(frozen=True, slots=True)
class Bound:
    """What a value may grow by over the time after the warm-up: a share of its median, and so much besides."""

    share: float
    floor: float


@dataclass(frozen=True, slots=True)
class Trend:
    """The growth of one value over the time after the warm-up. `level`: its median, in the same unit."""

    name: str
    unit: str
    level: float
    growth: float
    allowed: float

    @property
    def is_small(self) -> bool:
        """Whether it is the size of a table that hardly has one."""
        return self.unit == "MB" and self.level < SMALL

    @property
    def holds(self) -> bool:
        return self.growth <= self.allowed


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points: a third of them may be anything."""
    step = max(1, len(points) // _POINTS)
    chosen = points[::step]
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(chosen) for x2, y2 in chosen[i + 1 :] if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Return the trend of all that is bounded; none if the run is too short to have one."""
    if not samples:
        return []
    after = [one for one in samples if one["t"] >= WARM_UP * samples[-1]["t"]]
    if len(after) < _ENOUGH:
        return []
    found = [_trend(after, name, unit, value, bound) for name, unit, value, bound in _BOUNDED]
    found += [
        _trend(after, f"table {table}", "MB", _size_of(table), Bound(0.3, 0.5))
        for table in after[-1].get("tables", {})
        if table not in KEPT
    ]
    found += [trend_of("CPU for each run", "ms", cpu_per_run(after), Bound(0.3, 3)), _kept(after)]
    return [one for one in found if one is not None]


def series(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> list[tuple[float, float]]:
    """Return the points of a value where it was measured."""
    return [(one["t"], found) for one in samples if (found := value(one)) is not None]


def cpu_per_run(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return the CPU milliseconds, of application and Postgres, that a run of a job took, a minute at a time.

    Minutes with few runs are left out: what they show is the cost of waiting.
    """
    minutes = []
    for before, after in zip(samples, samples[_MINUTE:], strict=False):
        used = sum(after[name] - before[name] for name in ("cpu_application", "cpu_postgres"))
        minutes.append((after["t"], after["runs"] - before["runs"], used))
    few = statistics.median(runs for _, runs, _ in minutes) / 5 if minutes else 0
    return [(t, 1000 * used / runs) for t, runs, used in minutes if runs > few]


def _trend(
    samples: Sequence[Sample], name: str, unit: str, value: Callable[[Sample], float | None], bound: Bound
) -> Trend | None:
    return trend_of(name, unit, series(samples, value), bound)


def trend_of(name: str, unit: str, points: Sequence[tuple[float, float]], bound: Bound) -> Trend | None:
    """Return the trend of these points; None if there are too few."""
    if len(points) < _ENOUGH // 2:
        return None
    level = statistics.median(y for _, y in points)
    growth = slope(points) * (points[-1][0] - points[0][0])
    return Trend(name, unit, level, growth, bound.share * abs(level) + bound.floor)


def _kept(samples: Sequence[Sample]) -> Trend | None:
    """Rows that are kept grow with the orders: so many bytes for each."""
    points = [
        (float(one["checked"]), float(sum(sum(one["tables"][each][:2]) for each in KEPT if each in one["tables"])))
        for one in samples
        if one.get("tables")
    ]
    if len(points) < _ENOUGH // 2:
        return None
    return Trend(
        "kept rows, for each order", "bytes", points[-1][1] / max(1.0, points[-1][0]), slope(points), _KEPT_BYTES
    )


def _size_of(table: str) -> Callable[[Sample], float | None]:
    def size(sample: Sample) -> float | None:
        measured = sample.get("tables", {}).get(table)
        return None if measured is None else (measured[0] + measured[1]) / _MB

    return size


def _of(name: str, scale: float = 1.0) -> Callable[[Sample], float | None]:
    return lambda sample: None if sample.get(name) is None else sample[name] / scale


def _median_of(name: str, *, at: int = 0) -> Callable[[Sample], float | None]:
    return lambda sample: sample[name][at] if sample.get(name) else None


def _memory(who: str) -> Callable[[Sample], float | None]:
    return lambda sample: sample["memory"][who] / _MB if who in sample["memory"] else None


def _dead(sample: Sample) -> float | None:
    """Count those of pruned tables: in the others Postgres leaves a share of all rows, which grow."""
    tables = sample.get("tables")
    return sum(dead for table, (_, _, dead) in tables.items() if table not in KEPT) if tables else None


_BOUNDED: tuple[tuple[str, str, Callable[[Sample], float | None], Bound], ...] = (
    ("memory of instance 1, never killed", "MB", _memory("instance 1"), Bound(0.10, 2)),
    ("memory of Postgres, private", "MB", _of("memory_postgres", _MB), Bound(0.25, 10)),
    ("connections of the application", "", _of("connections"), Bound(0.25, 3)),
    ("dead rows of pruned tables", "", _dead, Bound(0.5, 2000)),
    ("queued jobs", "", _of("queued"), Bound(0.5, 20)),
    ("oldest due job", "s", _of("oldest_due"), Bound(0.5, 2)),
    ("order to mail, median", "s", _median_of("to_mail"), Bound(0.5, 1)),
    ("the API's answer, median", "s", _median_of("answer"), Bound(0.5, 0.05)),
    ("a tick, 95th percentile", "s", _median_of("tick", at=1), Bound(0.5, 5)),
)
