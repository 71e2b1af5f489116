"""Pictures as geometry: what stands in each minute or hour, and the paths that draw it.

`templates/pictures.html` makes SVG of them. A column is 100 units wide and 1,000 high, whatever its size on a screen;
all that has one kind is one path: a week of hours would be thousands of elements.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lib.web.page.render import counted, number

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
# What a minute of each kind looks like, besides its colour: boxes (x, y, width, height) in percent of its column. The
# height of one that worked is its work.
SHAPES = {
    "worked": ((14, 20, 72, 80),),
    "idle": ((14, 82, 72, 18),),
    "late": ((14, 20, 72, 42), (14, 88, 72, 12)),
    "doubled": ((14, 20, 28, 80), (58, 20, 28, 80)),
    "overlapping": ((14, 20, 46, 48), (40, 52, 46, 48)),
    "limit": ((0, 0, 100, 9), (14, 16, 72, 84)),
    "failed": ((5, 0, 90, 62), (5, 72, 90, 28)),
    "missing": ((16, 3, 68, 94),),
    "": ((36, 95, 28, 5),),
}
# Percent of a picture's height: a single failed run among thousands is seen.
_LEAST = 2.5
_DECADES = (10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000)


@dataclass(frozen=True, slots=True)
class Column:
    """A minute or hour of a picture. `kind` and `text`: of a strip; `parts`: of a bar, (kind, y, height)."""

    place: int
    at: str
    kind: str = ""
    text: str = ""
    parts: tuple[tuple[str, float, float], ...] = ()
    row: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """Columns, oldest first. `width`: their number; `paths`: (kind, path) of all that is drawn; `counts`: (kind, text,
    count) of each kind that occurs; `marks`: (y, label) of lines; `days`: (x, label) of where they begin, in percent.
    """

    width: int
    columns: tuple[Column, ...]
    paths: tuple[tuple[str, str], ...]
    counts: tuple[tuple[str, str, int], ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    days: tuple[tuple[float, str], ...] = ()


def strip(minutes: Sequence[Json]) -> Picture:
    """Return the minutes of the clock, each with what its ticks did."""
    columns = [Column(place, row["at"], kind_of(row), _what_it_was(row), row=row) for place, row in enumerate(minutes)]
    found = [column.kind for column in columns]
    counts = [(kind, text, found.count(kind)) for kind, text in MINUTES.items() if kind in found]
    return Picture(len(minutes), tuple(columns), _joined((c.kind, _minute(c)) for c in columns), tuple(counts))


def swatch(kind: str) -> str:
    """Return the path of one minute of a kind, for a legend."""
    return "".join(_box(0, *box) for box in SHAPES[kind])


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
    columns = [Column(place, row["at"], parts=_stacked(row, top), row=row) for place, row in enumerate(rows)]
    paths = _joined((kind, _line(c.place, y + height, y)) for c in columns for kind, y, height in c.parts)
    totals = {kind: sum(row[kind] for row in rows) for kind in OUTCOMES}
    counts = [(kind, text, totals[kind]) for kind, text in OUTCOMES.items() if totals[kind]]
    marks = ((0.0, number(top)), (50.0, number(top / 2))) if top > 1 else ()
    days = [
        (round(100 * column.place / len(rows), 2), f"{at:%a}")
        for column in columns
        if hours and (at := moment(column.at)).hour == 0
    ]
    return Picture(len(rows), tuple(columns), paths, tuple(counts), marks, tuple(days))


def spread(starts: Sequence[Json]) -> Picture:
    """Return how long after their time runs began, on a logarithmic scale: of half of them, and of 95 percent."""
    slowest = max((row["p95_ms"] for row in starts if row["p95_ms"] is not None), default=0)
    top = next((decade for decade in _DECADES[2:] if decade >= slowest), _DECADES[-1])
    scale = [decade for decade in _DECADES if decade <= top]
    columns, drawn = [], []
    for place, row in enumerate(starts):
        if row["p50_ms"] is None:
            continue
        p95, p50 = _height(row["p95_ms"], top), _height(row["p50_ms"], top)
        dots = (("p95", p95, 0.0), ("p50", p50, 0.0))
        columns.append(Column(place, row["at"], parts=dots, row=row))
        # A dot is a line of no length with round ends.
        drawn += [("between", _line(place, p50, p95)), ("p95", f"M{100 * place + 25} {p95 * 10:.0f}h50")]
        drawn += [("p50", f"M{100 * place + 50} {p50 * 10:.0f}h0")]
    marks = [(_height(decade, top), _short(decade)) for decade in scale]
    return Picture(len(starts), tuple(columns), _joined(drawn), marks=tuple(marks))


def _joined(pieces: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return one path of each kind."""
    paths: dict[str, list[str]] = {}
    for kind, piece in pieces:
        paths.setdefault(kind, []).append(piece)
    return tuple((kind, "".join(own)) for kind, own in paths.items())


def _box(place: int, x: float, y: float, width: float, height: float) -> str:
    top, bottom = round(10 * y), round(10 * (y + height))
    return f"M{100 * place + x:g} {top}V{bottom}h{width:g}V{top}z"


def _line(place: int, start: float, end: float) -> str:
    """Return a line up the middle of a column. A bar is a thick one."""
    return f"M{100 * place + 50} {round(10 * start)}V{round(10 * end)}"


def _minute(column: Column) -> str:
    boxes: Iterable[tuple[float, float, float, float]] = SHAPES[column.kind]
    if column.kind == "worked":
        height = _work(column.row["started"])
        boxes = [(14, 100 - height, 72, height)]
    return "".join(_box(column.place, *box) for box in boxes)


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


def moment(at: str) -> datetime:
    """Return a time of a row, in UTC."""
    return datetime.fromisoformat(at).astimezone(UTC)


def _what_it_was(row: Json) -> str:
    if row["missing"]:
        return "no tick"
    if not row["ticks"]:
        return "no tick yet"
    names = {
        "failed": "failed",
        "limit": "stopped at the limit",
        "doubled": "called twice",
        "overlapping": "overlapping",
    }
    facts = [counted(row[name], "tick") + f" {text}" for name, text in names.items() if row[name]]
    if _is_late(row):
        facts.append(f"{row['late_s']} s late")
    return ", ".join(facts) or ("worked" if row["started"] else "no job was due")
