"""A slow requeue: the first job alone; the others at a rate, and only once it has completed."""

from typing import Any

import pytest

from lib.job import Complete, Error, Retry, Snooze
from tests.support.bulk import carry_out, create, shown, statuses
from tests.support.factory import World, each


def test_slowly_waits_for_the_first_job_and_keeps_its_rate(world: World) -> None:
    ids = [world.dead_letter()]
    ids += [
        row["id"]
        for row in world.rows(
            "insert into giftcard_jobs (correlation_id, stage, status) select i, 'email', 'error'"
            " from generate_series(1, 29) i returning id"
        )
    ]
    world.run("update giftcard_jobs set finished_at = %s", world.now)
    operation = create(world, "requeue_slowly", per_minute=10)
    assert [row["waits"] for row in carry_out(world)] == [True]
    assert statuses(world, ids) == ["queued"] + ["error"] * 29
    job = world.claim_one(ids[0])
    assert carry_out(world)[-1]["changed"] == 1
    world.settle(job, Snooze(delay=0, waiting_for="the vendor"))
    assert carry_out(world)[-1]["changed"] == 1
    world.settle(world.claim_one(ids[0]), Complete())
    world.later(60)
    carry_out(world)
    # Two minutes ahead, and no further: the rest can still be stopped.
    assert statuses(world, ids) == ["completed"] + ["queued"] * 21 + ["error"] * 8
    due = [world.from_now(world.job(job_id)["scheduled_at"]) for job_id in ids[1:22]]
    assert due == [6.0 * n for n in range(21)]
    world.later(30)
    carry_out(world)
    due = [world.from_now(world.job(job_id)["scheduled_at"]) for job_id in ids[22:27]]
    assert due == [96.0 + 6 * n for n in range(5)]
    world.later(3600)
    carry_out(world)
    assert shown(world, operation)["state"] == "completed"
    assert [world.from_now(world.job(job_id)["scheduled_at"]) for job_id in ids[27:]] == [0.0, 6.0, 12.0]


@pytest.mark.parametrize(
    ("outcome", "status"), [(Retry(delay=60, error="E: no"), "queued"), (Error(error="E: no"), "error")]
)
def test_slowly_stops_after_a_first_job_that_fails(world: World, outcome: Any, status: str) -> None:
    ids = each(world.dead_letter, 3)
    operation = create(world, "requeue_slowly")
    carry_out(world)
    world.settle(world.claim_one(ids[0]), outcome)
    carry_out(world)
    done = shown(world, operation)
    assert (done["state"], done["first_job_id"]) == ("stopped", ids[0])
    assert done["stopped_because"] == f"job {ids[0]} ran first and is {status}, not completed"
    assert statuses(world, ids[1:]) == ["error", "error"]


def test_slowly_stops_without_its_first_job(world: World) -> None:
    ids = each(world.dead_letter, 2)
    operation = create(world, "requeue_slowly")
    carry_out(world)
    world.run("delete from giftcard_jobs where id = %s", ids[0])
    carry_out(world)
    assert shown(world, operation)["stopped_because"] == f"job {ids[0]}, which was to run first, is gone"
