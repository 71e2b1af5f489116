"""python -m bench [--quick] [--only drain10,drain100,enqueue,calls,claims,together,imports]"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import psycopg

from bench.calls import counted
from bench.claims import claims
from bench.imports import import_time
from bench.scale import Scale
from bench.server import bench_server
from bench.side_by_side import drains, enqueueing
from bench.table import write
from bench.together import at_once
from dev.postgres import Embedded

Chapter = Callable[[Embedded, Scale], None]

_CHAPTERS: dict[str, Chapter] = {
    "drain10": lambda server, scale: drains(server, scale, batch=10, target=1.3),
    "drain100": lambda server, scale: drains(server, scale, batch=100, target=1.5),
    "enqueue": enqueueing,
    "calls": lambda server, _: counted(server),
    "claims": claims,
    "together": at_once,
    "imports": lambda _, scale: import_time(scale),
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the costs of the job processor.")
    parser.add_argument("--quick", action="store_true", help="small numbers, a minute or two, to check that it runs")
    parser.add_argument("--only", default=",".join(_CHAPTERS), help="comma-separated chapters: %(default)s")
    options = parser.parse_args()
    chapters = options.only.split(",")
    if unknown := [name for name in chapters if name not in _CHAPTERS]:
        parser.error(f"no such chapter: {', '.join(unknown)}")
    scale = Scale.quick() if options.quick else Scale()
    began = time.monotonic()
    with bench_server() as server:
        _about(server, scale)
        for name in chapters:
            _CHAPTERS[name](server, scale)
    write()
    write(f"{time.monotonic() - began:.0f} s in total; {_load()} at the end.")


def _about(server: Embedded, scale: Scale) -> None:
    """Print the environment of the figures."""
    with psycopg.connect(server.url) as connection:
        postgres = connection.info.parameter_status("server_version")
    packages = ", ".join(f"{name} {version(name)}" for name in ("procrastinate", "pgqueuer", "psycopg", "asyncpg"))
    write(
        f"Python {platform.python_version()}, PostgreSQL {postgres}, {os.cpu_count()} cores, {sys.platform}; {packages}"
    )
    write("fsync, synchronous_commit and full_page_writes on; all on this machine, over its unix socket")
    write(f"medians of {scale.rounds}, with minimum – maximum; contenders take turns; {_load()} at the start")
    write("CPU is per job; other load on the machine slows down times, but CPU less")


def _load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"


if __name__ == "__main__":
    main()
