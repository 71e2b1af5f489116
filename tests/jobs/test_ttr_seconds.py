"""A job's ttr_seconds is a number like any other: null is the stage's, 60 is 60, by whichever way the job comes."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.cli import jobs
from lib.job import Complete, NextJob
from lib.jobs.context import Context
from lib.jobs.stage import Registry
from tests.support.world import ADMIN, World, a_stage, bearer

STAGE_TTR = 30
FLOW = {"stage": "work", "correlation_id": "f"}

Way = Callable[[World, int | None], None]


def with_ttr(ttr: int | None) -> dict[str, int]:
    return {} if ttr is None else {"ttr_seconds": ttr}


def by_api(world: World, ttr: int | None) -> None:
    body = {"jobs": [FLOW | with_ttr(ttr)]}
    assert world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code == 202


def by_cli(world: World, ttr: int | None) -> None:
    world.app.cli.add_command(jobs)
    option = [] if ttr is None else ["--ttr-seconds", str(ttr)]
    ended = world.app.test_cli_runner().invoke(args=["jobs", "enqueue", "work", "f", *option])
    assert ended.exit_code == 0, ended.output


def by_sql(world: World, ttr: int | None) -> None:
    world.sql("insert into giftcard_jobs (stage, correlation_id, ttr_seconds) values ('work', 'f', %s)", ttr)


def by_schedule(world: World, ttr: int | None) -> None:
    body = {"schedule": "0 0 1 1 *", "stage": "work", "payload": {}} | with_ttr(ttr)
    made = world.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    run = world.client.post(f"/api/v1/schedules/{made.json['id']}/run", headers=bearer(ADMIN))
    assert run.status_code == 202, run.text


def by_next_job(world: World, ttr: int | None) -> None:
    world.add("first", {"ttr": ttr}, correlation_id="f")
    world.tick()


@pytest.mark.parametrize("ttr", [60, 59, None])
@pytest.mark.parametrize("way", [by_api, by_cli, by_sql, by_schedule, by_next_job], ids=lambda way: way.__name__)
def test_a_job_gets_the_ttr_that_it_asks_for(make_world: Callable[..., World], way: Way, ttr: int | None) -> None:
    seen: list[float] = []

    def work(payload: Any, context: Context) -> Complete:
        seen.append(context.job.ttr)
        return Complete()

    def first(payload: Any, context: Context) -> Complete:
        return Complete(next=(NextJob(stage="work", payload={}, ttr_seconds=payload.ttr),))

    stages = {"work": a_stage("work", work, ttr=STAGE_TTR), "first": a_stage("first", first)}
    world = make_world(registry=Registry(stages))
    way(world, ttr)
    while world.tick()["started"]:
        pass
    assert seen == [STAGE_TTR if ttr is None else ttr]
