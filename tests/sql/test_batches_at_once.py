"""Eight connections that settle the jobs of batches at once: each batch ends once, with all of its jobs."""

import threading
from collections import Counter

import psycopg
import pytest

from lib.job import Complete, Error
from lib.store.codec import Result
from tests.support.batches import create, follow_ups, ids, jobs
from tests.support.factory import World
from tests.support.race import Race


def test_a_batch_that_is_sealed_while_its_last_job_ends_has_ended(world: World, race: Race) -> None:
    batch = create(world, 2, open=True)
    first, second = (world.claim_one(job_id) for job_id in ids(batch))
    world.settle(first, Complete())
    race.first.settle(second, Complete())
    sealing = race.second_waits(lambda w: w.call("seal_batch", id=batch["id"]))
    race.commit()
    assert (sealing.result()["state"], len(follow_ups(world))) == ("ended", 1)


def test_the_last_job_of_a_batch_that_is_being_sealed_ends_it(world: World, race: Race) -> None:
    batch = create(world, 2, open=True)
    first, second = (world.claim_one(job_id) for job_id in ids(batch))
    world.settle(first, Complete())
    assert race.first.call("seal_batch", id=batch["id"])["state"] == "running"
    settling = race.second_waits(lambda w: w.settle(second, Complete()))
    race.commit()
    assert (settling.result()["settled"], len(follow_ups(world))) == ("settled", 1)


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
