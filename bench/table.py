"""The output: tables with bars."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bench.measure import Sample, Spread

_BAR = 28


def write(text: str = "") -> None:
    """Print a line at once: a run takes minutes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def title(text: str) -> None:
    """Print a heading."""
    write()
    write(text)
    write("─" * len(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A name, its figures, and a note."""

    name: str
    spread: Spread
    note: str = ""


def bars(lines: Sequence[Line], *, unit: str) -> None:
    """Print medians as bars, with minimum and maximum."""
    longest = max(line.spread.median for line in lines)
    for line in lines:
        bar = "█" * max(1, round(_BAR * line.spread.median / longest))
        spread = f"{_short(line.spread.least)} – {_short(line.spread.most)}"
        median = f"{_short(line.spread.median)} {unit}"
        write(f"  {line.name:<24} {bar:<{_BAR}} {median:>14}  {spread:>17}  {line.note}".rstrip())


def cpu(samples: Sequence[Sample]) -> str:
    """Return the median CPU time per job of server and client, in microseconds."""
    server = [1e6 * sample.server_cpu / sample.count for sample in samples if sample.server_cpu is not None]
    client = [1e6 * sample.client_cpu / sample.count for sample in samples if sample.client_cpu is not None]
    parts = [
        f"{name} {Spread.of(figures).median:.0f} µs"
        for name, figures in (("server", server), ("client", client))
        if figures
    ]
    return ", ".join(parts)


def aim(what: str, figure: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
    """Print a target, met or missed."""
    if at_least is not None:
        met, target = figure >= at_least, f"at least {at_least:g}"
    else:
        met, target = at_most is None or figure <= at_most, f"at most {at_most:g}"
    write(f"  {'met   ' if met else 'MISSED'}  {what}: {figure:.3g} (target: {target})")


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
