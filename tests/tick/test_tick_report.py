"""What a tick says it did is what it did, under the names that the contract keeps."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import DuplicatePersonalCode, PermanentError, TransientError
from lib.job import Complete, Error, NextJob, Outcome, Retry, Snooze
from lib.jobs.registry import Registry
from tests.support.acts import KIM
from tests.support.world import World, a_stage

Make = Callable[..., World]

NAMES = {
    "tick_id",
    "duplicate",
    "paused",
    "started",
    "completed",
    "retried",
    "errored",
    "snoozed",
    "released",
    "interrupted",
    "lease_lost",
    "revived",
    "circuits_opened",
    "next_due_at",
    "stopped_because",
    "duration_ms",
}
COUNTED = ("started", "completed", "retried", "errored", "snoozed", "released", "interrupted", "lease_lost", "revived")


def work(payload: Any, context: Any) -> Outcome:
    """Does what its payload says."""
    match payload.do:
        case "fail":
            raise TransientError("not now")
        case "die":
            raise PermanentError("never")
        case "snooze":
            return Snooze(delay=60, waiting_for="better weather")
        case "retry":
            return Retry(delay=7, error="by its own wish")
        case "end":
            return Error(error="by its own wish", revive=3600)
    return Complete(
        next=(NextJob(stage="work", dedup_key="2", payload={"do": "nothing"}),) if payload.do == "go on" else ()
    )


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(registry=Registry({"work": a_stage("work", work, threshold=0)}))


def test_report_has_the_names_of_the_contract(world: World) -> None:
    assert set(world.tick()) >= NAMES


def test_report_counts_each_outcome_and_the_tick_row_says_the_same(world: World) -> None:
    for wish in ("nothing", "nothing", "go on", "fail", "die", "snooze", "retry"):
        world.enqueue("work", {"do": wish})
    report = world.tick()
    expected = {"started": 8, "completed": 4, "retried": 2, "errored": 1, "snoozed": 1}
    assert {name: report[name] for name in COUNTED} == dict.fromkeys(COUNTED, 0) | expected
    row = world.sql("select * from public.giftcard_ticks where id = %s", report["tick_id"])[0]
    assert {name: row[name] for name in COUNTED} == {name: report[name] for name in COUNTED}
    assert (row["source"], row["stopped_because"], row["ended_at"] is None) == ("cron", "drained", False)


def test_tick_with_nothing_to_do_is_drained(world: World) -> None:
    report = world.tick()
    assert (report["started"], report["stopped_because"], report["next_due_at"]) == (0, "drained", None)


def test_limit_is_ten_jobs_and_the_next_tick_goes_on(world: World) -> None:
    world.enqueue("work", {"do": "nothing"}, count=12)
    first, second = world.tick(), world.tick()
    assert (first["started"], first["stopped_because"]) == (10, "limit")
    assert (second["started"], second["stopped_because"]) == (2, "drained")


def test_limit_is_a_setting(make_world: Make, world: World) -> None:
    world.enqueue("work", {"do": "nothing"}, count=4)
    small = make_world(registry=world.registry, GIFTCARD_JOBS_PER_CRON_RUN=3)
    assert (small.tick()["started"], small.tick()["started"]) == (3, 1)


def test_flow_is_run_to_its_end_within_one_tick(world: World) -> None:
    world.enqueue("work", {"do": "go on"})
    assert world.tick()["completed"] == 2


def test_snooze_is_no_failure_and_gives_the_attempt_back(world: World) -> None:
    (job_id,) = world.enqueue("work", {"do": "snooze"})
    report = world.tick()
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["run_no"]) == ("queued", 0, 1)
    assert job["last_error"] == "waiting for better weather"
    (run,) = world.history(job_id)
    assert (run["result"], run["attempt"]) == ("SNOOZED", 1)
    assert (run["next_run_at"] - run["finished_at"]).total_seconds() == 60
    assert report["next_due_at"] is not None


def test_job_that_runs_at_most_once_cannot_snooze_or_be_tried_again(world: World) -> None:
    for wish in ("snooze", "fail", "retry", "end"):
        (job_id,) = world.enqueue("work", {"do": wish}, semantics="at_most_once", max_attempts=5)
        assert world.tick()["errored"] == 1
        job = world.job(job_id)
        assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)


def test_handler_that_asks_for_a_retry_gets_it_after_its_own_delay(world: World) -> None:
    (job_id,) = world.enqueue("work", {"do": "retry"}, max_attempts=1)
    world.tick()
    (run,) = world.history(job_id)
    assert (run["result"], run["error"]) == ("FAILED", "by its own wish")
    assert (run["next_run_at"] - run["finished_at"]).total_seconds() == 7


def test_no_handler_is_given_more_than_25_attempts(world: World) -> None:
    (job_id,) = world.enqueue("work", {"do": "retry"}, attempts=23)
    world.tick()
    assert world.job(job_id)["status"] == "queued"
    world.move(8)
    world.tick()
    job = world.job(job_id)
    assert (job["status"], job["attempts"]) == ("error", 25)


def test_handler_that_ends_its_job_says_when_it_revives(world: World) -> None:
    (job_id,) = world.enqueue("work", {"do": "end"})
    world.tick()
    job = world.job(job_id)
    assert (job["revive_at"] - job["finished_at"]).total_seconds() == 3600


def test_delays_and_attempts_of_the_job_itself_win_over_its_stage(world: World) -> None:
    (job_id,) = world.enqueue("work", {"do": "fail"}, retry_delays=[3.5, 1.0], max_attempts=4)
    while world.job(job_id)["status"] == "queued":
        world.tick()
        world.move(4)
    runs = world.history(job_id)
    waits = [(run["next_run_at"] - run["finished_at"]).total_seconds() for run in runs]
    assert waits[:3] == [3.5, 1, 1]
    assert (len(runs), waits[3]) == (4, 24 * 3600)


@pytest.mark.parametrize(
    ("wish", "opens"),
    [(TransientError("no"), True), (DuplicatePersonalCode("no"), False), (PermanentError("no"), False)],
)
def test_third_failure_in_a_row_opens_the_circuit_if_it_counts(make_world: Make, wish: Exception, opens: bool) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise wish

    world = make_world(handlers={"fails": fails}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("fails", count=5)
    report = world.tick()
    assert report["circuits_opened"] == (["fails"] if opens else [])
    assert report["started"] == (3 if opens else 5)


def test_retry_that_a_handler_returns_counts_for_the_circuit_unless_it_says_otherwise(make_world: Make) -> None:
    def asks(payload: Any, context: Any) -> Outcome:
        return Retry(delay=1, error="no", counts=payload.counts)

    for stage, counts in (("counts", True), ("does_not", False)):
        world = make_world(handlers={stage: asks}, GIFTCARD_CONCURRENCY=1)
        world.enqueue(stage, {"counts": counts}, count=5)
        assert world.tick()["circuits_opened"] == ([stage] if counts else [])


def test_threshold_of_zero_means_no_circuit(make_world: Make) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise TransientError("no")

    world = make_world(handlers={"fails": fails}, GIFTCARD_CIRCUIT_THRESHOLD=0)
    world.enqueue("fails", count=10)
    assert world.tick()["retried"] == 10
    assert world.sql("select * from public.giftcard_circuits") == []


def test_hand_run_update_wins_over_the_worker_that_holds_the_job(make_world: Make) -> None:
    def taken_meanwhile(payload: Any, context: Any) -> Outcome:
        if context.job.run_no == 1:
            world.sql(
                "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW() + interval '1 hour', attempts=0,"
                " last_error=NULL WHERE id=%s",
                context.job.id,
            )
        return Complete(context={"run": context.job.run_no})

    world = make_world(handlers={"work": taken_meanwhile})
    (job_id,) = world.enqueue("work")
    report = world.tick()
    assert (report["started"], report["completed"], report["lease_lost"]) == (1, 0, 1)
    assert world.value("select lease_lost from public.giftcard_ticks") == 1
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["context"]) == ("queued", 0, {})
    world.move(3601)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"] == {"run": 2}
    assert [run["result"] for run in world.history(job_id)] == ["INTERRUPTED", "SUCCESS"]


@pytest.mark.parametrize(
    "outcome", [Complete(), Retry(delay=5, error="no"), Error(error="no"), Snooze(delay=5, waiting_for="it")]
)
def test_wish_to_cancel_turns_everything_but_complete_into_cancelled(make_world: Make, outcome: Outcome) -> None:
    def wished_away(payload: Any, context: Any) -> Outcome:
        world.store.cancel(context.job.id, caller=KIM)
        return outcome

    world = make_world(handlers={"work": wished_away})
    (job_id,) = world.enqueue("work")
    report = world.tick()
    completed = isinstance(outcome, Complete)
    assert world.job(job_id)["status"] == ("completed" if completed else "cancelled")
    assert (report["completed"], report["cancelled"]) == ((1, 0) if completed else (0, 1))
