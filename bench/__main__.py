"""python -m bench [--quick] [--only CHAPTERS] [--write], or python -m bench orders [--orders N]"""

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg

from bench import node, orders, report
from bench.calls import counted
from bench.claims import claims
from bench.imports import import_time
from bench.scale import Scale
from bench.server import bench_server
from bench.side_by_side import drains, enqueueing
from bench.table import SECTIONS, write
from dev import LOCAL
from dev.postgres import Embedded

Chapter = Callable[[Embedded, Scale], None]

_CHAPTERS: dict[str, Chapter] = {
    "drain10": lambda server, scale: drains(server, scale, batch=10, until=_until(scale, part=0.55)),
    "drain100": lambda server, scale: drains(server, scale, batch=100, until=_until(scale, part=1)),
    "enqueue": enqueueing,
    "orders": orders.orders,
    "calls": lambda server, _: counted(server),
    "claims": claims,
    "imports": lambda _, scale: import_time(scale),
}
# The drains come last: their rounds take the time that is left.
_ORDER = ("calls", "imports", "enqueue", "orders", "claims", "drain10", "drain100")
_BEGAN = time.monotonic()
_PACKAGES = ("pgqueuer", "procrastinate", "psycopg", "asyncpg")
_REPORT = LOCAL / "bench-report.json"


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["orders"]:
        orders.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="bench", description="Measure the costs of the job processor.")
    parser.add_argument("--quick", action="store_true", help="small numbers, three minutes, to check that it runs")
    parser.add_argument("--only", default=",".join(_CHAPTERS), help="comma-separated chapters: %(default)s")
    parser.add_argument("--write", action="store_true", help="write the report into docs/, too")
    parser.add_argument("--report", type=Path, help="with --write: measure nothing, take the report of an earlier run")
    options = parser.parse_args()
    chapters = options.only.split(",")
    if unknown := [name for name in chapters if name not in _CHAPTERS]:
        parser.error(f"no such chapter: {', '.join(unknown)}")
    if options.write and not options.report and (options.quick or set(chapters) != set(_CHAPTERS)):
        parser.error("--write takes a whole run: leave out --quick and --only")
    if options.report:
        found = json.loads(options.report.read_text(encoding="utf-8"))
    else:
        found = _run(chapters, Scale.quick() if options.quick else Scale())
    if found.get("failed"):
        sys.exit(f"failed, see above: {', '.join(found['failed'])}; the report is not written into docs/")
    if options.write:
        report.publish(found)
        write(f"Written: {report.PUBLISHED}, {report.PAGE}")


def _run(chapters: list[str], scale: Scale) -> dict[str, Any]:
    """Run chapters and return the report, which is saved after each of them."""
    found, sections = _about(), {name: list[Any]() for name in _CHAPTERS}
    with bench_server() as server:
        with psycopg.connect(server.url) as connection:
            found["versions"]["PostgreSQL"] = connection.info.parameter_status("server_version")
        write(json.dumps(found, ensure_ascii=False))
        write("fsync, synchronous_commit and full_page_writes on; all on this machine, over its unix socket")
        write("medians, with minimum – maximum; contenders take turns; CPU, WAL, commits and rows are per job")
        for name in sorted(chapters, key=_ORDER.index):
            SECTIONS.clear()
            try:
                _CHAPTERS[name](server, scale)
            except Exception:  # noqa: BLE001 - the others are worth having
                write(traceback.format_exc())
                found["failed"] = [*found.get("failed", []), name]
            sections[name] = list(SECTIONS)
            found |= {"seconds": round(time.monotonic() - _BEGAN), "sections": [*chain(*sections.values())]}
            found["load"]["end"] = _load()
            report.save(found, _REPORT)
    write()
    write(f"{found['seconds']} s in total, load average {_load()} at the end; the report: {_REPORT}")
    return found


def _about() -> dict[str, Any]:
    """Return the environment of the figures."""
    skipped = node.prepare()
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            skipped = "; ".join(filter(None, (skipped, f"{name} is not installed: run make venv-bench")))
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "cores": os.cpu_count(),
        "load": {"begin": _load()},
        "versions": versions | node.versions(),
        "skipped": skipped,
    }


def _until(scale: Scale, *, part: float) -> float:
    """Return when a chapter should end that may take this part of the time left."""
    now = time.monotonic()
    return now + part * max(0.0, _BEGAN + scale.seconds - now)


def _load() -> float:
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else -1.0


if __name__ == "__main__":
    main()
