"""A tick and time: waiting, budget, ttr, slow neighbours, and how many run at once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lib.errors import TransientError
from lib.job import Complete, Outcome
from lib.jobs.registry import Registry
from lib.tick.report import TickReport
from tests.support.world import World, a_stage

Make = Callable[..., World]


class Gate:
    """A handler that waits until it is let go, and tells when it has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def __call__(self, payload: Any, context: Any) -> Outcome:
        self.begun.set()
        assert self.open.wait(20)
        return Complete(context={"late": True})


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


def fails_once(payload: Any, context: Any) -> Outcome:
    if context.job.attempts == 1:
        raise TransientError("the first time")
    return Complete()


@contextmanager
def ticking(world: World, **wanted: Any) -> Iterator[Callable[[], TickReport]]:
    """A tick in the background; the answer waits for its end."""
    reports: list[TickReport] = []
    thread = threading.Thread(target=lambda: reports.append(world.run(**wanted)))
    thread.start()

    def ended() -> TickReport:
        thread.join(20)
        return reports[0]

    yield ended
    thread.join(20)
    assert not thread.is_alive()


def until(condition: Callable[[], Any]) -> None:
    """Looks each hundredth of a second, for ten seconds at most."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be")


def test_retry_after_a_second_happens_within_one_lingering_tick(make_world: Make) -> None:
    world = make_world(handlers={"work": fails_once}, GIFTCARD_TICK_LINGER=1, GIFTCARD_STAGE_WORK_BASE_SECONDS=0.6)
    (job_id,) = world.enqueue("work")
    report = world.tick()
    assert (report["retried"], report["completed"], report["stopped_because"]) == (1, 1, "drained")
    first, second = world.history(job_id)
    assert 0 <= (second["started_at"] - first["next_run_at"]).total_seconds() < 5


def test_tick_that_does_not_linger_leaves_the_retry_to_the_next(make_world: Make) -> None:
    world = make_world(handlers={"work": fails_once})
    world.enqueue("work")
    report = world.tick()
    assert (report["retried"], report["completed"], report["stopped_because"]) == (1, 0, "drained")
    assert report["next_due_at"] is not None


def test_lingering_tick_does_not_wait_for_what_comes_after_its_budget(make_world: Make) -> None:
    world = make_world(handlers={"work": fails_once}, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=3)
    world.enqueue("work")
    report = world.tick()
    assert (report["retried"], report["stopped_because"]) == (1, "drained")
    assert report["duration_ms"] < 2_500


def test_lingering_tick_waits_for_a_dead_letter_to_revive(make_world: Make) -> None:
    world = make_world(handlers={"work": quick}, GIFTCARD_TICK_LINGER=1, GIFTCARD_TICK_BUDGET_SECONDS=10)
    world.enqueue("work", status="error", revive_at=world.value("select now() + interval '0.6 seconds'"))
    report = world.tick()
    assert (report["completed"], report["stopped_because"]) == (1, "drained")


def test_lingering_tick_takes_over_a_run_whose_lease_ends_meanwhile(make_world: Make) -> None:
    world = make_world(handlers={"work": quick}, GIFTCARD_TICK_LINGER=1, GIFTCARD_STAGE_WORK_BASE_SECONDS=0.1)
    lease = {"lease_id": "0195b0a2-0000-7000-8000-000000000000", "attempts": 1, "run_no": 1}
    ends = world.value("select now() + interval '0.6 seconds'")
    world.enqueue("work", status="running", lease_expires_at=ends, **lease)
    report = world.tick()
    assert (report["interrupted"], report["completed"]) == (1, 1)


def test_no_handler_starts_after_the_budget(make_world: Make) -> None:
    def slow(payload: Any, context: Any) -> Outcome:
        time.sleep(0.2)
        return Complete()

    world = make_world(handlers={"work": slow}, GIFTCARD_CONCURRENCY=1, GIFTCARD_TICK_BUDGET_SECONDS=0.5)
    world.enqueue("work", count=10)
    report = world.tick()
    assert report["stopped_because"] == "budget"
    assert 1 <= report["started"] <= 4
    assert report["completed"] == report["started"]
    assert world.statuses() == {"completed": report["completed"], "queued": 10 - report["completed"]}


def test_what_has_finished_is_settled_while_a_slow_neighbour_runs(make_world: Make) -> None:
    gate = Gate()
    world = make_world(handlers={"slow": gate, "quick": quick}, GIFTCARD_CONCURRENCY=2)
    world.enqueue("slow")
    world.enqueue("quick", count=6)
    with ticking(world) as ended:
        until(lambda: world.statuses() == {"running": 1, "completed": 6})
        gate.open.set()
        assert ended().completed == 7


def test_no_more_run_at_once_than_the_concurrency(make_world: Make) -> None:
    lock = threading.Lock()
    now, most = 0, 0

    def counted(payload: Any, context: Any) -> Outcome:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        return Complete()

    world = make_world(handlers={"work": counted}, GIFTCARD_CONCURRENCY=3)
    world.enqueue("work", count=10)
    assert world.tick()["completed"] == 10
    assert most == 3


def test_claim_takes_no_more_than_can_start_at_once(make_world: Make) -> None:
    gate = Gate()
    world = make_world(handlers={"slow": gate}, GIFTCARD_CONCURRENCY=3)
    world.enqueue("slow", count=10)
    with ticking(world):
        assert gate.begun.wait(5)
        until(lambda: world.statuses() == {"running": 3, "queued": 7})
        gate.open.set()


def test_run_past_its_ttr_is_settled_by_the_tick_and_its_late_return_is_dropped(make_world: Make) -> None:
    gate = Gate()
    world = make_world(handlers={"slow": gate}, GIFTCARD_STAGE_SLOW_TTR_SECONDS=1)
    (job_id,) = world.enqueue("slow")
    with ticking(world) as ended:
        assert gate.begun.wait(5)
        until(lambda: world.job(job_id)["status"] == "queued")
        gate.open.set()
        report = ended()
    assert (report.started, report.retried, report.completed, report.lease_lost) == (1, 1, 0, 0)
    job = world.job(job_id)
    assert job["last_error"] == "TtrExceeded: the attempt took longer than its ttr of 1 s"
    assert (job["attempts"], job["context"]) == (1, {})
    assert [run["result"] for run in world.history(job_id)] == ["FAILED"]


def test_thread_past_its_ttr_still_holds_its_place(make_world: Make) -> None:
    gate = Gate()
    registry = Registry({"slow": a_stage("slow", gate, ttr=1), "quick": a_stage("quick", quick)})
    world = make_world(registry=registry, GIFTCARD_CONCURRENCY=1)
    (slow,) = world.enqueue("slow")
    (waiting,) = world.enqueue("quick")
    with ticking(world) as ended:
        assert gate.begun.wait(5)
        until(lambda: world.job(slow)["status"] == "queued")
        assert world.job(waiting)["status"] == "queued"
        gate.open.set()
        assert ended().completed == 1
    assert world.job(waiting)["status"] == "completed"


def test_handler_is_told_that_its_time_is_over(make_world: Make) -> None:
    def waits(payload: Any, context: Any) -> Outcome:
        assert context.cancelled.wait(5)
        assert context.remaining() <= 0
        told.set()
        return Complete()

    told = threading.Event()
    world = make_world(handlers={"work": waits}, GIFTCARD_STAGE_WORK_TTR_SECONDS=1)
    world.enqueue("work")
    assert world.tick()["retried"] == 1
    assert told.is_set()


def test_ttr_of_the_job_itself_wins_over_its_stage(make_world: Make) -> None:
    world = make_world(handlers={"work": lambda payload, context: Complete(context={"ttr": context.job.ttr})})
    (own,) = world.enqueue("work", ttr_seconds=7)
    (common,) = world.enqueue("work")
    world.tick()
    assert (world.job(own)["context"], world.job(common)["context"]) == ({"ttr": 7}, {"ttr": 60})


@pytest.mark.parametrize("ttr", [0, -1, None])
def test_stage_without_a_positive_ttr_is_refused_at_once(ttr: Any) -> None:
    with pytest.raises(ValueError, match="ttr must be a positive number of seconds"):
        a_stage("work", quick, ttr=ttr)


def test_tick_that_waits_for_slow_handlers_does_not_burn_the_processor(make_world: Make) -> None:
    gate = Gate()
    world = make_world(handlers={"slow": gate}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("slow", count=2)
    with ticking(world):
        assert gate.begun.wait(5)
        time.sleep(1.2)  # past the moment at which it would look for more work, had it a free place
        before = time.process_time()
        time.sleep(0.5)
        used = time.process_time() - before
        gate.open.set()
    assert used < 0.15
