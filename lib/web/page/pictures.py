"""Pictures as geometry, in percent of their width and height: bars keep their shapes and texts their size at any width.

`templates/pictures.html` draws them as SVG.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lib.web.page.render import counted, duration, number

Json = dict[str, Any]

# Seconds after its full minute at which a tick is late: a clock that calls once a minute is a few seconds late.
LATE = 20
# What a minute of the clock can be, as a legend lists it.
MINUTES = {
    "worked": "worked",
    "idle": "idle",
    "late": "late",
    "doubled": "called twice",
    "overlapping": "overlapping",
    "limit": "stopped at the limit",
    "failed": "failed",
    "missing": "missing",
}
# Of what a minute was, that which counts.
_WORST = ("missing", "failed", "limit", "overlapping", "doubled", "late", "worked", "idle")
# How runs end, from the bottom of a bar to its top.
OUTCOMES = {"succeeded": "succeeded", "snoozed": "snoozed", "interrupted": "interrupted", "failed": "failed"}
# Percent of a picture's height: a single failed run among thousands is seen.
_LEAST = 2.5
_DECADES = (10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000)


@dataclass(frozen=True, slots=True)
class Column:
    """A minute or hour of a picture. `kind`: of a strip; `parts`: of a bar, (kind, y, height); `title`: all of it."""

    x: float
    width: float
    at: str
    title: str
    kind: str = ""
    height: float = 0.0
    parts: tuple[tuple[str, float, float], ...] = ()
    row: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """Columns, oldest first. `counts`: of each kind, without those that do not occur; `marks`: (y, label) of lines."""

    columns: tuple[Column, ...]
    counts: tuple[tuple[str, str, int], ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    days: tuple[tuple[float, str], ...] = ()


def strip(minutes: Sequence[Json]) -> Picture:
    """Return the minutes of the clock, each with what its ticks did."""
    columns = [
        Column(x, width, row["at"], _tick_title(row), kind=kind_of(row), height=_work(row["started"]), row=row)
        for x, width, row in _placed(minutes)
    ]
    found = [column.kind for column in columns]
    counts = [(kind, text, found.count(kind)) for kind, text in MINUTES.items() if kind in found]
    return Picture(tuple(columns), tuple(counts))


def kind_of(minute: Json) -> str:
    """Return what a minute of the clock was, in one word of MINUTES; nothing before the first tick."""
    if not minute["ticks"] and not minute["missing"]:
        return ""
    happened = minute | {"late": _is_late(minute), "worked": minute["started"], "idle": True}
    return next(kind for kind in _WORST if happened[kind])


def _is_late(minute: Json) -> bool:
    return (minute["late_s"] or 0) > LATE


def bars(rows: Sequence[Json], *, hours: bool = False) -> Picture:
    """Return runs by outcome, one bar for each row, stacked. `hours`: a row is an hour, not a minute."""
    top = _round(max((_total(row) for row in rows), default=0))
    columns = [
        Column(x, width, row["at"], _runs_title(row, hours=hours), parts=_stacked(row, top), row=row)
        for x, width, row in _placed(rows)
    ]
    totals = {kind: sum(row[kind] for row in rows) for kind in OUTCOMES}
    counts = [(kind, text, totals[kind]) for kind, text in OUTCOMES.items() if totals[kind]]
    marks = ((0.0, number(top)), (50.0, number(top / 2))) if top > 1 else ()
    days = [(column.x, f"{at:%a}") for column in columns if hours and (at := _moment(column.at)).hour == 0]
    return Picture(tuple(columns), tuple(counts), marks, tuple(days))


def spread(starts: Sequence[Json]) -> Picture:
    """Return how long after their time runs began, on a logarithmic scale: of half of them, and of 95 percent."""
    slowest = max((row["p95_ms"] for row in starts if row["p95_ms"] is not None), default=0)
    top = next((decade for decade in _DECADES[2:] if decade >= slowest), _DECADES[-1])
    scale = [decade for decade in _DECADES if decade <= top]
    columns = []
    for x, width, row in _placed(starts):
        if row["p50_ms"] is None:
            continue
        dots = tuple((name, _height(row[f"{name}_ms"], top), 0.0) for name in ("p95", "p50"))
        columns.append(Column(x, width, row["at"], _start_title(row), parts=dots, row=row))
    marks = [(_height(decade, top), _short(decade)) for decade in scale]
    return Picture(tuple(columns), marks=tuple(marks))


def _placed(rows: Sequence[Json]) -> list[tuple[float, float, Json]]:
    width = 100 / max(1, len(rows))
    return [(round(place * width, 2), round(width, 2), row) for place, row in enumerate(rows)]


def _work(started: int) -> float:
    """Return the height of a minute that ran so many jobs: a hundred and more are the highest."""
    return round(45 + 35 * min(1.0, math.log10(max(1, started)) / 2), 1)


def _total(row: Json) -> int:
    return int(sum(row[kind] for kind in OUTCOMES))


def _round(most: int) -> int:
    """Return the next number of the kind 1, 2, 5, 10, 20, …"""
    power: int = 10 ** int(math.log10(max(1, most)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= most)


def _stacked(row: Json, top: int) -> tuple[tuple[str, float, float], ...]:
    parts, y = [], 100.0
    for kind in OUTCOMES:
        if row[kind]:
            height = max(_LEAST, 100 * row[kind] / top)
            y = max(0.0, y - height)
            parts.append((kind, round(y, 2), round(height, 2)))
    return tuple(parts)


def _height(ms: float, top: int) -> float:
    """Return the y of a delay. Ten milliseconds and less are at the bottom."""
    low, within = math.log10(_DECADES[0]), min(top, max(_DECADES[0], ms))
    return round(100 - 100 * (math.log10(within) - low) / (math.log10(top) - low), 2)


def _short(ms: int) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _moment(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC)


def _tick_title(row: Json) -> str:
    when = f"{_moment(row['at']):%H:%M} UTC"
    if row["missing"]:
        return f"{when}: no tick"
    if not row["ticks"]:
        return f"{when}: no tick yet"
    facts = [counted(row["ticks"], "tick"), counted(row["started"], "job")]
    names = {
        "failed": "failed",
        "limit": "stopped at the limit",
        "doubled": "called twice",
        "overlapping": "overlapping",
    }
    facts += [f"{row[name]} {text}" for name, text in names.items() if row[name]]
    if _is_late(row):
        facts.append(f"{row['late_s']} s late")
    return f"{when}: {', '.join(facts)}"


def _runs_title(row: Json, *, hours: bool) -> str:
    when = f"{_moment(row['at']):{'%a %H:00' if hours else '%H:%M'}} UTC"
    facts = [f"{number(row[kind])} {text}" for kind, text in OUTCOMES.items() if row[kind]]
    return f"{when}: {', '.join(facts) or 'no run'}"


def _start_title(row: Json) -> str:
    half, most, all_ = (duration(row[name]) for name in ("p50_ms", "p95_ms", "max_ms"))
    late = f"half within {half}, 95 % within {most}, all within {all_}"
    return f"{_moment(row['at']):%H:%M} UTC: {counted(row['runs'], 'run')}, {late}"
