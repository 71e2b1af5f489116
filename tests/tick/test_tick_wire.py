"""The tick and its database: how few calls it makes, and that a lost reply loses and doubles nothing."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import TransientError, Unavailable
from lib.job import Complete, NextJob, Outcome
from lib.store.postgres import PostgresWire
from tests.support.working import ADVANCES
from tests.support.world import World

Make = Callable[..., World]


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


class Counting(PostgresWire):
    """A real wire that remembers the calls, and how many there were with their repetitions."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: list[str] = []
        self.sent = 0

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.calls.append(function)
        return super().call(function, repeat=repeat, **arguments)

    def _once(self, function: str, arguments: dict[str, Any], within: float | None) -> Any:
        self.sent += 1
        return super()._once(function, arguments, within)


class Forgetful(Counting):
    """Every call is carried out, and the reply to its first sending is lost."""

    def __init__(self, url: str, *functions: str) -> None:
        super().__init__(url)
        self._functions = functions
        self._lost = threading.local()

    def _once(self, function: str, arguments: dict[str, Any], within: float | None) -> Any:
        answer = super()._once(function, arguments, within)
        if function in self._functions and getattr(self._lost, "arguments", None) is not arguments:
            self._lost.arguments = arguments
            raise Unavailable(f"the reply to {function} was lost")
        return answer


def test_idle_tick_is_one_call(make_world: Make, database_url: str) -> None:
    wire = Counting(database_url)
    world = make_world(wire=wire)
    world.sql("update giftcard_maintenance_tasks set last_at = now()")
    report = world.tick()
    assert (wire.calls, wire.sent, report["calls"]) == (["giftcard_begin_tick"], 1, 1)


def test_tick_of_ten_jobs_at_once_is_three_calls_at_most(make_world: Make, database_url: str) -> None:
    wire = Counting(database_url)
    world = make_world(handlers={"work": quick}, wire=wire, GIFTCARD_CONCURRENCY=10)
    world.sql("update giftcard_maintenance_tasks set last_at = now()")
    world.enqueue("work", count=10)
    report = world.tick()
    assert report["completed"] == 10
    assert wire.calls[0] == "giftcard_begin_tick"
    assert set(wire.calls[1:]) <= ADVANCES
    assert wire.sent == report["calls"] <= 3


def test_lingering_tick_asks_once_a_second_at_most(make_world: Make, database_url: str) -> None:
    wire = Counting(database_url)
    world = make_world(handlers={"work": quick}, wire=wire, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=2.2)
    world.enqueue("work", scheduled_at=world.value("select now() + interval '2 seconds'"))
    assert world.tick()["completed"] == 1
    assert wire.sent <= 6


@pytest.mark.parametrize("lost", ["giftcard_begin_tick", "giftcard_advance_tick", "giftcard_step"])
def test_reply_that_is_lost_loses_and_doubles_nothing(make_world: Make, database_url: str, lost: str) -> None:
    runs: list[tuple[int, int]] = []

    def work(payload: Any, context: Any) -> Outcome:
        runs.append((context.job.id, context.job.run_no))
        if context.job.stage == "fails":
            raise TransientError("no")
        return Complete(next=(NextJob(stage="after"),))

    wire = Forgetful(database_url, lost)
    handlers = {"work": work, "fails": work, "after": quick}
    world = make_world(handlers=handlers, wire=wire, GIFTCARD_CIRCUIT_THRESHOLD=4)
    world.enqueue("work", count=3)
    failed = world.enqueue("fails", count=2)
    report = world.tick()
    expected = {"started": 8, "completed": 6, "retried": 2, "lease_lost": 0}
    assert {name: report[name] for name in expected} == expected
    assert wire.sent > len(wire.calls)
    assert len(runs) == len(set(runs)) == 5
    assert world.statuses() == {"completed": 6, "queued": 2}
    assert [(world.job(job_id)["attempts"], len(world.history(job_id))) for job_id in failed] == [(1, 1), (1, 1)]
    assert world.value("select failures from public.giftcard_circuits where circuit = 'fails'") == 2
    row = world.sql("select * from public.giftcard_ticks")[0]
    assert {name: row[name] for name in expected} == expected
    assert row["ended_at"] is not None


def test_circuit_opens_once_though_the_reply_was_lost(make_world: Make, database_url: str) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise TransientError("no")

    wire = Forgetful(database_url, "giftcard_advance_tick")
    world = make_world(handlers={"work": fails}, wire=wire, GIFTCARD_CIRCUIT_THRESHOLD=3)
    world.enqueue("work", count=3)
    world.tick()
    assert world.sql("select state, failures from public.giftcard_circuits") == [{"state": "open", "failures": 0}]
    assert world.value("select count(*) from public.giftcard_circuit_changes") == 1


def test_order_goes_its_whole_way_though_each_reply_is_lost_once(make_world: Make, database_url: str) -> None:
    functions = (
        "begin_tick advance_tick step submit_order save_customer assign_code record_payment record_card books"
        " take_order begin_effect finish_effect flow"
    ).split()
    world = make_world(wire=Forgetful(database_url, *(f"giftcard_{name}" for name in functions)))
    correlation_id = world.submit(Idempotency_Key="order-1").json["correlation_id"]
    assert world.tick()["completed"] == 5
    counts = world.row_counts()
    assert [counts[f"giftcard_{name}"] for name in ("orders", "customers", "payments", "cards", "jobs")] == [
        1,
        1,
        1,
        1,
        5,
    ]
    assert [step["attempts"] for step in world.flow(correlation_id)["jobs"]] == [1] * 5


def test_late_result_of_a_run_that_was_taken_by_hand_does_not_settle_the_next_run(make_world: Make) -> None:
    """Also when a neighbour is settled in the same call that was claimed together with the next run."""
    begun = {1: threading.Event(), 2: threading.Event(), "neighbour": threading.Event()}
    ends = {1: threading.Event(), 2: threading.Event()}

    def work(payload: Any, context: Any) -> Outcome:
        run_no = context.job.run_no
        begun[run_no].set()
        assert ends[run_no].wait(10)
        return Complete(context={"run": run_no})

    def neighbour(payload: Any, context: Any) -> Outcome:
        begun["neighbour"].set()
        assert ends[1].wait(10)
        return Complete()

    world = make_world(handlers={"work": work, "neighbour": neighbour})
    (job_id,) = world.enqueue("work")
    reports: list[Any] = []
    tick = threading.Thread(target=lambda: reports.append(world.run()))
    tick.start()
    assert begun[1].wait(5)
    world.sql(
        "with taken as (update giftcard_jobs set status = 'queued', scheduled_at = now(), attempts = 0 where id = %s)"
        " insert into giftcard_jobs (correlation_id, stage) values ('beside', 'neighbour')",
        job_id,
    )
    assert begun[2].wait(5)
    assert begun["neighbour"].wait(5)
    ends[1].set()
    for _ in range(500):
        if world.sql("select id from giftcard_jobs where stage = 'neighbour' and status = 'completed'"):
            break
        time.sleep(0.01)
    between = world.job(job_id)
    ends[2].set()
    tick.join(10)
    assert (between["status"], between["context"]) == ("running", {})
    assert (reports[0].lease_lost, reports[0].completed) == (1, 2)
    assert world.job(job_id)["context"] == {"run": 2}


def test_two_runs_of_a_job_that_end_together_are_settled_each_for_itself(make_world: Make) -> None:
    begun = {1: threading.Event(), 2: threading.Event()}
    ends = threading.Event()

    def work(payload: Any, context: Any) -> Outcome:
        begun[context.job.run_no].set()
        assert ends.wait(10)
        if context.job.run_no == 1:
            return Complete(context={"run": 1})
        raise TransientError("the second run")

    world = make_world(handlers={"work": work})
    (job_id,) = world.enqueue("work")
    reports: list[Any] = []
    tick = threading.Thread(target=lambda: reports.append(world.run()))
    tick.start()
    assert begun[1].wait(5)
    world.sql("update giftcard_jobs set status = 'queued', scheduled_at = now(), attempts = 0 where id = %s", job_id)
    assert begun[2].wait(5)
    ends.set()
    tick.join(10)
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["context"]) == ("queued", 1, {})
    assert job["last_error"] == "TransientError: the second run"
    assert (reports[0].lease_lost, reports[0].retried, reports[0].completed) == (1, 1, 0)
