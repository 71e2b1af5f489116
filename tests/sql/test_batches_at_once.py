"""Eight connections that settle the jobs of batches at once: each batch ends once, with all of its jobs."""

import threading
from collections import Counter

import psycopg
import pytest

from lib.job import Complete, Error
from lib.store.codec import Result
from tests.support.batches import create, jobs
from tests.support.factory import World


@pytest.mark.slow
def test_eight_that_settle_at_once_end_each_batch_once(world: World, database_url: str) -> None:
    world.now = None
    batches = [
        create(
            world,
            jobs=jobs(40, dedup_key=f"of {number}"),
            follow_up={"stage": "payment", "correlation_id": "after", "dedup_key": f"{number}"},
        )["id"]
        for number in range(5)
    ]
    world.connection.commit()

    def tick() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            mine = World(connection, now=None)
            claimed = mine.claim(3, stages={"email": 60})
            while claimed:
                results = [
                    Result(job=job, outcome=Error(error="TransientError: no") if job.id % 7 == 0 else Complete())
                    for job in claimed
                ]
                mine.settle_all(*results)
                claimed = mine.claim(3, stages={"email": 60})

    ticks = [threading.Thread(target=tick) for _ in range(8)]
    for one in ticks:
        one.start()
    for one in ticks:
        one.join()
    follow_ups = world.rows("select context -> 'batch' as batch from giftcard_jobs where stage = 'payment'")
    assert Counter(row["batch"]["id"] for row in follow_ups) == Counter(batches)
    assert all(row["batch"]["total"] == row["batch"]["completed"] + row["batch"]["error"] == 40 for row in follow_ups)
    ended = world.rows("select ended_with, follow_up_job_id from giftcard_batches where ended_at is not null")
    assert len(ended) == len({row["follow_up_job_id"] for row in ended}) == 5
