"""Ours: the real engine, `run_tick` with the real store over psycopg, and an empty stage."""

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
from pydantic import BaseModel

from bench.measure import Watch
from dev.migrate import migrate
from lib.config.database_url import DatabaseUrl
from lib.config.settings import Settings
from lib.job import Complete, Outcome
from lib.jobs.context import Context
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from lib.store.codec import Result
from lib.store.connect import connect
from lib.store.store import Store
from lib.telemetry import events
from lib.tick.report import TickReport
from lib.tick.tick import run_tick


class _Nothing(BaseModel):
    pass


@stage("noop", payload=_Nothing)
def _noop(_payload: _Nothing, _context: Context) -> Outcome:
    return Complete()


REGISTRY = Registry({"noop": _noop})


def settings_for(url: str, *, concurrency: int) -> Settings:
    """Return default settings with this concurrency."""
    return Settings(
        database_url=DatabaseUrl(url, environment="development"),
        giftcard_concurrency=concurrency,
        giftcard_tick_budget_seconds=600,
    )


def install(url: str) -> None:
    """Apply all migrations."""
    migrate(url)


def jobs(numbers: Iterable[int], *, circuit: str = "noop") -> list[dict[str, Any]]:
    """Return empty jobs for `Store.enqueue`."""
    return [
        {"stage": "noop", "correlation_id": f"bench-{uuid.uuid4().hex[:8]}-{n}", "circuit": circuit} for n in numbers
    ]


def enqueue(url: str, *, count: int, batch: int, watch: Watch | None = None) -> int:
    """Enqueue `count` jobs, `batch` per call."""
    watch = watch or Watch()
    with closing(connect(settings_for(url, concurrency=1))) as store:
        store.check_health()
        batches = [jobs(range(first, first + batch)) for first in range(0, count, batch)]
        watch.open()
        watch.start()
        for rows in batches:
            store.enqueue(rows)
        watch.mark()
    return count


def drain(url: str, *, count: int, batch: int, ticks: int = 1, log: bool = False, watch: Watch | None = None) -> int:
    """Drain the queue of `count` jobs with this many ticks: threads, each with its connection.

    Other processes may drain it, too; the result is how many were run here. `log`: log to standard error as in
    production, one line per run. Otherwise logging is off, as for the peers.
    """
    watch = watch or Watch()
    settings = settings_for(url, concurrency=batch)
    stores = [connect(settings) for _ in range(ticks)]
    for store in stores:
        store.check_health()
    if log:
        events.configure(readable=False)

    def tick(store: Store) -> TickReport:
        report = run_tick(store, REGISTRY, settings, source="bench", limit=count, budget=600, linger=False)
        watch.mark()
        return report

    with ThreadPoolExecutor(ticks) as threads:
        watch.open()
        watch.start()
        reports = list(threads.map(tick, stores))
    for store in stores:
        store.close()
    return sum(report.completed for report in reports)


def drain_by_store(url: str, *, count: int, batch: int, watch: Watch | None = None) -> int:
    """Make the same calls without the engine: no threads, handlers and events."""
    watch = watch or Watch()
    settings = settings_for(url, concurrency=batch)
    with closing(connect(settings)) as store:
        store.check_health()
        watch.open()
        watch.start()
        done = _calls(store, settings, count=count, batch=batch)
        watch.mark()
    return done


def _calls(store: Store, settings: Settings, *, count: int, batch: int) -> int:
    step = store.begin_tick(
        key=str(uuid.uuid4()),
        owner="bench",
        source="bench",
        stages=REGISTRY.ready(settings),
        limit=min(batch, count),
        live_seconds=600,
    )
    tick_id, started, done = step.tick_id, len(step.jobs), 0
    while step.jobs:
        step = store.advance_tick(
            tick_id,
            claim_key=str(uuid.uuid4()),
            results=[Result(job=job, outcome=Complete()) for job in step.jobs],
            limit=min(batch, count - started),
            busy=0,
        )
        started += len(step.jobs)
        done += sum(settled.settled == "settled" for settled in step.settled)
    return done


def check(url: str) -> None:
    """Raise RuntimeError unless every job ran exactly once."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) from giftcard_jobs where status = 'completed' and run_no <> 1 or status = 'error'"
        ).fetchone()
    if row is None or row[0]:
        raise RuntimeError(f"jobs that did not run exactly once: {row}")
