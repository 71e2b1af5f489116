"""Several ticks at once on one queue, each in its own process."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from bench.child import measured
from bench.contenders import ours
from bench.measure import Sample, Spread
from bench.scale import Scale
from bench.server import fresh, tidy
from bench.table import Line, bars, title
from dev.postgres import Embedded

# The advisory lock that holds the ticks back until all are ready.
GATE = 20_261_127


def at_once(server: Embedded, scale: Scale) -> None:
    """Measure one, four and eight ticks with ten threads each."""
    title(f"Ticks at once, draining {scale.jobs:,} jobs together, ten threads each")
    url = fresh(server)
    ours.install(url)
    speeds: dict[int, list[float]] = {1: [], 4: [], 8: []}
    for _ in range(scale.rounds):
        for ticks, taken in speeds.items():
            ours.enqueue(url, count=scale.jobs, batch=scale.enqueue_batch)
            tidy(url)
            taken.append(_race(url, ticks=ticks, jobs=scale.jobs))
    names = {1: "one tick", 4: "four ticks", 8: "eight ticks"}
    bars([Line(name=names[ticks], spread=Spread.of(taken)) for ticks, taken in speeds.items()], unit="jobs/s")
    _check(url)


def _race(url: str, *, ticks: int, jobs: int) -> float:
    """Return jobs per second, from the opening of the gate to the end of the last tick."""
    with psycopg.connect(url, autocommit=True) as gate, ThreadPoolExecutor(ticks) as pool:
        gate.execute("select pg_advisory_lock(%s)", [GATE])
        running = [pool.submit(measured, "ours", "drain_at_once", url, gate=GATE, batch=10) for _ in range(ticks)]
        query = "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted"
        while (gate.execute(query, [GATE]).fetchone() or [0])[0] < ticks:
            if any(one.done() for one in running):
                break
            threading.Event().wait(0.02)
        gate.execute("select pg_advisory_unlock(%s)", [GATE])
        samples: list[Sample] = [one.result() for one in running]
    done = sum(sample.count for sample in samples)
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs completed")
    return jobs / max(sample.seconds for sample in samples)


def _check(url: str) -> None:
    """Check that each job ran once."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) from giftcard_jobs where run_no <> 1 or status <> 'completed'"
        ).fetchone()
    if row is None or row[0]:
        raise RuntimeError(f"jobs that did not run exactly once: {row}")
