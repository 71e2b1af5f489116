"""What fails for one row is done one by one: the row is put aside with the reason, and named by the doctor."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Outcome
from tests.support.triggers import allow, refuse, rows_line
from tests.support.world import World

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(handlers={"work": good, "other": good}, GIFTCARD_JOBS_PER_CRON_RUN=20)


def others_are(world: World, status: str, culprit: int) -> None:
    others = world.sql("select id, status, last_error from giftcard_jobs where id <> %s", culprit)
    assert [job for job in others if job["status"] != status] == []


CODES = ("P0001", "XX000", "54000", "0A000", "42883", "22012", "23514", "58030", "2BP01")


@pytest.mark.parametrize("errcode", CODES)
def test_job_that_cannot_be_claimed_is_a_dead_letter_and_stops_no_other(world: World, errcode: str) -> None:
    jobs = world.enqueue("work", count=6)
    culprit = jobs[2]
    refuse(world, "giftcard_jobs", "update", f"new.id = {culprit} and new.status = 'running'", errcode=errcode)
    assert world.tick()["completed"] == 5
    others_are(world, "completed", culprit)
    job = world.job(culprit)
    assert (job["status"], job["revive_at"], job["attempts"]) == ("error", None, 0)
    assert job["last_error"] == f"FaultyRow: not this row (SQLSTATE {errcode})"
    line = rows_line(world)
    assert (line["level"], line["message"]) == (
        "yellow",
        f"work fails on rows: job {culprit}: not this row (SQLSTATE {errcode})",
    )


def test_unique_index_of_an_operators_own_holds_up_one_job(world: World) -> None:
    world.sql("create unique index own on giftcard_jobs ((payload ->> 'shop')) where status = 'running'")
    jobs = [world.add("work", {"shop": shop}) for shop in ("a", "b", "b", "c")]
    assert world.tick()["completed"] == 3
    assert world.statuses() == {"completed": 3, "error": 1}
    assert f"job {jobs[2]}: duplicate key value violates unique constraint" in rows_line(world)["message"]


def test_dead_letter_that_cannot_be_revived_and_run_that_cannot_be_taken_over_stop_no_other(world: World) -> None:
    dead = [
        world.add("work", status="error", revive_at="2020-01-01T00:00:00Z", finished_at="2020-01-01T00:00:00Z")
        for _ in range(3)
    ]
    killed = [
        world.add("work", status="running", run_no=1, attempts=1, lease_expires_at="2020-01-01T00:00:00Z")
        for _ in range(3)
    ]
    refuse(world, "giftcard_jobs", "update", f"new.id in ({dead[0]}, {killed[0]}) and new.status <> 'error'")
    report = world.tick()
    assert (report["revived"], report["completed"], report["interrupted"]) == (2, 2, 2)
    for culprit in (dead[0], killed[0]):
        assert world.job(culprit)["last_error"].startswith("FaultyRow: not this row")
    assert [run["result"] for run in world.history(killed[0])] == ["INTERRUPTED"]
    message = rows_line(world)["message"]
    assert f"job {dead[0]}:" in message
    assert f"job {killed[0]}:" in message


@pytest.mark.parametrize("status", ["queued", "running", "error"])
def test_row_that_nothing_can_change_is_passed_over_until_it_can_be(world: World, status: str, log: Log) -> None:
    times = {
        "queued": {},
        "running": {"lease_expires_at": "2020-01-01T00:00:00Z"},
        "error": {"revive_at": "2020-01-01T00:00:00Z", "finished_at": "2020-01-01T00:00:00Z"},
    }
    culprit = world.add("work", status=status, attempts=1, run_no=1, **times[status])
    world.enqueue("work", count=3)
    refuse(world, "giftcard_jobs", "update", f"new.id = {culprit}")
    assert world.tick()["completed"] == 3
    assert world.job(culprit)["status"] == status
    assert f"job {culprit} (passed over): not this row" in rows_line(world)["message"]
    world.enqueue("work", count=3)
    before = len(log())
    assert world.tick()["completed"] == 3
    assert "one_by_one" not in [line["event"] for line in log()[before:]], "it costs the next ticks nothing"
    allow(world, "giftcard_jobs")
    world.sql("update giftcard_faulty_rows set skip_until = now()")
    world.move(700)
    world.tick()
    world.move(700)
    world.tick()
    assert world.job(culprit)["status"] == "completed"


@pytest.mark.parametrize("errcode", CODES)
def test_result_that_is_refused_alone_leaves_its_neighbours_done(
    make_world: Make, errcode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.unsettled._PAUSE_SECONDS", 0.0)
    world = make_world(handlers={"work": good}, GIFTCARD_CONCURRENCY=10)
    jobs = [world.add("work", semantics="at_most_once") for _ in range(5)]
    refuse(world, "giftcard_jobs", "update", f"new.id = {jobs[1]} and new.status = 'completed'", errcode=errcode)
    assert world.tick()["completed"] == 4
    others_are(world, "completed", jobs[1])
    job = world.job(jobs[1])
    assert (job["status"], job["attempts"]) == ("error", 1)
    assert "its result cannot be stored: not this row" in job["last_error"]


def test_result_that_is_refused_for_no_fault_of_its_data_is_retried_and_its_attempts_count(
    make_world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.unsettled._PAUSE_SECONDS", 0.0)
    world = make_world(handlers={"work": good}, GIFTCARD_CONCURRENCY=10, GIFTCARD_MAX_ATTEMPTS=2)
    jobs = world.enqueue("work", count=3)
    refuse(world, "giftcard_jobs", "update", f"new.id = {jobs[1]} and new.status = 'completed'", errcode="XX000")
    world.tick()
    job = world.job(jobs[1])
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].startswith("TransientError: its result cannot be stored")
    world.move(60)
    world.tick()
    job = world.job(jobs[1])
    assert (job["status"], job["attempts"], job["revive_at"] is not None) == ("error", 2, True)


def test_result_is_stored_once_a_passing_fault_is_over(make_world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(handlers={"work": good}, GIFTCARD_CONCURRENCY=10)
    jobs = [world.add("work", semantics="at_most_once") for _ in range(3)]
    refuse(world, "giftcard_jobs", "update", f"new.id = {jobs[1]} and new.status = 'completed'", errcode="XX000")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            allow(world, "giftcard_jobs")

    monkeypatch.setattr("lib.tick.steps.time.sleep", sleep)
    assert world.tick()["completed"] == 3
    assert world.statuses() == {"completed": 3}


def test_last_resort_that_is_refused_too_loses_no_neighbours_result(
    make_world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.unsettled._PAUSE_SECONDS", 0.0)

    def spoiled(payload: Any, context: Any) -> Outcome:
        refuse(world, "giftcard_jobs", "update", f"new.id = {context.job.id}")
        return Complete()

    world = make_world(handlers={"work": good, "spoiled": spoiled}, GIFTCARD_CONCURRENCY=10)
    jobs = [world.add("work", semantics="at_most_once") for _ in range(3)]
    (culprit,) = world.enqueue("spoiled")
    report = world.tick()
    assert (report["completed"], report["lease_lost"]) == (3, 1)
    assert [world.job(job)["status"] for job in jobs] == ["completed"] * 3
    assert world.job(culprit)["status"] == "running"
    assert f"job {culprit} (passed over): not this row" in rows_line(world)["message"]


def test_endpoint_whose_webhooks_are_refused_costs_no_other_endpoint_its_events(make_world: Make) -> None:
    world = make_world(handlers={"work": good, "webhook": good})
    for url in ("https://a.example/", "https://b.example/"):
        world.sql(
            "insert into giftcard_webhook_endpoints (tenant_id, url, events, secret_encrypted, created_at, updated_at)"
            " values ('default', %s, '{job.completed}', 'x', now(), now())",
            url,
        )
    refused, other = (row["id"] for row in world.sql("select id from giftcard_webhook_endpoints order by id"))
    refuse(world, "giftcard_jobs", "insert", f"new.circuit = 'webhook:{refused}'")
    jobs = world.enqueue("work", count=3)
    world.tick()
    sent = world.sql("select circuit from giftcard_jobs where stage = 'webhook'")
    assert [row["circuit"] for row in sent] == [f"webhook:{other}"] * 3
    faults = world.sql("select row_id from giftcard_faulty_rows where kind = 'webhook' order by row_id")
    assert [row["row_id"] for row in faults] == [f"of job {job} to endpoint {refused}" for job in sorted(jobs)]
