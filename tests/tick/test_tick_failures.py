"""Whatever a handler does, its own job alone bears it."""

import contextlib
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from lib.errors import LeaseLost, PermanentError, TransientError
from lib.job import Complete, Error, NextJob, Outcome, Release, Retry, Snooze
from lib.jobs.registry import Registry
from tests.support.world import World, a_stage

Make = Callable[..., World]


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even its text cannot be made")


class Polluted(Exception):
    def __str__(self) -> str:
        return f"a\x00b\nc \ud800 {'x' * 5000}"


def raising(failure: BaseException) -> Callable[..., Any]:
    def handler(payload: Any, context: Any) -> Outcome:
        raise failure

    return handler


def returning(value: Any) -> Callable[..., Any]:
    return lambda payload, context: value


def done(payload: Any, context: Any) -> Complete:
    return Complete(context={"done": True})


CIRCULAR: dict[str, Any] = {}
CIRCULAR["itself"] = CIRCULAR
DEEP: dict[str, Any] = {}
for _ in range(100_000):
    DEEP = {"deeper": DEEP}

# Worth another try, as far as anybody can tell.
TRANSIENT: dict[str, Callable[..., Any]] = {
    "any_error": raising(ValueError("no")),
    "sys_exit": raising(SystemExit(1)),
    "ctrl_c": raising(KeyboardInterrupt()),
    "generator_exit": raising(GeneratorExit()),
    "memory": raising(MemoryError()),
    "lease": raising(LeaseLost("says the handler")),
    "speechless": raising(Speechless()),
    "polluted": raising(Polluted()),
    "group": raising(BaseExceptionGroup("two", [ValueError(), KeyboardInterrupt()])),
    "transient": raising(TransientError("later", retry_after=float("inf"))),
}

# The job's result can never be stored, or is none.
PERMANENT: dict[str, Callable[..., Any]] = {
    "permanent": raising(PermanentError("never")),
    "nothing": returning(None),
    "text": returning("done"),
    "a_class": returning(Complete),
    "release": returning(Release()),
    "object_in_context": returning(Complete(context={"value": object()})),
    "time_in_context": returning(Complete(context={"at": datetime.now().astimezone()})),
    "bytes_as_key": returning(Complete(context={b"key": 1})),  # type: ignore[dict-item]
    "nul_in_context": returning(Complete(context={"value": "a\x00b"})),
    "surrogate_in_context": returning(Complete(context={"value": "\ud800"})),
    "nan_in_context": returning(Complete(context={"value": float("nan")})),
    "list_as_context": returning(Complete(context=[1])),  # type: ignore[arg-type]
    "circular_context": returning(Complete(context=CIRCULAR)),
    "deep_context": returning(Complete(context=DEEP)),
    "next_is_no_job": returning(Complete(next=("email",))),  # type: ignore[arg-type]
    "next_without_stage": returning(Complete(next=(NextJob(stage=None),))),  # type: ignore[arg-type]
    "next_of_no_stage": returning(Complete(next=(NextJob(stage=""),))),
    "next_with_text": returning(Complete(next=(NextJob(stage="done", payload="text"),))),  # type: ignore[arg-type]
    "next_with_nul": returning(Complete(next=(NextJob(stage="done", dedup_key="\x00"),))),
    "next_on_a_strange_circuit": returning(Complete(next=(NextJob(stage="done", circuit="other"),))),
    "next_at_a_word": returning(Complete(next=(NextJob(stage="done", at="tomorrow"),))),  # type: ignore[arg-type]
    "next_without_zone": returning(Complete(next=(NextJob(stage="done", at=datetime(2030, 1, 1)),))),  # noqa: DTZ001
    "retry_after_a_timedelta": returning(Retry(delay=timedelta(seconds=5), error="")),  # type: ignore[arg-type]
    "retry_after_nan": returning(Retry(delay=float("nan"), error="")),
    "retry_after_ages": returning(Retry(delay=1e300, error="")),
    "snooze_for_a_decimal": returning(Snooze(delay=Decimal(5), waiting_for="")),  # type: ignore[arg-type]
    "error_with_a_word": returning(Error(error="no", revive="soon")),  # type: ignore[arg-type]
}


def settled(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tick over ten good jobs among one of each of the world's other stages; its report, and the others by stage."""
    culprits = [name for name in world.registry.stages if name != "done"]
    world.enqueue("done", count=5)
    for name in culprits:
        world.enqueue(name)
    world.enqueue("done", count=5)
    report = world.tick()
    assert (report["started"], report["completed"]) == (len(culprits) + 10, 10)
    good = world.sql("select context from giftcard_jobs where stage = 'done' and status = 'completed'")
    assert good == [{"context": {"done": True}}] * 10
    return report, {name: world.job(stage=name) for name in culprits}


def test_failure_of_whatever_kind_is_settled_as_a_retry_of_its_own_job(make_world: Make) -> None:
    world = make_world(handlers={"done": done} | TRANSIENT, GIFTCARD_CONCURRENCY=10, GIFTCARD_JOBS_PER_CRON_RUN=100)
    report, jobs = settled(world)
    assert report["retried"] == len(jobs)
    assert {name for name, job in jobs.items() if (job["status"], job["attempts"]) != ("queued", 1)} == set()
    assert {name for name, job in jobs.items() if not 0 < len(job["last_error"]) <= 500} == set()
    assert {name for name, job in jobs.items() if not job["last_error"].isprintable()} == set()
    assert {run["result"] for job in jobs.values() for run in world.history(job["id"])} == {"FAILED"}


def test_result_that_cannot_be_stored_is_the_permanent_failure_of_its_own_job(make_world: Make) -> None:
    world = make_world(handlers={"done": done} | PERMANENT, GIFTCARD_CONCURRENCY=10, GIFTCARD_JOBS_PER_CRON_RUN=100)
    report, jobs = settled(world)
    assert report["errored"] == len(jobs)
    assert {name for name, job in jobs.items() if (job["status"], job["attempts"]) != ("error", 1)} == set()
    assert {name for name, job in jobs.items() if not job["last_error"].startswith("PermanentError: ")} == set()
    assert {name for name, job in jobs.items() if job["revive_at"] is not None} == set()
    assert {run["result"] for job in jobs.values() for run in world.history(job["id"])} == {"FAILED"}
    assert sum(world.statuses().values()) == len(jobs) + 10


def test_one_result_that_the_database_refuses_leaves_nine_settled(make_world: Make) -> None:
    world = make_world(handlers={"done": done, "bad": PERMANENT["nul_in_context"]}, GIFTCARD_CONCURRENCY=10)
    world.enqueue("done", count=4)
    world.enqueue("bad")
    world.enqueue("done", count=5)
    report = world.tick()
    assert (report["completed"], report["errored"]) == (9, 1)


def test_permanent_failures_open_no_circuit(make_world: Make) -> None:
    world = make_world(handlers={"permanent": PERMANENT["permanent"]})
    world.enqueue("permanent", count=5)
    assert world.tick()["circuits_opened"] == []


def test_payload_that_does_not_fit_kills_its_own_job_alone(world: World) -> None:
    world.enqueue("customer_ingest", {"customer": {"given_name": "Kate", "email": "kate at example"}})
    world.submit()
    report = world.tick()
    assert (report["completed"], report["errored"]) == (5, 1)
    dead = world.job(world.value("select id from public.giftcard_jobs where status = 'error'"))
    assert dead["last_error"].startswith("PermanentError: payload: customer.email")
    assert "kate at" not in dead["last_error"]


# What other services can INSERT, and operators write by hand: a constraint refuses it, or it harms no other job.
STRANGE_ROWS: dict[str, dict[str, Any]] = {
    "scheduled long ago": {"scheduled_at": "-infinity"},
    "scheduled before Christ": {"scheduled_at": "0044-03-15 12:00:00+00 BC"},
    "delays that are no numbers": {"retry_delays": [None]},
    "delays of not a number": {"retry_delays": [float("nan")]},
    "delays without end": {"retry_delays": [float("inf")]},
    "no delays": {"retry_delays": []},
    "a time to run of ages": {"ttr_seconds": 2**31 - 1},
    "attempts without end": {"max_attempts": 2**31 - 1},
    "as many attempts as there are numbers": {"attempts": 2**31 - 1},
    "a name with an umlaut and a quote": {"correlation_id": "ä'\"\n;--"},
    "a payload nested deeply": {"payload": '{"n": ' + "[" * 2000 + "]" * 2000 + "}"},
    "a number of five thousand digits": {"payload": '{"n": 1e5000}'},
}


@pytest.mark.parametrize("strange", STRANGE_ROWS)
def test_strange_row_does_not_stop_the_others(make_world: Make, strange: str) -> None:
    world = make_world(handlers={"done": done, "fails": TRANSIENT["any_error"]})
    with contextlib.suppress(psycopg.errors.CheckViolation):
        world.enqueue("fails", **STRANGE_ROWS[strange])
    world.enqueue("done", count=3)
    world.tick()
    world.move(3600)
    world.tick()
    assert world.value("select count(*) from giftcard_jobs where stage = 'done' and status = 'completed'") == 3
    assert world.statuses().keys() <= {"completed", "queued", "error"}


def test_job_scheduled_for_never_does_not_stop_the_others(make_world: Make) -> None:
    world = make_world(handlers={"done": done}, GIFTCARD_TICK_LINGER=1)
    world.enqueue("done", scheduled_at="infinity")
    world.enqueue("done")
    report = world.tick()
    assert (report["completed"], report["stopped_because"]) == (1, "drained")


def test_failing_job_uses_up_its_attempts_even_if_its_process_dies_each_time(make_world: Make) -> None:
    world = make_world(handlers={"dies": done}, GIFTCARD_MAX_ATTEMPTS=2)
    (job_id,) = world.enqueue("dies")
    for _ in range(2):
        # Claimed by a function that was killed: nobody settles it, and its lease ends.
        begun = {"key": "gen_random_uuid()", "owner": "'killed'", "source": "'cron'", "stages": "'{\"dies\": 60}'"}
        named = ", ".join(f"p_{name} => {value}" for name, value in begun.items())
        world.sql(f"select public.giftcard_begin_tick({named}, p_limit => 5, p_live_seconds => 1, p_code_version => 1)")
        world.move(71)
        report = world.run(limit=1, only_stage="nothing")
        assert (report.interrupted, report.started) == (1, 0)
        world.move(5)
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["run_no"]) == ("error", 2, 2)
    assert job["last_error"].startswith("Interrupted: ")
    assert [(run["result"], run["run_no"]) for run in world.history(job_id)] == [("INTERRUPTED", 1), ("INTERRUPTED", 2)]


def test_interrupted_run_of_a_stage_nobody_knows_is_settled_too(make_world: Make) -> None:
    world = make_world(handlers={"done": done})
    ended = "now() - interval '1 second'"
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage, status, attempts, run_no, lease_id, lease_expires_at,"
        f" locked_at) values ('flow', 'unknown', 'running', 1, 1, gen_random_uuid(), {ended}, {ended})"
    )
    report = world.tick()
    assert (report["interrupted"], report["retried"], report["started"]) == (1, 1, 0)
    job = world.job(stage="unknown")
    assert (job["status"], job["last_error"].partition(":")[0]) == ("queued", "Interrupted")
    (run,) = world.history(job["id"])
    assert (run["next_run_at"] - run["finished_at"]).total_seconds() == 5


def test_run_at_most_once_that_was_interrupted_never_runs_again(make_world: Make) -> None:
    world = make_world(handlers={"done": done})
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage, status, attempts, run_no, semantics)"
        " values ('flow', 'done', 'running', 1, 1, 'at_most_once')"
    )
    assert world.tick()["errored"] == 1
    job = world.job()
    assert (job["status"], job["revive_at"]) == ("error", None)


def test_thread_of_a_stage_that_fails_badly_is_not_lost_to_the_tick(make_world: Make) -> None:
    threads: set[int] = set()

    def exits(payload: Any, context: Any) -> Outcome:
        threads.add(threading.get_ident())
        raise SystemExit

    world = make_world(registry=Registry({"exits": a_stage("exits", exits, threshold=0)}), GIFTCARD_CONCURRENCY=2)
    world.enqueue("exits", count=10)
    assert world.tick()["retried"] == 10
    assert len(threads) <= 2
