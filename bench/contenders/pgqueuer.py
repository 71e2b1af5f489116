"""PgQueuer with what its performance guide and its own benchmark recommend.

asyncpg ("1.7 times psycopg"), uvloop, the autovacuum settings of `pgq autovac`, its default durability (durable: the
others lose jobs in a crash), `batch_size` as asked. Its guide has one queue manager in a process, with a connection of
its own; its benchmark has five. Both are measured, and the better one counts.
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
    """Its schema."""

    async def run() -> None:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        await queries.install()
        await queries.optimize_autovacuum()

    _run(run())


def enqueue(url: str, *, count: int, batch: int) -> Sample:
    """`count` jobs, `batch` a call."""
    watch = Watch(url)

    async def run() -> Sample:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        watch.start()
        for _ in range(count // batch):
            await queries.enqueue(["noop"] * batch, [None] * batch, [0] * batch)
        return watch.stop(count)

    return _run(run())


def drain(url: str, *, count: int, batch: int, managers: int) -> Sample:
    """All `count` jobs that are queued; over when the last one's outcome is committed."""
    watch = Watch(url)
    left = count

    class Counted(Queries):
        """Knows when the last outcome is written: its drain mode would wait for a timer after that."""

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
            raise RuntimeError(f"{left} of {count} jobs were not done")
        return watch.stop(count)

    workers: list[PgQueuer] = []
    return _run(run())


async def _handle(job: Job) -> None:
    pass


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    return uvloop.run(work)
