"""Ours: the real engine, `run_tick` with the real store over psycopg, and an empty stage."""

import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from pydantic import BaseModel

from bench.measure import Sample, Watch
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


def enqueue(url: str, *, count: int, batch: int) -> Sample:
    """Enqueue `count` jobs, `batch` per call."""
    watch = Watch(url)
    store = connect(settings_for(url, concurrency=1))
    store.check_health()
    batches = [jobs(range(first, first + batch)) for first in range(0, count, batch)]
    watch.start()
    for rows in batches:
        store.enqueue(rows)
    return watch.stop(count)


def drain(url: str, *, count: int, batch: int, ticks: int = 1, log: bool = False) -> Sample:
    """Drain all `count` queued jobs with this many ticks: threads of one process, each with its connection.

    `log`: log to standard error as in production, one line per run. Otherwise logging is off, as for the peers.
    """
    watch = Watch(url)
    settings = settings_for(url, concurrency=batch)
    stores = [connect(settings) for _ in range(ticks)]
    for store in stores:
        store.check_health()
    if log:
        events.configure(readable=False)

    def tick(store: Store) -> TickReport:
        return run_tick(store, REGISTRY, settings, source="bench", limit=count, budget=600, linger=False)

    with ThreadPoolExecutor(ticks) as threads:
        watch.start()
        reports = list(threads.map(tick, stores))
    done = sum(report.completed for report in reports)
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs completed: {reports}")
    return watch.stop(count)


def drain_by_store(url: str, *, count: int, batch: int) -> Sample:
    """Make the same calls without the engine: no threads, handlers and events."""
    watch = Watch(url)
    settings = settings_for(url, concurrency=batch)
    store = connect(settings)
    store.check_health()
    watch.start()
    done = _calls(store, settings, count=count, batch=batch)
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs completed")
    return watch.stop(count)


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


def drain_at_once(url: str, *, gate: int, batch: int) -> Sample:
    """Drain a queue together with others, from the moment the gate (an advisory lock) opens."""
    settings = settings_for(url, concurrency=batch)
    store = connect(settings)
    store.check_health()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock_shared(%s)", [gate])
    began = time.perf_counter()
    report = run_tick(store, REGISTRY, settings, source="bench", limit=100_000, budget=600, linger=False)
    return Sample(count=report.completed, seconds=time.perf_counter() - began)
