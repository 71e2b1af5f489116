"""A stage is one file in the folder of stages: it is found, it runs, and its settings are there by its name."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lib import stages
from tests.support.world import World

Make = Callable[..., World]

GREETING = '''
"""Greets somebody."""

from pydantic import BaseModel, Field

from lib.jobs.context import Context
from lib.errors import TransientError
from lib.job import Complete, NextJob
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage


class Person(BaseModel):
    name: str = Field(min_length=1)
    shy: bool = False


@stage("greeting", payload=Person, policy=RetryPolicy(max_attempts=2, base=30), ttr=20)
def greeting(payload: Person, context: Context) -> Complete:
    if payload.shy:
        raise TransientError("says nothing yet")
    said = context.once("say", lambda key: {"said": f"Hello, {payload.name}"})
    return Complete(context=said, next=(NextJob(stage="farewell", payload={"name": payload.name}),))


@stage("farewell", payload=Person)
def farewell(payload: Person, context: Context) -> Complete:
    return Complete(context={"after": context.job.context["said"], "ttr": context.job.ttr})
'''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that `lib.stages` looks into too."""
    folder = tmp_path / "stages"
    folder.mkdir()
    (folder / "greeting_of_tests.py").write_text(GREETING)
    stages.__path__.append(str(folder))
    yield folder
    stages.__path__.remove(str(folder))
    sys.modules.pop("lib.stages.greeting_of_tests", None)


@pytest.fixture
def world(folder: Path, make_world: Make) -> World:
    return make_world()


def test_file_is_all_that_a_stage_takes(world: World) -> None:
    assert {"greeting", "farewell", "payment", "email"} <= world.registry.stages.keys()
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, payload) values ('f', 'greeting', '{\"name\": \"Kate\"}')"
    )
    assert world.tick()["completed"] == 2
    context = world.job(stage="farewell")["context"]
    assert context == {"said": "Hello, Kate", "after": "Hello, Kate", "ttr": 60}


def test_payload_is_checked_by_its_model(world: World) -> None:
    world.enqueue("greeting", {"name": ""})
    assert world.tick()["errored"] == 1
    assert world.job()["last_error"].startswith("PermanentError: payload: name")


def test_policy_of_the_file_applies(world: World) -> None:
    (job_id,) = world.enqueue("greeting", {"name": "Kate", "shy": True})
    world.tick()
    world.move(30)
    world.tick()
    first, second = world.history(job_id)
    assert (first["next_run_at"] - first["finished_at"]).total_seconds() == 30
    assert world.job(job_id)["status"] == "error"
    assert second["attempt"] == 2


def test_settings_by_its_name_bend_it(folder: Path, make_world: Make) -> None:
    world = make_world(
        GIFTCARD_STAGE_GREETING_MAX_ATTEMPTS=4,
        GIFTCARD_STAGE_GREETING_DELAYS="7,11",
        GIFTCARD_STAGE_FAREWELL_TTR_SECONDS=9,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
    )
    (job_id,) = world.enqueue("greeting", {"name": "Kate", "shy": True})
    for _ in range(4):
        world.tick()
        world.move(11)
    waits = [(run["next_run_at"] - run["finished_at"]).total_seconds() for run in world.history(job_id)]
    assert waits[:3] == [7, 11, 11]
    assert world.job(job_id)["status"] == "error"
    world.enqueue("greeting", {"name": "Ann"})
    world.tick()
    assert world.job(stage="farewell")["context"]["ttr"] == 9


def test_base_cap_and_jitter_of_a_stage_are_settings(folder: Path, make_world: Make) -> None:
    world = make_world(
        GIFTCARD_STAGE_GREETING_MAX_ATTEMPTS=25,
        GIFTCARD_STAGE_GREETING_BASE_SECONDS=2,
        GIFTCARD_STAGE_GREETING_CAP_SECONDS=6,
        GIFTCARD_STAGE_GREETING_JITTER=0.5,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
    )
    jobs = world.enqueue("greeting", {"name": "Kate", "shy": True}, count=5)
    for _ in range(3):
        world.tick()
        world.move(9)
    waits = [[(run["next_run_at"] - run["finished_at"]).total_seconds() for run in world.history(job)] for job in jobs]
    for attempt, least in enumerate([2, 4, 6]):
        drawn = [wait[attempt] for wait in waits]
        assert all(least <= wait <= 1.5 * least for wait in drawn)
        assert len(set(drawn)) > 1
