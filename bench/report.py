"""The report of a run: JSON and Markdown; docs/performance.md quotes the Markdown between two marks."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.table import short
from dev import ROOT

PUBLISHED = ROOT / "docs/bench.json"
PAGE = ROOT / "docs/performance.md"
BEGIN, END = "<!-- make bench: begin -->\n", "<!-- make bench: end -->"

Json = dict[str, Any]

_COSTS = ("server µs", "client µs", "WAL kB", "commits", "rows: insert, update, delete")


def save(report: Json, path: Path) -> None:
    """Write the report as JSON, and as Markdown beside it."""
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(report), encoding="utf-8")


def publish(report: Json) -> None:
    """Write the report where the docs quote it."""
    PUBLISHED.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + markdown(report) + END + rest.partition(END)[2], encoding="utf-8")


def quoted() -> str:
    """Return what the docs quote."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def markdown(report: Json) -> str:
    """Return the report as Markdown."""
    lines = [_about(report), ""]
    for section in report["sections"]:
        lines += [f"**{section['title']}**{_note(section)}", ""]
        if section["lines"]:
            lines += [*_table(section["lines"]), ""]
        if section["aims"]:
            lines += [*map(_aim, section["aims"]), ""]
    return "\n".join(lines)


def _about(report: Json) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    skipped = f" Left out: {report['skipped']}." if report.get("skipped") else ""
    return (
        f"{report['date']}, {report['cores']} cores, load average {report['load']['begin']} at the beginning and "
        f"{report['load']['end']} at the end, {report['seconds']} s.\n{versions}.{skipped}"
    )


def _note(section: Json) -> str:
    return f": {section['note']}" if section["note"] else ""


def _table(lines: list[Json]) -> Iterable[str]:
    """Return a table: with what an item costs where that is known, with what is written where that differs."""
    costly, written = any(line["costs"] for line in lines), any(line["writes"] for line in lines)
    heads = ["", lines[0]["unit"], "min – max", *(_COSTS if costly else ("",))]
    heads += ["what it writes for a job"] * written
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for line in lines:
        cells = [line["name"], short(line["median"]), f"{short(line['least'])} – {short(line['most'])}"]
        cells += _costs(line["costs"] or {}) if costly else [line["note"]]
        cells += [line["writes"]] * written
        yield f"| {' | '.join(cells)} |"


def _costs(costs: dict[str, float]) -> list[str]:
    rows = ", ".join(f"{costs.get(kind, 0):.3g}" for kind in ("inserted", "updated", "deleted"))
    wal, commits = f"{costs.get('wal', 0) / 1000:.2f}", f"{costs.get('commits', 0):.3f}"
    return [
        *(f"{costs[name]:,.0f}" if name in costs else "–" for name in ("server_us", "client_us")),
        wal,
        commits,
        rows,
    ]


def _aim(aim: Json) -> str:
    asked = f" (aim: {aim['target']}{'' if aim['met'] else ', **missed**'})" if aim["target"] else ""
    return f"- {aim['what']}: {short(aim['figure'])}{asked}"
