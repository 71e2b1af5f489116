"""The threads that handlers run in."""

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from lib.job import Complete, Job
from lib.jobs.context import Context
from lib.store.codec import Result
from lib.tick.pool import Pool
from tests.support.world import World

Make = Callable[..., Pool]


@pytest.fixture
def make_pool() -> Iterator[Make]:
    """Creates pools of a size whose runs call a function."""
    made: list[Pool] = []

    def make(count: int, *, run: Callable[[], object] = lambda: None) -> Pool:
        def runs(job: Job, context: Context) -> Result:
            run()
            return Result(job=job, outcome=Complete())

        made.append(Pool(count, run=runs))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def start(pool: Pool, world: World, *, count: int) -> set[int]:
    """Begins so many runs; answers the ids of their jobs."""
    ids = set(world.enqueue("work", count=count))
    claim = {"owner": "test", "source": "test", "stages": {"work": 60}, "limit": count, "live_seconds": 60}
    step = world.store.begin_tick(key=str(uuid.uuid4()), **claim)
    for job in step.jobs:
        pool.start(job, Context.for_job(job, store=world.store, settings=world.settings))
    return ids


def test_each_run_has_a_thread_at_once_and_waits_for_no_other(make_pool: Make, world: World) -> None:
    """Each of them returns when all have begun."""
    together = threading.Barrier(10)
    pool = make_pool(10, run=lambda: together.wait(5))
    begun = start(pool, world, count=10)
    assert {result.job.id for result in pool.finished(within=5)} == begun
    assert (pool.busy, pool.free) == (0, 10)


def test_what_ends_at_the_same_time_is_settled_together(
    make_pool: Make, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.pool._GATHER_SECONDS", 5)  # a busy machine starts threads late
    gate = threading.Event()
    pool = make_pool(10, run=lambda: gate.wait(5))
    start(pool, world, count=10)
    gate.set()
    assert len(pool.finished(within=5)) == 10


def test_in_a_large_pool_half_of_the_threads_go_on_while_the_others_are_settled(make_pool: Make, world: World) -> None:
    ended = threading.Semaphore(0)
    pool = make_pool(24, run=ended.release)
    begun = start(pool, world, count=24)
    for _ in begun:
        assert ended.acquire(timeout=5)
    first = pool.finished(within=5)
    assert len(first) == 12
    assert pool.busy == 12
    second = pool.finished(within=5)
    assert {result.job.id for result in first + second} == begun


def test_nothing_ends_where_nothing_runs(make_pool: Make) -> None:
    assert make_pool(3).finished(within=0) == []
