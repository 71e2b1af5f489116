"""The stages in a frame of `flask jobs top`: a table, by the order of the flow or by a column."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lib.cli.tables import duration
from lib.cli.top_view import Line, Span, View, cell
from lib.monitoring.verdict import moment

Json = dict[str, Any]

# What the key s sorts by, in turn.
SORTS = ("flow", "waiting", "retrying", "running", "dead", "ok", "p95")
# From this width on, columns are wider.
_WIDE = 100


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    width: int
    wide: int
    # In a narrow terminal the highest go first; 0: always there.
    last: int
    text: Callable[[Json], Span]

    def room(self, view: View) -> int:
        """Return the width of the column."""
        return self.wide if view.width >= _WIDE else self.width


def table(overview: Json, view: View) -> tuple[Line, list[Line]]:
    """Return the head and a line for each stage, in their order."""
    columns = _fitting(_columns(overview, view), view)
    mark = "*" if view.ascii_only else "▾"
    names = [f"{column.name}{mark}" if column.name == view.sort else column.name for column in columns]
    head = _joined([(name, "dim") for name in names], columns, view)
    return head, [
        _joined([column.text(stage) for column in columns], columns, view) for stage in ordered(overview, view)
    ]


def ordered(overview: Json, view: View) -> list[Json]:
    """Return the stages: those of the flow first, or the largest number of a column first."""
    flow = overview.get("flow") or []
    by_flow = sorted(
        overview["stages"],
        key=lambda stage: (flow.index(stage["stage"]) if stage["stage"] in flow else len(flow), stage["stage"]),
    )
    if view.sort == "flow":
        return by_flow
    if view.sort == "ok":  # the lowest share first
        return sorted(by_flow, key=lambda stage: _share(stage) if stage["runs"] else 2)
    name = "p95_ms" if view.sort == "p95" else view.sort
    return sorted(by_flow, key=lambda stage: -(stage[name] or 0))


def is_idle(stage: Json) -> bool:
    """Return whether there is nothing to see of a stage."""
    counts = ("waiting", "retrying", "running", "dead", "runs")
    return not any(stage[name] for name in counts) and stage["availability"] == "ready"


def _columns(overview: Json, view: View) -> list[_Column]:
    now = view.now(overview)

    def number(name: str, colour: str = "") -> Callable[[Json], Span]:
        return lambda stage: _number(stage, name, colour, view)

    return [
        _Column("stage", 15, 26, 0, lambda stage: (view.plain(stage["stage"]), "")),
        _Column("waiting", 8, 9, 0, number("waiting")),
        _Column("retrying", 9, 9, 1, number("retrying", "yellow")),
        _Column("running", 8, 9, 2, number("running", "cyan")),
        _Column("dead", 6, 9, 0, number("dead", "red")),
        _Column("circuit", 10, 20, 0, lambda stage: _circuit(stage, overview, now)),
        _Column("ok", 4, 6, 3, _ok),
        _Column("p50", 6, 9, 5, lambda stage: (duration(stage["p50_ms"]), "")),
        _Column("p95", 6, 9, 4, lambda stage: (duration(stage["p95_ms"]), "")),
    ]


def _fitting(columns: list[_Column], view: View) -> list[_Column]:
    while _width(columns, view) > view.width and any(column.last for column in columns):
        columns = [c for c in columns if c.last != max(column.last for column in columns)]
    return columns


def _width(columns: list[_Column], view: View) -> int:
    return sum(column.room(view) for column in columns) + len(columns) - 1


def _joined(spans: list[Span], columns: list[_Column], view: View) -> Line:
    texts: list[Span] = []
    for (text, style), column, room in zip(spans, columns, _rooms(columns, view), strict=True):
        right = column.name not in ("stage", "circuit")
        texts += [(cell(text, room, right=right, end=view.plain("…")), style), (" ", "")]
    return tuple(texts[:-1])


def _rooms(columns: list[_Column], view: View) -> list[int]:
    """Return the widths of the columns; in a very narrow terminal, names of stages are cut."""
    first, *others = (column.room(view) for column in columns)
    excess = _width(columns, view) - view.width
    return [max(6, first - max(0, excess)), *others]


def _number(stage: Json, name: str, colour: str, view: View) -> Span:
    value = stage[name]
    if not value:
        return view.plain("·"), "dim"
    return f"{value:,}{'+' if value >= stage['cap'] else ''}", colour


def _circuit(stage: Json, overview: Json, now: datetime) -> Span:
    """Return the state of a stage's worst circuit, with the time until its probe."""
    if stage["paused"]:
        return "paused", "yellow"
    found = [circuit for circuit in overview["circuits"] if circuit["stage"] == stage["stage"]]
    for circuit in found:
        if circuit["state"] == "open" and (until := moment(circuit["open_until"])):
            left = max(0, round((until - now).total_seconds()))
            return f"open {left // 60}:{left % 60:02}", "red"
    if found or stage["availability"] in ("blocked", "probing"):
        return ("half-open", "yellow") if stage["availability"] != "blocked" else ("open", "red")
    return ("parked", "yellow") if stage["availability"] == "parked" else ("closed", "dim")


def _share(stage: Json) -> float:
    share: float = stage["succeeded"] / stage["runs"]
    return share


def _ok(stage: Json) -> Span:
    """Return the share of runs that succeeded; 100 % only if all did."""
    if not stage["runs"]:
        return "", ""
    share = int(100 * _share(stage))
    return f"{share}%", "" if share >= 95 else "yellow" if share >= 50 else "red"
