"""Promised against actual starts, by stage, from the history of runs."""

from typing import Any

import pytest

from lib.job import Complete, Release, Retry
from tests.sql.test_size import pages
from tests.support.factory import World

RUN = """
    insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
    select n, 1, 1, %s, %s, t, t + make_interval(secs => n * %s), t + interval '1 second'
      from (select n, %s::timestamptz - make_interval(secs => n * %s) as t from generate_series(1, %s) n) s
"""


def runs(
    world: World, stage: str, number: int, *, late: float = 0.001, apart: float = 1, result: str = "SUCCESS"
) -> None:
    """So many runs, `apart` seconds between them back from now; the n-th began n × `late` seconds late."""
    world.run(
        RUN.replace("select n, 1", "select n + (select count(*) from giftcard_job_history), 1"),
        stage,
        result,
        late,
        world.now,
        apart,
        number,
    )


def precision(world: World, **window: float) -> dict[str, Any]:
    return {row.pop("stage"): row for row in world.call("precision", **window)}


def test_lateness_is_told_by_stage(world: World) -> None:
    runs(world, "email", 100)
    runs(world, "payment", 20, late=1)
    assert precision(world) == {
        "email": {"runs": 100, "p50_ms": 50, "p95_ms": 95, "max_ms": 100},
        "payment": {"runs": 20, "p50_ms": 10_000, "p95_ms": 19_000, "max_ms": 20_000},
    }


def test_only_what_ended_within_the_window_counts(world: World) -> None:
    runs(world, "email", 100, apart=60)
    assert precision(world)["email"]["runs"] == 59 + 1
    assert precision(world, window_seconds=600)["email"]["runs"] == 10
    assert precision(world, window_seconds=86_400)["email"]["runs"] == 100


def test_a_retry_is_late_against_its_own_time(world: World) -> None:
    job = world.claimed()
    world.settle(job, Retry(delay=5, error="no"))
    world.later(7)
    world.settle(world.claim_one(job.id), Complete())
    assert precision(world)["email"] == {"runs": 2, "p50_ms": 0, "p95_ms": 2000, "max_ms": 2000}


def test_what_never_began_and_what_was_called_before_its_time_promise_nothing(world: World) -> None:
    world.settle(world.claimed(), Release())
    world.settle(world.claim_one(world.enqueue(delay_seconds=60)), Complete())
    world.settle(world.claimed("payment", scheduled_at=None), Complete())
    world.run("update giftcard_job_history set scheduled_at = '-infinity' where stage = 'payment'")
    assert precision(world) == {}


@pytest.mark.slow
def test_many_runs_cost_a_look_no_more_than_ten_thousand(world: World) -> None:
    runs(world, "email", 200_000, late=0, apart=0.01)
    world.run("vacuum giftcard_job_history")
    assert precision(world)["email"]["runs"] == 10_000
    assert pages(world, "select giftcard_precision(p_now => %s)", world.now) < 1_000
