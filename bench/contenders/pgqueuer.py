"""PgQueuer, set up as its performance guide and its own benchmark recommend.

asyncpg ("1.7 times psycopg"), uvloop, the autovacuum settings of `pgq autovac`, its default durability (the others lose
jobs in a crash), and the given `batch_size`. Its guide uses one queue manager per process, with its own connection; its
benchmark uses five. `bench/configs.py` sweeps over these and others, and the best one counts.
"""

import asyncio
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries
from pgqueuer.types import QueueEntrypoint, QueueExecutionMode, QueueManagerId

from bench.measure import Watch

Result = TypeVar("Result")


def install(url: str) -> None:
    """Install its schema."""

    async def run() -> None:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        await queries.install()
        await queries.optimize_autovacuum()

    _run(run())


def enqueue(url: str, *, count: int, batch: int, watch: Watch) -> int:
    """Enqueue `count` jobs, `batch` per call."""

    async def run() -> None:
        queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        watch.open()
        watch.start()
        for _ in range(count // batch):
            await queries.enqueue(["noop"] * batch, [None] * batch, [0] * batch)
        watch.mark()

    _run(run())
    return count


def drain(url: str, *, count: int, batch: int, managers: int, watch: Watch) -> int:
    """Drain the queue of `count` jobs, perhaps together with other processes. Return how many were run here.

    How many run at once is not limited, as is its default. Its start takes 100 ms, so the watch begins with the first
    dequeue; it ends with the last outcome that is committed: drain mode waits for a timer after it.
    """
    done = 0

    class Counted(Queries):
        async def dequeue(self, **arguments: Any) -> list[Job]:
            watch.start()
            return await super().dequeue(**arguments)

        async def log_jobs(self, job_status: Any) -> None:
            nonlocal done
            await super().log_jobs(job_status)
            done += len(job_status)
            watch.mark()
            if done == count:
                for worker in workers:
                    worker.shutdown.set()

    async def run() -> None:
        for _ in range(managers):
            driver = AsyncpgDriver(await asyncpg.connect(url))
            workers.append(PgQueuer(driver, queries=Counted(driver)))
            workers[-1].entrypoint("noop")(_handle)
        watch.open()
        waiting = timedelta(seconds=0)
        await asyncio.gather(
            *(
                worker.run(batch_size=batch, mode=QueueExecutionMode.drain, log_aggregation_interval=waiting)
                for worker in workers
            )
        )

    workers: list[PgQueuer] = []
    _run(run())
    return done


def drain_by_calls(url: str, *, batch: int, watch: Watch, **_: object) -> int:
    """Make the same calls without the manager: no tasks, buffers and handlers."""
    done = 0

    async def run() -> None:
        nonlocal done
        queries, manager = Queries(AsyncpgDriver(await asyncpg.connect(url))), QueueManagerId(uuid.uuid4())
        entrypoints = {QueueEntrypoint("noop"): EntrypointExecutionParameter(concurrency_limit=0)}
        watch.open()
        watch.start()
        while jobs := await queries.dequeue(
            batch_size=batch,
            entrypoints=entrypoints,
            queue_manager_id=manager,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        ):
            await queries.log_jobs([(job, "successful", None) for job in jobs])
            done += len(jobs)
            watch.mark()

    _run(run())
    return done


async def _handle(job: Job) -> None:
    pass


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    return uvloop.run(work)
