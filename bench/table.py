"""The output: tables with bars, printed at once and recorded for the report."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import Sample, Spread

_BAR = 20

SECTIONS: list[dict[str, Any]] = []
"""What was printed: sections with `title`, `note`, `lines` and `aims`, as `bench.report` writes them."""


def write(text: str = "") -> None:
    """Print a line at once: a run takes minutes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def title(text: str, *, note: str = "") -> None:
    """Print a heading, and begin a section."""
    SECTIONS.append({"title": text, "note": note, "lines": [], "aims": []})
    write()
    write(text)
    write("─" * len(text))
    if note:
        write(f"  {note}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A name, its figures, and a note. `costs`: per item, by the name of a cost, for the report."""

    name: str
    spread: Spread
    note: str = ""
    costs: dict[str, float] | None = None
    writes: str = ""


def bars(lines: Sequence[Line], *, unit: str) -> None:
    """Print medians as bars, with minimum and maximum."""
    longest = max(line.spread.median for line in lines)
    width = max(24, *(len(line.name) for line in lines))
    for line in lines:
        bar = "█" * max(1, round(_BAR * line.spread.median / longest))
        spread = f"{short(line.spread.least)} – {short(line.spread.most)}"
        median = f"{short(line.spread.median)} {unit}"
        write(f"  {line.name:<{width}} {bar:<{_BAR}} {median:>14}  {spread:>17}  {line.note}".rstrip())
        record = {"name": line.name, "unit": unit, "median": line.spread.median, "least": line.spread.least}
        record |= {"most": line.spread.most, "note": line.note, "costs": line.costs, "writes": line.writes}
        _section()["lines"].append(record)


def costs(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the medians per item: µs of CPU, bytes of WAL, commits, and rows."""
    figures = {
        "server_us": [sample.server.cpu and 1e6 * sample.server.cpu / sample.count for sample in samples],
        "client_us": [sample.client_cpu and 1e6 * sample.client_cpu / sample.count for sample in samples],
        "wal": [sample.server.wal / sample.count for sample in samples],
        "commits": [sample.server.commits / sample.count for sample in samples],
        "inserted": [sample.server.inserted / sample.count for sample in samples],
        "updated": [sample.server.updated / sample.count for sample in samples],
        "deleted": [sample.server.deleted / sample.count for sample in samples],
    }
    known = {name: [figure for figure in taken if figure is not None] for name, taken in figures.items()}
    return {name: round(Spread.of(taken).median, 3) for name, taken in known.items() if taken}


def line(name: str, samples: Sequence[Sample], *, writes: str = "") -> Line:
    """Return the line of a contender's samples."""
    spent = costs(samples)
    parts = [f"{kind} {spent[f'{kind}_us']:.0f} µs" for kind in ("server", "client") if f"{kind}_us" in spent]
    parts += [f"WAL {spent['wal'] / 1000:.2f} kB", f"commits {spent['commits']:.3f}"]
    parts.append(f"rows +{spent['inserted']:.2g} ~{spent['updated']:.2g} -{spent['deleted']:.2g}")
    spread = Spread.of([sample.per_second for sample in samples])
    return Line(name=name, spread=spread, note=", ".join(parts), costs=spent, writes=writes)


def aim(what: str, figure: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
    """Print a target, met or missed, or a figure without one."""
    met, target = True, ""
    if at_least is not None:
        met, target = figure >= at_least, f"at least {at_least:g}"
    elif at_most is not None:
        met, target = figure <= at_most, f"at most {at_most:g}"
    _section()["aims"].append({"what": what, "figure": round(figure, 4), "target": target, "met": met})
    mark = ("met   " if met else "MISSED") if target else "      "
    write(f"  {mark}  {what}: {figure:.3g}{f' (target: {target})' if target else ''}")


def short(figure: float) -> str:
    """Return a figure with three digits or in whole."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def _section() -> dict[str, Any]:
    if not SECTIONS:
        SECTIONS.append({"title": "", "note": "", "lines": [], "aims": []})
    return SECTIONS[-1]
