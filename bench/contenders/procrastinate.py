"""Procrastinate, set up as its docs recommend for many short jobs: with concurrency and a connection pool.

It has no batches: a worker fetches and finishes each job separately, `concurrency` of them at a time. The pool size is
the fastest of 4, 11, 20, 50 and 101 on two cores, where fewer are faster. Notifications are off, because no jobs are
enqueued during a drain.
"""

import asyncio
import functools
from typing import Any

import procrastinate

from bench.measure import Sample, Watch

_CONNECTIONS = 4


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


def enqueue(url: str, *, count: int, batch: int) -> Sample:
    """Enqueue `count` jobs, `batch` per call."""
    watch = Watch(url)

    async def run() -> Sample:
        async with _app(url, pool=1).open_async() as app:
            watch.start()
            for _ in range(count // batch):
                await app.tasks["noop"].batch_defer_async(*[{}] * batch)
            return watch.stop(count)

    return asyncio.run(run())


def drain(url: str, *, count: int, batch: int, connections: int = _CONNECTIONS) -> Sample:
    """Drain all `count` queued jobs, until the last outcome is committed."""
    watch = Watch(url)

    async def run() -> Sample:
        async with _app(url, pool=connections).open_async() as app:
            left = _count_down(app, count, watch)
            watch.start()
            await app.run_worker_async(
                concurrency=batch, wait=False, listen_notify=False, install_signal_handlers=False
            )
            if left():
                raise RuntimeError(f"{left()} of {count} jobs did not complete")
            return watch.stop(count)

    return asyncio.run(run())


def _count_down(app: procrastinate.App, count: int, watch: Watch) -> Any:
    """Detect the last outcome: stopping the worker takes a while after it."""
    finish = app.job_manager.finish_job
    left = count

    @functools.wraps(finish)
    async def counted(*arguments: Any, **options: Any) -> None:
        nonlocal left
        await finish(*arguments, **options)
        left -= 1
        if not left:
            watch.mark()

    app.job_manager.finish_job = counted  # type: ignore[method-assign]
    return lambda: left


async def _handle() -> None:
    pass
