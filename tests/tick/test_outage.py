"""The database goes away in the middle of a tick and comes back: 503, and nothing is lost."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.migrate import migrate
from dev.postgres import Embedded, embedded
from lib.job import Complete, NextJob, Outcome
from tests.support.world import ADMIN, API, CRON, World, a_world, an_order, bearer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    """A server of this module's own: stopping it disturbs nobody."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    place = str(memory) if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="giftcards-", dir=place) as folder, embedded(Path(folder) / "pg") as server:
        migrate(server.create_database("migrated"))
        yield server


@pytest.fixture
def make(server: Embedded, request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    """Makes worlds over a database of this test on that server, which runs."""
    server.start()
    name = f"test_{abs(hash(request.node.name))}"
    url = server.create_database(name, template="migrated")
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(url, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()
    server.start()
    server.drop_database(name)


def is_away(response: Any) -> bool:
    assert (response.status_code, response.content_type) == (503, "application/problem+json"), response.text
    assert response.json["title"] == "the database is away"
    assert "Retry-After" in response.headers
    assert "postgres" not in response.json["detail"].lower()
    return True


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_tick_whose_database_goes_away_answers_503_and_the_next_one_goes_on(
    server: Embedded, make: Callable[..., World], monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    monkeypatch.setattr("lib.tick.steps.PATIENCE_SECONDS", 1.0)
    runs: list[tuple[int, int]] = []

    def work(payload: Any, context: Any) -> Outcome:
        runs.append((context.job.id, context.job.run_no))
        if stops and context.job.id == last:
            server.stop(mode=mode)
        return Complete(next=(NextJob(stage="after"),))

    def after(payload: Any, context: Any) -> Outcome:
        runs.append((context.job.id, context.job.run_no))
        return Complete()

    stops = True
    world = make(
        handlers={"work": work, "after": after},
        GIFTCARD_CONCURRENCY=2,
        GIFTCARD_JOBS_PER_CRON_RUN=100,
        GIFTCARD_TICK_BUDGET_SECONDS=2,
    )
    last = world.enqueue("work", count=6)[3]
    assert is_away(world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)))

    server.start()
    stops = False
    world._connection = None
    in_the_air = world.statuses()["running"]
    assert in_the_air in (1, 2)
    half_way = "select count(*) from giftcard_jobs where stage = 'work' and status = 'completed'"
    assert world.value("select count(*) from giftcard_jobs where stage = 'after'") == world.value(half_way)
    # What was in the air keeps its lease until that ends; all the rest is done at once.
    assert world.tick()["stopped_because"] == "drained"
    assert world.statuses().keys() == {"completed", "running"}
    assert world.statuses()["running"] == in_the_air
    world.move(71)
    assert world.tick()["interrupted"] == in_the_air
    world.move(5)
    world.tick()
    assert world.statuses() == {"completed": 12}
    assert len(runs) == len(set(runs)) == 12 + in_the_air


def test_database_that_is_down_when_the_tick_begins_is_a_503(server: Embedded, make: Callable[..., World]) -> None:
    world = make()
    world.submit()
    server.stop()
    assert is_away(world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)))
    assert is_away(world.client.post("/api/jobs/run", headers=bearer(ADMIN)))
    server.start()
    assert world.tick()["started"] > 0


def test_other_doors_say_so_too(server: Embedded, make: Callable[..., World]) -> None:
    world = make()
    server.stop()
    assert is_away(world.client.get("/api/status", headers=bearer(ADMIN)))
    assert is_away(world.client.post("/api/v1/giftcards", json=an_order(), headers=bearer(API)))
    assert is_away(world.client.get("/api/v1/giftcards/order-1", headers=bearer(API)))


@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Basic {CRON}"}, bearer("")])
def test_a_request_without_a_token_is_turned_away_without_asking_the_database(
    server: Embedded, make: Callable[..., World], headers: dict[str, str]
) -> None:
    world = make()
    server.stop()
    for path in ("/api/cron/giftcard-jobs", "/api/status", "/api/v1/giftcards/order-1"):
        assert world.client.get(path, headers=headers).status_code == 401


def test_a_token_that_only_the_database_may_know_is_a_503(server: Embedded, make: Callable[..., World]) -> None:
    world = make()
    paths = ("/api/cron/giftcard-jobs", "/api/status", "/api/v1/giftcards/order-1")
    server.stop()
    for path in paths:
        assert is_away(world.client.get(path, headers=bearer("wrong")))
    server.start()
    assert {world.client.get(path, headers=bearer("wrong")).status_code for path in paths} == {401}


def test_health_says_down_without_a_token_and_up_again(server: Embedded, make: Callable[..., World]) -> None:
    world = make()
    assert world.client.get("/api/health").json == {"status": "up"}
    server.stop()
    answer = world.client.get("/api/health")
    assert (answer.status_code, answer.json) == (503, {"status": "down"})
    server.start()
    assert world.client.get("/api/health").json == {"status": "up"}


def test_connections_that_died_meanwhile_are_not_noticed_by_the_next_call(
    server: Embedded, make: Callable[..., World]
) -> None:
    world = make()
    assert world.submit().status_code == 202
    server.restart()
    assert world.submit(an_order(message="another")).status_code == 202
    world._connection = None
    assert world.value("select count(*) from giftcard_orders") == 2


def test_restart_in_the_middle_of_a_tick_is_bridged(server: Embedded, make: Callable[..., World]) -> None:
    def work(payload: Any, context: Any) -> Outcome:
        if context.job.dedup_key == "restart":
            server.restart()
        return Complete()

    world = make(handlers={"work": work}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("work", dedup_key="restart")
    world.enqueue("work", count=2)
    assert world.tick()["completed"] == 3


def test_lingering_tick_whose_database_goes_away_ends_with_503(server: Embedded, make: Callable[..., World]) -> None:
    world = make(handlers={"work": lambda payload, context: Complete()}, GIFTCARD_TICK_LINGER=1)
    world.enqueue("work", scheduled_at=world.value("select now() + interval '20 seconds'"))
    threading.Timer(0.3, server.stop).start()
    assert is_away(world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)))


def test_password_in_the_address_is_in_no_answer_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with a_world("postgresql://somebody:hunter2-secret@127.0.0.1:9/giftcards") as world:
        answer = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    assert is_away(answer)
    logged = str([vars(record) for record in caplog.records])
    assert "tick_failed" in logged
    assert "hunter2" not in answer.text + logged
