"""Procrastinate, set up as its docs recommend for many short jobs: with concurrency and a connection pool.

It has no batches: a worker fetches and finishes each job separately, `concurrency` of them at a time. So
`bench/configs.py` sweeps over both. Notifications are off, because no jobs are enqueued during a drain.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import procrastinate
from procrastinate.jobs import Status

from bench.measure import Watch


def _app(url: str, *, pool: int) -> procrastinate.App:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=pool, max_size=pool))
    app.task(name="noop")(_handle)
    return app


def install(url: str) -> None:
    """Install its schema."""

    async def run() -> None:
        async with _app(url, pool=1).open_async() as app:
            await app.schema_manager.apply_schema_async()

    asyncio.run(run())


def enqueue(url: str, *, count: int, batch: int, watch: Watch) -> int:
    """Enqueue `count` jobs, `batch` per call."""

    async def run() -> None:
        async with _app(url, pool=1).open_async() as app:
            watch.open()
            watch.start()
            for _ in range(count // batch):
                await app.tasks["noop"].batch_defer_async(*[{}] * batch)
            watch.mark()

    asyncio.run(run())
    return count


def drain(url: str, *, concurrency: int, connections: int, watch: Watch, delete: str = "never", **_: object) -> int:
    """Drain the queue, perhaps together with other processes. Return how many were run here."""

    async def run() -> int:
        async with _app(url, pool=connections).open_async() as app:
            done = _count(app, watch)
            watch.open()
            watch.start()
            await app.run_worker_async(
                concurrency=concurrency,
                wait=False,
                listen_notify=False,
                install_signal_handlers=False,
                delete_jobs=delete,
            )
            return done()

    return asyncio.run(run())


def drain_by_calls(url: str, *, watch: Watch, **_: object) -> int:
    """Make the same calls without the worker: one to fetch a job and one to finish it, on one connection."""

    async def run() -> int:
        done = 0
        async with _app(url, pool=1).open_async() as app:
            manager = app.job_manager
            worker = await manager.register_worker()
            watch.open()
            watch.start()
            while job := await manager.fetch_job(None, worker):
                await manager.finish_job(job, Status.SUCCEEDED, delete_job=False)
                done += 1
                watch.mark()
        return done

    return asyncio.run(run())


def _count(app: procrastinate.App, watch: Watch) -> Callable[[], int]:
    """Count the outcomes, and mark the last one: stopping the worker takes a while after it."""
    finish = app.job_manager.finish_job
    done = 0

    @functools.wraps(finish)
    async def counted(*arguments: Any, **options: Any) -> None:
        nonlocal done
        await finish(*arguments, **options)
        done += 1
        watch.mark()

    app.job_manager.finish_job = counted  # type: ignore[method-assign]
    return lambda: done


async def _handle() -> None:
    pass
