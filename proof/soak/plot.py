"""The pictures of a soak: small multiples over one time axis, which need neither colours nor a legend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from proof.soak.report import Results
from proof.soak.sampling import Sample
from proof.soak.trend import KEPT, WARM_UP, cpu_per_run, series

mpl.use("svg")

from matplotlib import pyplot as plt

_MB = 1024 * 1024
Points = list[tuple[float, float]]
# A line of a panel is told apart by its tone, its dashes and the name at its end.
_STYLES = (("black", "-"), ("0.45", "-"), ("black", (0, (4, 2))), ("0.6", (0, (1, 1))))
_COLUMNS = 3
# Points a line: more would only make the file bigger.
_MOST = 240
_MARKS = {"restart": "Postgres restarted", "read_only": "read-only", "vendor": "vendor fails", "mail": "no mail server"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One small picture: its title with the unit, and its lines by name."""

    title: str
    lines: dict[str, Points]


def panels(samples: Sequence[Sample]) -> list[Panel]:
    """Return what the pictures show."""

    def of(value: Callable[[Sample], float | None]) -> Points:
        return series(samples, value)

    def at(name: str, index: int, scale: float = 1.0) -> Points:
        return of(lambda one: one[name][index] * scale if one.get(name) else None)

    return [
        Panel(
            "Memory of a process, MB",
            {
                "never killed": of(lambda one: _memory(one, "instance 1")),
                "killed now and then": of(lambda one: _memory(one, "instance 2")),
            },
        ),
        Panel("Private memory of Postgres, MB", {"": of(lambda one: _scaled(one.get("memory_postgres")))}),
        Panel("Connections of the application", {"": of(lambda one: one.get("connections"))}),
        Panel(
            "Tables that are pruned, MB with indexes",
            {
                "jobs": of(lambda one: _size(one, ("jobs",))),
                "runs": of(lambda one: _size(one, ("job_history",))),
                "archive": of(lambda one: _size(one, ("jobs_archive",))),
                "all others": of(lambda one: _size(one, _others(one))),
            },
        ),
        Panel("Tables that are kept, MB with indexes", {"": of(lambda one: _size(one, KEPT))}),
        Panel(
            "Dead rows, thousands",
            {
                "pruned tables": of(lambda one: _dead(one, kept=False)),
                "kept tables": of(lambda one: _dead(one, kept=True)),
            },
        ),
        Panel("From order to mail, s", {"median": at("to_mail", 0), "95 %": at("to_mail", 1)}),
        Panel("A tick, s", {"median": at("tick", 0), "95 %": at("tick", 1)}),
        Panel("An answer of the API, ms", {"median": at("answer", 0, 1000), "95 %": at("answer", 1, 1000)}),
        Panel("CPU for each run of a job, ms", {"": cpu_per_run(samples)}),
        Panel(
            "Jobs that wait, and dead letters",
            {
                "queued": of(lambda one: one.get("queued")),
                "dead letters": of(lambda one: one.get("dead_letters")),
            },
        ),
        Panel("The oldest job that could run, s late", {"": of(lambda one: one.get("oldest_due"))}),
    ]


def draw(results: Results, folder: Path) -> None:
    """Write soak.svg and soak.png into the folder."""
    shown = panels(results.samples)
    rows = -(-len(shown) // _COLUMNS)
    look: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "soak", "path.simplify": True}
    with mpl.rc_context(look):
        figure, axes = plt.subplots(rows, _COLUMNS, figsize=(11, 2.1 * rows), sharex=True, layout="constrained")
        end = max((one["t"] for one in results.samples), default=1.0) / 60
        for axis, panel in zip(axes.flat, shown, strict=True):
            _draw_panel(axis, panel, end=end)
            _mark_faults(axis, results)
        for axis in axes[-1]:
            axis.set_xlabel("minutes")
        figure.suptitle(_title(results), x=0.01, ha="left", fontsize=9)
        for name in ("soak.svg", "soak.png"):
            figure.savefig(folder / name, dpi=110, metadata={"Date": None} if name.endswith("svg") else None)
        plt.close(figure)


def _title(results: Results) -> str:
    orders = results.counts.get("orders checked", 0)
    return (
        f"{orders:,} orders in {results.seconds / 60:.0f} minutes under faults. Grey: the time before trends count. "
        "Ticks below each title: Postgres restarted (tall), vendor, mail server or writes away (short)."
    )


def _draw_panel(axis: Any, panel: Panel, *, end: float) -> None:
    axis.set_title(panel.title, loc="left", fontsize=8, pad=12)
    axis.axvspan(0, WARM_UP * end, color="0.93", lw=0)
    top = 0.0
    ends = []
    for (name, points), (tone, dashes) in zip(panel.lines.items(), _STYLES, strict=False):
        thin = points[:: max(1, len(points) // _MOST)]
        if not thin:
            continue
        axis.plot([x / 60 for x, _ in thin], [y for _, y in thin], color=tone, linestyle=dashes, linewidth=0.9)
        top = max(top, *(y for _, y in thin))
        ends.append((sum(y for _, y in thin[-5:]) / len(thin[-5:]), name, tone))
    axis.set_xlim(0, end * 1.22 if any(name for _, name, _ in ends) else end * 1.02)
    axis.set_ylim(0, top * 1.08 or 1)
    axis.spines[["top", "right"]].set_visible(False)
    _name_lines(axis, ends, top=top or 1, at=end * 1.02)


def _name_lines(axis: Any, ends: list[tuple[float, str, str]], *, top: float, at: float) -> None:
    """Write each line's name at its end, one above the other where they would overlap."""
    lowest = float("-inf")
    for height, name, tone in sorted(ends):
        lowest = max(height, lowest + 0.13 * top)
        axis.text(at, lowest, name, color=tone if tone == "black" else "0.35", va="center", fontsize=7)


def _mark_faults(axis: Any, results: Results) -> None:
    """Mark the faults that concern everything, between the title and the picture."""
    for kind, begin, _ in results.faults:
        if kind in _MARKS:
            height = 1.08 if kind == "restart" else 1.04
            axis.plot(
                [begin / 60, begin / 60],
                [1.01, height],
                transform=axis.get_xaxis_transform(),
                color="black",
                linewidth=0.9,
                clip_on=False,
            )


def _memory(sample: Sample, who: str) -> float | None:
    return _scaled(sample["memory"].get(who))


def _scaled(value: float | None) -> float | None:
    return None if value is None else value / _MB


def _size(sample: Sample, tables: Sequence[str]) -> float | None:
    measured = sample.get("tables")
    return sum(sum(measured[table][:2]) for table in tables if table in measured) / _MB if measured else None


def _others(sample: Sample) -> list[str]:
    shown = {"jobs", "job_history", "jobs_archive", *KEPT}
    return [table for table in sample.get("tables", {}) if table not in shown]


def _dead(sample: Sample, *, kept: bool) -> float | None:
    measured = sample.get("tables")
    if not measured:
        return None
    return float(sum(dead for table, (_, _, dead) in measured.items() if (table in KEPT) == kept) / 1000)
