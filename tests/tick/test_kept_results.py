"""A result that exists is kept until it is stored, whatever the calls of its tick meet."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from lib.errors import Conflict, LeaseLost, Misconfigured, Refused, Unavailable
from lib.job import Complete, NextJob, Outcome
from lib.store.postgres import PostgresWire
from tests.support.working import ADVANCES
from tests.support.world import World
from tests.tick.test_one_by_one import others_are, refuse

Make = Callable[..., World]


class Wire(PostgresWire):
    """Postgres; `meet` may raise before a call, and change its answer."""

    def meet(self, function: str, arguments: dict[str, Any]) -> None: ...

    def change(self, function: str, answer: Any) -> Any:
        return answer

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.meet(function, arguments)
        return self.change(function, super().call(function, repeat=repeat, **arguments))


@pytest.fixture
def wire(database_url: str) -> Wire:
    return Wire(database_url)


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Someone whose transaction stays open."""
    with psycopg.connect(database_url) as other:
        yield other


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


def at_most_once(world: World, stage: str = "work", *, count: int = 3) -> list[int]:
    return [world.add(stage, semantics="at_most_once") for _ in range(count)]


@pytest.mark.parametrize("what", ["job", "circuit", "next job"])
def test_row_that_someone_holds_costs_its_neighbours_nothing(
    make_world: Make, other: psycopg.Connection[Any], what: str
) -> None:
    def held(payload: Any, context: Any) -> Outcome:
        if what == "job":
            other.execute("update giftcard_jobs set last_error = 'x' where id = %s", [context.job.id])
        elif what == "circuit":
            other.execute("select from giftcard_circuits where circuit = 'held' for update")
        else:
            other.execute("insert into giftcard_jobs (correlation_id, stage) values (%s, 'work')", [flow])
        return Complete(next=(NextJob(stage="work"),) if what == "next job" else ())

    world = make_world(handlers={"work": good, "held": held}, GIFTCARD_TICK_BUDGET_SECONDS=30)
    world.sql("insert into giftcard_circuits (circuit, failures) values ('held', 1)")
    at_most_once(world)
    (culprit,) = at_most_once(world, "held", count=1)
    flow = world.job(culprit)["correlation_id"]
    release = threading.Timer(7, other.rollback)
    release.start()
    assert world.run().completed >= 4
    release.join()
    others_are(world, "completed", culprit)
    assert world.job(culprit)["status"] == "completed"


FAILURES: dict[str, Callable[[], BaseException]] = {
    "misconfigured": lambda: Misconfigured("no PostgREST at SUPABASE_URL: 404"),
    "unavailable": lambda: Unavailable("it is away"),
    "refused": lambda: Refused("no", sqlstate="22023"),
    "conflict": lambda: Conflict("no", constraint="x"),
    "lease lost": lambda: LeaseLost("says the wire"),
    "key error": lambda: KeyError("jobs"),
    "type error": lambda: TypeError("none"),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("running", [False, True])
def test_failure_of_any_kind_loses_no_result(make_world: Make, wire: Wire, name: str, running: bool) -> None:
    failed = threading.Event()

    def slow(payload: Any, context: Any) -> Outcome:
        failed.wait(5)
        return Complete()

    def meet(function: str, arguments: dict[str, Any]) -> None:
        if function in ADVANCES and not failed.is_set():
            failed.set()
            raise FAILURES[name]()

    wire.meet = meet  # type: ignore[method-assign]
    world = make_world(handlers={"work": good, "slow": slow}, wire=wire, GIFTCARD_TICK_BUDGET_SECONDS=10)
    at_most_once(world)
    at_most_once(world, "slow", count=int(running))
    assert world.tick()["completed"] == 3 + running
    assert world.statuses() == {"completed": 3 + running}


@pytest.mark.parametrize("reply", [None, [], {}, {"jobs": 5}, "<html>", 7, {"jobs": [{}], "settled": 1}])
@pytest.mark.parametrize("function", ["giftcard_begin_tick", "giftcard_advance_tick", "giftcard_step"])
def test_reply_that_cannot_be_read_is_asked_for_again(make_world: Make, wire: Wire, function: str, reply: Any) -> None:
    spoiled: list[str] = []

    def change(called: str, answer: Any) -> Any:
        if called == function and not spoiled:
            spoiled.append(called)
            return reply
        return answer

    wire.change = change  # type: ignore[method-assign]
    world = make_world(handlers={"work": good}, wire=wire, GIFTCARD_TICK_BUDGET_SECONDS=10)
    at_most_once(world)
    assert world.tick()["completed"] == 3
    assert world.statuses() == {"completed": 3}


def test_lost_reply_of_a_claim_is_found_again(make_world: Make, wire: Wire) -> None:
    """The advance took effect, and its answer is lost for longer than a wire repeats it."""
    lost: list[str] = []

    def change(function: str, answer: Any) -> Any:
        if function in ADVANCES and answer["jobs"] and len(lost) < 2:
            lost.append(function)
            raise Unavailable("the reply is lost")
        return answer

    wire.change = change  # type: ignore[method-assign]
    world = make_world(handlers={"work": good}, wire=wire, GIFTCARD_CONCURRENCY=2, GIFTCARD_TICK_BUDGET_SECONDS=10)
    at_most_once(world, count=5)
    assert world.tick()["completed"] == 5
    assert world.statuses() == {"completed": 5}
    assert len(lost) == 2


def test_refused_results_hold_up_neither_each_other_nor_what_is_claimed(make_world: Make) -> None:
    began: dict[int, float] = {}

    def work(payload: Any, context: Any) -> Outcome:
        began[context.job.id] = context.remaining()
        return Complete()

    world = make_world(handlers={"work": work}, GIFTCARD_JOBS_PER_CRON_RUN=20, GIFTCARD_TICK_BUDGET_SECONDS=10)
    jobs = at_most_once(world, count=15)
    culprits = jobs[:10]
    refuse(world, "giftcard_jobs", "update", f"new.id <= {culprits[-1]} and new.status = 'completed'")
    start = time.monotonic()
    assert world.tick()["completed"] == 5
    assert time.monotonic() - start < 9
    assert min(began.values()) > 55, "each began in time"
    assert {world.job(job)["status"] for job in culprits} == {"error"}


def test_late_reply_takes_no_finished_run_for_one_that_took_too_long(make_world: Make, wire: Wire) -> None:
    late: list[str] = []

    def change(function: str, answer: Any) -> Any:
        if function in ADVANCES and not late:
            late.append(function)
            time.sleep(2.5)
        return answer

    wire.change = change  # type: ignore[method-assign]
    world = make_world(handlers={"work": good}, wire=wire, GIFTCARD_CONCURRENCY=30, GIFTCARD_JOBS_PER_CRON_RUN=30)
    for _ in range(30):
        world.add("work", semantics="at_most_once", ttr_seconds=2)
    assert world.tick()["completed"] == 30
    assert world.statuses() == {"completed": 30}


def test_result_of_many_megabytes_is_the_failure_of_its_own_job(make_world: Make) -> None:
    world = make_world(
        handlers={"work": good, "large": lambda payload, context: Complete(context={"a": "x" * 5_000_000})}
    )
    at_most_once(world)
    (culprit,) = at_most_once(world, "large", count=1)
    assert world.tick()["completed"] == 3
    assert "may have 4,000,000" in world.job(culprit)["last_error"]
