"""PgQueuer, set up as its performance guide and its own benchmark recommend.

asyncpg ("1.7 times psycopg"), uvloop, the autovacuum settings of `pgq autovac`, its default durability (the others lose
jobs in a crash), and the given `batch_size`. Its guide uses one queue manager per process, with its own connection; its
benchmark uses five. Both are measured, and the better one counts.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.measure import Sample, Watch

Result = TypeVar("Result")


def install(url: str) -> None:
    """Install its schema."""

    async def run() -> None:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        await queries.install()
        await queries.optimize_autovacuum()

    _run(run())


def enqueue(url: str, *, count: int, batch: int) -> Sample:
    """Enqueue `count` jobs, `batch` per call."""
    watch = Watch(url)

    async def run() -> Sample:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        watch.start()
        for _ in range(count // batch):
            await queries.enqueue(["noop"] * batch, [None] * batch, [0] * batch)
        return watch.stop(count)

    return _run(run())


def drain(url: str, *, count: int, batch: int, managers: int) -> Sample:
    """Drain all `count` queued jobs, until the last outcome is committed."""
    watch = Watch(url)
    left = count

    class Counted(Queries):
        """Detects the last outcome: drain mode would wait for a timer after it."""

        async def log_jobs(self, job_status: Any) -> None:
            nonlocal left
            await super().log_jobs(job_status)
            left -= len(job_status)
            if not left:
                watch.mark()
                for worker in workers:
                    worker.shutdown.set()

    async def run() -> Sample:
        for _ in range(managers):
            driver = AsyncpgDriver(await asyncpg.connect(url))
            workers.append(PgQueuer(driver, queries=Counted(driver)))
            workers[-1].entrypoint("noop")(_handle)
        watch.start()
        waiting = timedelta(seconds=0)
        await asyncio.gather(
            *(
                worker.run(batch_size=batch, mode=QueueExecutionMode.drain, log_aggregation_interval=waiting)
                for worker in workers
            )
        )
        if left:
            raise RuntimeError(f"{left} of {count} jobs did not complete")
        return watch.stop(count)

    workers: list[PgQueuer] = []
    return _run(run())


async def _handle(job: Job) -> None:
    pass


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    return uvloop.run(work)
