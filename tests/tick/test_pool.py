"""The threads that handlers run in."""

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest

from lib.job import Complete, Job
from lib.jobs.context import Context
from lib.store.codec import Result
from lib.tick.pool import Places
from tests.support.world import World

Make = Callable[..., Places]


@pytest.fixture
def make_places() -> Iterator[Make]:
    """Places of so many, and what their runs do."""
    made: list[Places] = []

    def make(count: int, *, run: Callable[[], object] = lambda: None) -> Places:
        def runs(job: Job, context: Context) -> Result:
            run()
            return Result(job=job, outcome=Complete())

        made.append(Places(count, run=runs))
        return made[-1]

    yield make
    for places in made:
        places.close()


def start(places: Places, world: World, *, count: int) -> set[int]:
    """Begins so many runs; answers the ids of their jobs."""
    ids = set(world.enqueue("work", count=count))
    claim = {"owner": "test", "source": "test", "stages": {"work": 60}, "limit": count, "live_seconds": 60}
    step = world.store.begin_tick(key=str(uuid.uuid4()), **claim)
    for job in step.jobs:
        places.start(job, Context.for_job(job, store=world.store, settings=world.settings))
    return ids


def test_each_run_has_a_thread_at_once_and_waits_for_no_other(make_places: Make, world: World) -> None:
    """Each of them returns when all have begun."""
    together = threading.Barrier(10)
    places = make_places(10, run=lambda: together.wait(5))
    begun = start(places, world, count=10)
    assert {result.job.id for result in places.ended(within=5)} == begun
    assert (places.busy, places.free) == (0, 10)


def test_what_ends_at_the_same_time_is_settled_together(make_places: Make, world: World) -> None:
    gate = threading.Event()
    places = make_places(10, run=lambda: gate.wait(5))
    start(places, world, count=10)
    gate.set()
    assert len(places.ended(within=5)) == 10


def test_with_many_places_half_of_them_go_on_while_the_others_are_settled(make_places: Make, world: World) -> None:
    ended = threading.Semaphore(0)
    places = make_places(24, run=ended.release)
    begun = start(places, world, count=24)
    for _ in begun:
        assert ended.acquire(timeout=5)
    first = places.ended(within=5)
    assert len(first) == 12
    assert places.busy == 12
    second = places.ended(within=5)
    assert {result.job.id for result in first + second} == begun


def test_nothing_ends_where_nothing_runs(make_places: Make) -> None:
    assert make_places(3).ended(within=0) == []
