"""The clock in a frame of `flask jobs top`: a strip of the last 60 minutes, and the last tick that ended well."""

from collections.abc import Iterator
from statistics import median_low
from typing import Any

from lib.cli.tables import count, duration
from lib.cli.top_view import Line, Span, View
from lib.monitoring.verdict import moment

Json = dict[str, Any]

# Jobs of a minute, from one on up to the most of the hour.
_LEVELS, _ASCII_LEVELS = "▂▃▄▅▆▇█", ".:-=+*#"
# A tick without jobs; what is wrong with a minute, the worst first: its mark, the same in ASCII, and its colour.
_IDLE, _ASCII_IDLE = "▁", "_"
_MARKS = {
    "failed": ("✗", "x", "red"),
    "missing": ("?", "?", "red"),
    "doubled": ("2", "2", "yellow"),
    "overlapping": ("≈", "%", "yellow"),
    "late": ("›", ">", "yellow"),
}
# Seconds after the usual one: a platform calls at any second of its minute, each time at about the same.
_LATE = 20


def ticks(overview: Json, view: View) -> Iterator[Line]:
    """Yield the strip, what its marks are, and the last tick."""
    minutes = _with_late(overview["ticks"]["minutes"])
    most = max((minute["started"] for minute in minutes), default=0)
    yield (("ticks   ", "dim"), *(_minute(minute, most, view) for minute in minutes[-max(1, view.width - 8) :]))
    found = {name: sum(bool(minute[name]) for minute in minutes) for name in _MARKS}
    marks = [f"{_mark(name, view)} {number} {name}" for name, number in found.items() if number]
    yield (("        ", ""), (view.plain(", ".join(marks)), "")) if marks else (("        one hour, to now", "dim"),)
    yield _last(overview, view)


def _with_late(minutes: list[Json]) -> list[Json]:
    """Add to each minute whether its tick was `late`: later after the full minute than usual."""
    seconds = [minute["late_s"] for minute in minutes if minute["late_s"] is not None]
    usual = median_low(seconds) if seconds else 0
    return [minute | {"late": (minute["late_s"] or 0) > usual + _LATE} for minute in minutes]


def _minute(minute: Json, most: int, view: View) -> Span:
    for name, (_, _, colour) in _MARKS.items():
        if minute[name]:
            return _mark(name, view), colour
    if not minute["ticks"]:
        return " ", ""
    if not minute["started"]:
        return _ASCII_IDLE if view.ascii_only else _IDLE, "dim"
    levels = _ASCII_LEVELS if view.ascii_only else _LEVELS
    return levels[min(len(levels) - 1, len(levels) * minute["started"] // (most + 1))], "green"


def _mark(name: str, view: View) -> str:
    return _MARKS[name][1 if view.ascii_only else 0]


def _last(overview: Json, view: View) -> Line:
    """Return the last tick that ended well: when, how long ago, and what it did."""
    tick, now = overview["ticks"]["last_good"], view.now(overview)
    ended = moment(tick["ended_at"]) if tick else None
    if ended is None:
        return (("last    ", "dim"), ("no tick has ended well yet", "red"))
    ago = _ago(max(0, int((now - ended).total_seconds())))
    started = count(tick["started"] or 0, "job")
    failed = [f"{tick[name]} {word}" for name, word in (("retried", "retried"), ("errored", "dead")) if tick[name]]
    did = ", ".join([started, *failed, duration(tick["duration_ms"]), tick["stopped_because"] or ""])
    return (("last    ", "dim"), (view.plain(f"{view.clock(ended, now)} ({ago} ago): {did}"), ""))


def _ago(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else duration(1000 * seconds)
