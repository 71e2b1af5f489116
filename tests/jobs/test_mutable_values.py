"""What a handler changes in the values that it is given spoils nothing: its run is settled as it was claimed."""

import threading
from collections.abc import Callable
from typing import Any

from lib.job import Complete
from lib.jobs.context import Context
from tests.support.world import World

Make = Callable[..., World]


def spoils(payload: Any, context: Context) -> Complete:
    job = context.job
    job.id, job.run_no, job.lease_id, job.stage, job.ttr = job.id + 1, 99, "none", "nothing", -1
    assert context.job is job
    return Complete(context={"remaining": context.remaining() > 0})


def test_a_job_that_its_handler_changes_is_settled_as_it_was_claimed(make_world: Make) -> None:
    world = make_world(handlers={"work": spoils}, GIFTCARD_CONCURRENCY=3)
    ids = world.enqueue("work", count=3)
    report = world.tick()
    assert (report["completed"], report["lease_lost"]) == (3, 0)
    assert [world.job(job_id)["context"] for job_id in ids] == [{"remaining": True}] * 3


def test_the_event_of_a_run_is_one_for_all_who_ask_at_once(make_world: Make) -> None:
    seen: list[threading.Event] = []

    def asks(payload: Any, context: Context) -> Complete:
        barrier = threading.Barrier(8)

        def ask() -> None:
            barrier.wait(10)
            seen.append(context.cancelled)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return Complete()

    world = make_world(handlers={"work": asks})
    world.enqueue("work", count=1)
    assert world.tick()["completed"] == 1
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1
