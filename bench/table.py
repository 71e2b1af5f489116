"""How results are shown: lines of a table, with bars where figures are to be compared by eye."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bench.measure import Sample, Spread

_BAR = 28


def say(text: str = "") -> None:
    """One line on standard output, at once: a run takes minutes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def title(text: str) -> None:
    """Begins a chapter."""
    say()
    say(text)
    say("─" * len(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A name, its figures, and what else there is to say of it."""

    name: str
    spread: Spread
    note: str = ""


def bars(lines: Sequence[Line], *, unit: str) -> None:
    """The medians side by side, with least and most."""
    longest = max(line.spread.median for line in lines)
    for line in lines:
        bar = "█" * max(1, round(_BAR * line.spread.median / longest))
        spread = f"{_short(line.spread.least)} – {_short(line.spread.most)}"
        median = f"{_short(line.spread.median)} {unit}"
        say(f"  {line.name:<24} {bar:<{_BAR}} {median:>14}  {spread:>17}  {line.note}".rstrip())


def cpu(samples: Sequence[Sample]) -> str:
    """CPU per job of server and client, in microseconds: medians."""
    server = [1e6 * sample.server_cpu / sample.count for sample in samples if sample.server_cpu is not None]
    client = [1e6 * sample.client_cpu / sample.count for sample in samples if sample.client_cpu is not None]
    said = [
        f"{name} {Spread.of(figures).median:.0f} µs"
        for name, figures in (("server", server), ("client", client))
        if figures
    ]
    return ", ".join(said)


def aim(what: str, figure: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
    """An aim, met or missed."""
    if at_least is not None:
        met, wanted = figure >= at_least, f"at least {at_least:g}"
    else:
        met, wanted = at_most is None or figure <= at_most, f"at most {at_most:g}"
    say(f"  {'met   ' if met else 'MISSED'}  {what}: {figure:.3g} (aim: {wanted})")


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
