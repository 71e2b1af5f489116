"""The end of a soak: one value with all results, the tables, and whether it passed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.soak.plan import FAULTS
from proof.soak.sampling import Sample
from proof.soak.trend import SMALL, Trend, trends

_MB = 1024 * 1024
_MOST_LINES = 20
# How the tables call the faults.
WORDS = {
    "kill": "a process killed (SIGKILL)",
    "stop": "a process replaced (SIGTERM)",
    "cut": "half of the connections cut",
    "restart": "Postgres restarted (immediate)",
    "vendor": "the vendor failed all requests",
    "mail": "the mail server was away",
    "read_only": "the database was read-only",
    "pause": "a stage paused",
    "cancel": "an order cancelled",
    "requeue": "dead letters requeued",
}


@dataclass(slots=True, kw_only=True)
class Results:
    """What a soak found. `faults`: kind, begin and end in seconds. `counts`: what was counted, by name."""

    seconds: float
    samples: list[Sample]
    faults: list[tuple[str, float, float]]
    broken: list[str]
    results: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def trends(self) -> list[Trend]:
        return trends(self.samples)


def passed(results: Results) -> bool:
    """Return whether orders were done, every fact holds, and nothing grew beyond its bound."""
    return (
        results.counts.get("orders checked", 0) > 0
        and not results.broken
        and all(trend.holds for trend in results.trends)
    )


def written(results: Results) -> str:
    """Return the report as Markdown that reads well as plain text."""
    parts = [_verdict(results), _orders(results), _faults(results), _trends(results), _errors(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def save(results: Results, folder: Path) -> None:
    """Write the report and its figures into the folder."""
    (folder / "report.md").write_text(written(results), encoding="utf-8")
    figures = {
        "seconds": results.seconds,
        "passed": passed(results),
        "counts": results.counts,
        "results": results.results,
        "errors": results.errors,
        "faults": results.faults,
        "broken": results.broken,
    }
    (folder / "report.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False), encoding="utf-8")


def load(folder: Path) -> Results:
    """Return the results that `save` and the samples of the folder hold."""
    figures = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    figures.pop("passed")
    lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    figures["faults"] = [(kind, begin, end) for kind, begin, end in figures["faults"]]
    return Results(samples=[json.loads(line) for line in lines], **figures)


def _verdict(results: Results) -> str:
    minutes = results.seconds / 60
    done = results.counts.get("orders checked", 0)
    sentence = f"{'PASSED' if passed(results) else 'FAILED'}: {minutes:.1f} minutes, {done:,} orders done and checked."
    lines = [sentence]
    if not done:
        lines.append("No order was done.")
    lines += [f"- {line}" for line in results.broken[:_MOST_LINES]]
    if len(results.broken) > _MOST_LINES:
        lines.append(f"- and {len(results.broken) - _MOST_LINES} more: report.json has all")
    grown = [trend.name for trend in results.trends if not trend.holds]
    if grown:
        lines.append(f"Grew beyond its bound: {', '.join(grown)}.")
    return "\n".join(lines)


def _orders(results: Results) -> str:
    rows = [(name, f"{number:,}") for name, number in results.counts.items()]
    rows += [(f"runs that ended with {name}", f"{number:,}") for name, number in sorted(results.results.items())]
    return table(("what", "number"), rows)


def _faults(results: Results) -> str:
    rows = []
    for kind in FAULTS:
        spans = [end - begin for name, begin, end in results.faults if name == kind]
        rows.append((WORDS[kind], str(len(spans)), f"{max(spans):.0f} s" if spans and max(spans) >= 1 else ""))
    return table(("fault", "times", "longest"), rows)


def _trends(results: Results) -> str:
    found = results.trends
    if not found:
        return "The run was too short to judge trends: ten minutes are enough."
    shown = [trend for trend in found if not (trend.holds and trend.is_small)]
    rows = [
        (
            trend.name,
            f"{_number(trend.level)} {trend.unit}".strip(),
            f"{'+' if trend.growth >= 0 else ''}{_number(trend.growth)}",
            _number(trend.allowed),
            "holds" if trend.holds else "GREW",
        )
        for trend in shown
    ]
    if len(shown) < len(found):
        rows.append((f"{len(found) - len(shown)} tables below {SMALL} MB", "", "", "", "hold"))
    return table(("after the warm-up", "level", "growth", "allowed", ""), rows)


def _errors(results: Results) -> str:
    rows = [(name, f"{number:,}") for name, number in sorted(results.errors.items(), key=lambda item: -item[1])]
    return table(("error met by those outside, and log events from warning on", "times"), rows[:30])


def _number(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns; empty without rows. All columns but the first are to the right."""
    return "\n".join(_table(head, rows)) if rows else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(3, *(len(row[at]) for row in [head, *rows])) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(aligned)} |"

    yield line(head)
    yield "| " + " | ".join("-" * (width - bool(at)) + ":" * bool(at) for at, width in enumerate(widths)) + " |"
    yield from map(line, rows)
