"""Measure a fleet: python -m bench.fleet [SECONDS]

1, 4 and 16 functions, each a process that runs tick after tick of ten handlers at once, on one long queue in
one Postgres. First with handlers that do nothing, then with handlers that wait 100 ms as for a vendor.
"""

import os
import subprocess
import sys
import time

import psycopg

from bench.server import bench_server, fresh, tidy
from bench.table import title, write
from dev import ROOT
from dev.migrate import migrate
from lib.config.load import load
from lib.job import Complete
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from lib.store.connect import connect
from lib.tick.tick import run_tick
from lib.validation import StrictModel

_FUNCTIONS = (1, 4, 16)
_JOBS = 60_000
_FILL = """
    insert into giftcard_jobs (correlation_id, stage, circuit)
    select %s || n, 'work', 'work' from generate_series(1, %s) n
"""


class _Nothing(StrictModel):
    """A payload without fields."""


def main(seconds: float) -> None:
    """Print jobs a minute for each size of the fleet."""
    with bench_server() as server:
        for pause in (0.0, 0.1):
            title(f"A fleet whose handlers take {1000 * pause:g} ms")
            for functions in _FUNCTIONS:
                url = fresh(server)
                migrate(url)
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute(_FILL, [f"{functions}-", _JOBS])
                tidy(url)
                per_minute = _measured(url, functions, pause=pause, seconds=seconds)
                write(f"{functions:>3} functions: {per_minute:>8,.0f} jobs a minute; load {os.getloadavg()[0]:.1f}")


def _measured(url: str, functions: int, *, pause: float, seconds: float) -> float:
    """Return jobs a minute, counted in the database while all functions are at work."""
    command = [sys.executable, "-m", "bench.fleet", str(seconds), url, str(pause)]
    running = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) for _ in range(functions)]  # noqa: S603
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            while _count(connection, "select count(distinct owner) from giftcard_ticks where started > 0") < functions:
                time.sleep(0.1)
            before, began = _count(connection, _DONE), time.monotonic()
            time.sleep(seconds)
            return 60 * (_count(connection, _DONE) - before) / (time.monotonic() - began)
    finally:
        for process in running:
            process.kill()
            process.wait()


_DONE = "select count(*) from giftcard_job_history"


def _count(connection: psycopg.Connection[tuple[int]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else 0


def work(url: str, pause: float) -> None:
    """Run one tick after the other, until the process is killed."""

    @stage("work", payload=_Nothing)
    def wait(_: _Nothing, __: object) -> Complete:
        if pause:
            time.sleep(pause)
        return Complete()

    os.environ |= {"DATABASE_URL": url, "GIFTCARD_ENV": "test", "GIFTCARD_CONCURRENCY": "10", "SUPABASE_URL": ""}
    settings = load()
    store = connect(settings)
    while True:
        run_tick(store, Registry({"work": wait}), settings, source="bench", limit=1000, linger=False)


if __name__ == "__main__":
    if sys.argv[2:]:
        work(sys.argv[2], float(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else 8.0)
