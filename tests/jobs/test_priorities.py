"""Priority and concurrency key of a job, by each of the ways in which jobs are enqueued."""

import json
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from lib.cli import jobs
from lib.errors import Refused
from lib.job import Complete, NextJob
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from tests.support.queues import Queues
from tests.support.world import ADMIN, World, a_stage, bearer

Json = dict[str, Any]


class Points(BaseModel):
    customer: str = "c-7"
    next: list[Json] = []
    key: Any = "the customer's"


def next_jobs(payload: Any, context: Any) -> Complete:
    return Complete(next=tuple(NextJob(dedup_key=str(n), **job) for n, job in enumerate(payload.next)))


def nothing(payload: Any, context: Any) -> Complete:
    return Complete()


def key_of(payload: Points) -> Any:
    return payload.customer if payload.key == "the customer's" else payload.key


STAGES = {
    "first": stage("first", payload=Points)(next_jobs),
    "work": stage("work", payload=Points)(nothing),
    "points": stage("points", payload=Points, concurrency_key_of=key_of)(nothing),
    "any": a_stage("any", nothing),
}


@pytest.fixture
def world(make_world: Any) -> World:
    made: World = make_world(registry=Registry(STAGES), GIFTCARD_PGMQ_QUEUES="work_queue:work:acme,any_queue:any")
    made.app.cli.add_command(jobs)
    return made


def chosen(world: World, stage: str) -> list[tuple[int, str | None]]:
    rows = world.sql("select priority, concurrency_key from giftcard_jobs where stage = %s order by id", stage)
    return [(row["priority"], row["concurrency_key"]) for row in rows]


def post(world: World, **job: Any) -> Any:
    wanted = {"stage": "work", "correlation_id": "f"} | job
    return world.client.post("/api/v1/jobs", json={"jobs": [wanted]}, headers=bearer(ADMIN))


def run(world: World, *words: str) -> str:
    ended = world.app.test_cli_runner().invoke(args=["jobs", *words])
    assert ended.exit_code == 0, ended.output
    return ended.output


# The API and the command line


def test_a_job_of_the_api_has_its_priority_and_key(world: World) -> None:
    assert post(world).status_code == 202
    assert post(world, correlation_id="g", priority=-10, concurrency_key="c-7").status_code == 202
    assert chosen(world, "work") == [(0, None), (-10, "c-7")]
    shown = world.client.get("/api/v1/jobs", headers=bearer(ADMIN)).json["jobs"]
    assert [(job["priority"], job["concurrency_key"]) for job in shown] == [(-10, "c-7"), (0, None)]


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 11), ("priority", -11), ("priority", "high"), ("priority", None), ("priority", 1.5)]
    + [("concurrency_key", value) for value in ("", " ", "a\nb", "x" * 201, 7)],
)
def test_what_is_none_is_refused_by_its_field(world: World, field: str, value: Any) -> None:
    answer = post(world, **{field: value})
    assert (answer.status_code, answer.json["field"]) == (422, f"jobs.0.{field}")
    assert chosen(world, "work") == []


def test_a_job_of_the_command_line_has_its_priority_and_key(world: World) -> None:
    run(world, "enqueue", "work", "f", "--priority", "-3", "--concurrency-key", "c-7")
    assert chosen(world, "work") == [(-3, "c-7")]
    shown = run(world, "show", str(world.value("select id from giftcard_jobs")))
    assert ["priority", "-3"] in [line.split() for line in shown.splitlines()]
    assert ["concurrency_key", "c-7"] in [line.split() for line in shown.splitlines()]


def test_an_address_as_a_key_is_masked(world: World) -> None:
    post(world, concurrency_key="kate@example.com")
    (shown,) = world.client.get("/api/v1/jobs", headers=bearer(ADMIN)).json["jobs"]
    assert "kate" not in json.dumps(shown)


def test_an_address_in_what_a_job_waits_for_is_masked(world: World) -> None:
    world.sql(
        "insert into giftcard_limits (kind, name, tenant_id, runs, per_second, set_by, reason)"
        " values ('key', 'kate@example.com', 'default', 9, 0.001, 'ann', 'kate@example.com called')"
    )
    _, second = world.enqueue("work", count=2, concurrency_key="kate@example.com")
    assert world.tick()["started"] == 1
    waiting = world.client.get(f"/api/v1/jobs/{second}", headers=bearer(ADMIN)).json["waiting_for"]
    assert (waiting["reason"], "kate" in waiting["text"]) == ("rate_limited", False)


def test_one_job_of_a_key_runs_at_a_time(world: World) -> None:
    _, second = world.enqueue("work", count=2, concurrency_key="kate@example.com")
    world.sql("""select giftcard_begin_tick(gen_random_uuid(), 'w', 'test', '{"work": 60}', 10, 60, 1)""")
    assert [job["status"] for job in world.sql("select status from giftcard_jobs order by id")] == ["running", "queued"]
    assert world.tick()["started"] == 0
    waiting = world.client.get(f"/api/v1/jobs/{second}", headers=bearer(ADMIN)).json["waiting_for"]
    assert (waiting["reason"], "kate" in waiting["text"]) == ("key_busy", False)
    world.move(71)
    world.drain()
    assert world.job(second)["status"] == "completed"


# Schedules


def test_the_jobs_of_a_schedule_have_its_priority(world: World) -> None:
    run(world, "schedules", "create", "*/10 * * * * *", "--stage", "points", "--priority", "4")
    (made,) = world.client.get("/api/v1/schedules", headers=bearer(ADMIN)).json["schedules"]
    assert made["priority"] == 4
    run(world, "schedules", "run", str(made["id"]))
    assert chosen(world, "points") == [(4, "c-7")]
    world.drain()
    run(world, "schedules", "update", str(made["id"]), "--priority", "-4")
    earlier = "next_at = next_at - interval '20 s', check_at = check_at - interval '20 s'"
    world.sql(f"update giftcard_schedules set {earlier} returning id")
    world.drain()
    assert chosen(world, "points")[-1] == (-4, "c-7")
    run(world, "schedules", "update", str(made["id"]), "--name", "kept")
    assert world.value("select priority from giftcard_schedules") == -4


# Next jobs


def test_a_next_job_inherits_unless_it_has_its_own(world: World) -> None:
    following = [{}, {"priority": 0}, {"concurrency_key": "own"}, {"priority": 2, "concurrency_key": ""}]
    payload = {"next": [{"stage": "work"} | one for one in following]}
    world.add("first", payload, priority=-5, concurrency_key="c-7")
    world.drain()
    assert chosen(world, "work") == [(-5, "c-7"), (0, "c-7"), (-5, "own"), (2, None)]


def test_a_stage_gives_its_next_jobs_the_key_of_their_payload(world: World) -> None:
    payload = {"customer": "c-8", "next": [{"stage": "points"}, {"stage": "points", "concurrency_key": "own"}]}
    world.add("first", payload, concurrency_key="c-7")
    world.drain()
    assert chosen(world, "points") == [(0, "c-8"), (0, "own")]


# A key of the payload


def test_a_stage_makes_the_key_of_its_payload(world: World) -> None:
    post(world, stage="points", payload={"customer": "c-9"})
    post(world, stage="points", correlation_id="g", payload={"customer": "c-9"}, concurrency_key="own")
    assert chosen(world, "points") == [(0, "c-9"), (0, "own")]


@pytest.mark.parametrize("key", [None, "", "x" * 201, "a\nb", 7, ["a"]])
def test_a_key_that_is_none_stops_no_job(world: World, key: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert post(world, stage="points", payload={"key": key}).status_code == 202
    assert chosen(world, "points") == [(0, None)]
    failed = [record for record in caplog.records if record.message == "hook_failed"]
    assert len(failed) == (key is not None)


# Messages


def imported(world: World, connection: psycopg.Connection[Any], message: Json, *, queue: str = "work_queue") -> Json:
    queues = Queues(connection)
    for name in ("work_queue", "any_queue"):
        queues.create(name)
    queues.send(queue, message)
    world.tick()
    return world.job()


def test_a_message_may_choose_priority_and_key(world: World, connection: psycopg.Connection[Any]) -> None:
    job = imported(world, connection, {"customer": "c-1", "priority": 9, "concurrency_key": "c-1"})
    assert (job["priority"], job["concurrency_key"], job["payload"]) == (9, "c-1", {"customer": "c-1"})


def test_a_field_that_a_payload_has_is_no_option(world: World, connection: psycopg.Connection[Any]) -> None:
    job = imported(world, connection, {"priority": 9, "concurrency_key": 7}, queue="any_queue")
    payload = {"priority": 9, "concurrency_key": 7}
    assert (job["priority"], job["concurrency_key"], job["payload"]) == (0, None, payload)


@pytest.mark.parametrize("message", [{"priority": 11}, {"priority": "high"}, {"concurrency_key": "a\nb"}])
def test_an_impossible_option_is_named(world: World, connection: psycopg.Connection[Any], message: Json) -> None:
    job = imported(world, connection, message)
    assert (job["status"], job["priority"]) == ("error", 0)
    assert next(iter(message)) in job["last_error"]


# SQL


def test_sql_refuses_what_is_none(world: World) -> None:
    for key in ("a\nb", "x" * 201, 7):
        with pytest.raises(Refused) as refused:
            world.store.enqueue([{"stage": "work", "correlation_id": "f", "concurrency_key": key}])
        assert (refused.value.sqlstate, refused.value.field) == ("GC400", "concurrency_key"), key
    for priority in (11, -11, 2**15):
        with pytest.raises(Refused):
            world.store.enqueue([{"stage": "work", "correlation_id": "f", "priority": priority}])
    world.store.enqueue([{"stage": "work", "correlation_id": "f", "priority": None, "concurrency_key": ""}])
    assert chosen(world, "work") == [(0, None)]
