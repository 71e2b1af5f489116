"""Enqueue, tick."""

import json
from typing import Any

import pytest

from lib.tick.report import TickReport
from tests.cli.conftest import Door
from tests.support.world import World, an_order

ORDER = json.dumps(an_order())


def test_enqueue_of_one_job(door: Door) -> None:
    answer = door.json("enqueue", "customer_ingest", "order-1", "--payload", ORDER)
    (told,) = answer["jobs"]
    assert (told["status"], told["created"]) == ("queued", True)
    job = door.world.job(told["id"])
    assert (job["stage"], job["correlation_id"], job["tenant_id"]) == ("customer_ingest", "order-1", "default")
    assert job["payload"] == an_order()


def test_every_option_of_enqueue_is_stored(door: Door) -> None:
    options = {
        "--tenant": "acme",
        "--dedup-key": "2",
        "--max-attempts": "7",
        "--semantics": "at_most_once",
        "--ttr-seconds": "90",
        "--retry-delays": "30,60.5",
        "--scheduled-at": "2035-01-01T01:00:00+01:00",
        "--payload": ORDER,
    }
    words = [word for option in options.items() for word in option]
    job = door.world.job(door.json("enqueue", "email", "order-1", *words)["jobs"][0]["id"])
    assert (job["tenant_id"], job["dedup_key"], job["max_attempts"], job["semantics"]) == (
        "acme",
        "2",
        7,
        "at_most_once",
    )
    assert (job["ttr_seconds"], job["retry_delays"]) == (90, [30, 60.5])
    assert job["scheduled_at"].isoformat() == "2035-01-01T00:00:00+00:00"


def test_who_enqueued_is_kept(direct: Door, remote: Door) -> None:
    direct.says("enqueue", "email", "order-1", "--payload", ORDER)
    remote.says("enqueue", "email", "order-2", "--payload", ORDER)
    kept = direct.world.sql("select trigger_type from public.giftcard_jobs order by id")
    assert [job["trigger_type"] for job in kept] == ["cli", "api"]


def test_job_that_is_there_already_is_not_changed(door: Door) -> None:
    door.says("enqueue", "email", "order-1", "--payload", ORDER)
    other = json.dumps(an_order(customer={"given_name": "Ann"}))
    assert door.json("enqueue", "email", "order-1", "--payload", other)["jobs"][0]["created"] is False
    assert "exists already and is queued: nothing was changed" in door.says(
        "enqueue", "email", "order-1", "--payload", other
    )
    assert door.world.job()["payload"] == an_order()


def test_replace_queues_a_dead_job_again(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email", {"old": 1}, correlation_id="order-1", status="error")
    text = door.says("enqueue", "email", "order-1", "--payload", ORDER, "--replace")
    assert text == f"job {job_id} is queued with this payload (was error)\n"
    assert world.job(job_id)["payload"] == an_order()


def many(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"stage": "email", "correlation_id": f"f-{n}", "payload": an_order()} | more for n in range(count)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_jobs_of_a_file_are_enqueued(door: Door, tmp_path: Any, wrapped: bool) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": many(3)} if wrapped else many(3)))
    assert [job["created"] for job in door.json("enqueue", "--file", file)["jobs"]] == [True] * 3
    assert door.says("enqueue", "--file", file) == "0 jobs queued, 0 queued again, 3 existed already\n"


def test_jobs_may_come_by_standard_input(door: Door) -> None:
    assert len(door.json("enqueue", "--file", "-", types=json.dumps(many(2)))["jobs"]) == 2


def test_one_bad_job_of_a_file_leaves_all_out_and_is_named(door: Door) -> None:
    jobs = many(3)
    jobs[1] = jobs[1] | {"payload": an_order(customer={"email": "nobody"})}
    said = door.refuses("enqueue", "--file", "-", types=json.dumps(jobs))
    assert said == "job 2 of 3: customer.email is not a valid e-mail address"
    assert door.world.statuses() == {}


BAD_FILES = [
    ("[]", "jobs "),
    ("", "is not valid JSON"),
    ("7", "jobs "),
    ('[{"stage": "email"}]', "jobs.0.correlation_id is required"),
    ('{"jobs": [{"stage": "email", "correlation_id": "x"}], "more": 1}', "more "),
    (json.dumps(many(1001)), "at most 1000"),
    (json.dumps(many(1, ttr_seconds=0)), "jobs.0.ttr_seconds must be at least 1"),
    (json.dumps(many(1, max_attempts="5")), "jobs.0.max_attempts "),
    (json.dumps(many(1, stage="emial")), "job 1 of 1: there is no stage emial"),
    (json.dumps(many(1, scheduled_at="2026-01-01T00:00:00")), "jobs.0.scheduled_at "),
    ("[" * 3000, "nested too deeply"),
    (b"\xff\xfe", "is not UTF-8"),
]


def test_file_that_is_not_valid_is_refused(direct: Door) -> None:
    for text, why in BAD_FILES:
        assert why in direct.refuses("enqueue", "--file", "-", types=text), text
    assert direct.world.statuses() == {}


BAD_JOBS = [
    ([], "STAGE and CORRELATION_ID"),
    (["email"], "STAGE and CORRELATION_ID"),
    (["email", "x", "--file", "-"], "not both"),
    (["--tenant", "acme", "--file", "-"], "not both"),
    (["emial", "x"], "there is no stage emial"),
    (["email", ""], "--correlation-id "),
    (["email", "x"], "customer is required"),
    (["email", "x", "--payload", "[]"], "--payload "),
    (["email", "x", "--payload", "{"], "--payload is not valid JSON"),
    (["email", "x", "--ttr-seconds", "0"], "--ttr-seconds "),
    (["email", "x", "--max-attempts", "26"], "--max-attempts "),
    (["email", "x", "--retry-delays", "1,two"], "--retry-delays.1 "),
    (["email", "x", "--delay-seconds", "nan"], "--delay-seconds "),
    (["email", "x", "--semantics", "exactly_once"], "--semantics "),
    (["email", "x", "--scheduled-at", "tomorrow"], "--scheduled-at "),
]


def test_job_that_is_not_valid_is_refused(door: Door) -> None:
    for words, why in BAD_JOBS:
        assert why in door.refuses("enqueue", *words), words
    assert door.world.statuses() == {}


# Tick


def test_tick_runs_what_is_due_and_reports(world: World, door: Door) -> None:
    world.submit()
    report = door.json("tick")
    assert set(report) == set(TickReport().with_advice(limited=False))
    assert report["completed"] == report["started"] > 0
    assert door.says("tick").startswith("tick ")


def test_tick_takes_its_options(world: World, door: Door) -> None:
    first, *_ = world.enqueue("customer_ingest", an_order(), count=4)
    (late,) = world.enqueue("customer_ingest", an_order(), scheduled_at="2099-01-01T00:00:00Z")
    assert door.json("tick", "--limit", 1)["started"] == 1
    assert world.job(first)["status"] == "completed"
    assert door.json("tick", "--stage", "email", "--budget", 2.5, "--no-linger")["started"] == 0
    report = door.json("tick", "--job-id", late)
    assert (report["started"], report["stopped_because"], world.job(late)["status"]) == (1, "limit", "completed")


def test_tick_says_when_the_limit_ended_it(world: World, door: Door) -> None:
    world.enqueue("customer_ingest", an_order(), count=2)
    assert "there may be more: raise --limit" in door.says("tick", "--limit", 1)


def test_tick_of_a_job_that_does_not_start_says_where_to_look(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("customer_ingest", status="completed")
    assert f"job {job_id} was not started; to see why: flask jobs show {job_id}" in door.says(
        "tick", "--job-id", job_id
    )


def test_tick_that_cannot_be_meant_is_refused(door: Door) -> None:
    for options in (["--limit", "0"], ["--budget", "0"], ["--budget", "nan"], ["--budget", "781"], ["--job-id", "x"]):
        door.refuses("tick", *options)
    assert door.world.value("select count(*) from public.giftcard_ticks") == 0
