"""Whoever the clock is, and however many there are: it calls the same door, and need not wait for the answer."""

import secrets
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from lib.errors import SettingsError
from lib.job import Complete
from tests.crash.processes import wait_for
from tests.sql.supabase_cron.serving import served
from tests.support.world import CRON, World, bearer, settings_of

DOOR = "/api/cron/giftcard-jobs"
Make = Callable[..., World]


def _call(url: str, *, timeout: float = 30, **headers: str) -> dict[str, Any]:
    response = httpx.get(f"{url}{DOOR}", headers=bearer(CRON) | headers, timeout=timeout)
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()
    return report


# Two clocks


def test_of_two_clocks_at_once_each_works_and_no_job_runs_twice(make_world: Make) -> None:
    ran: Counter[int] = Counter()
    # The first job of each holds it until the other has one too, so that both are at work at once.
    both = threading.Barrier(2)

    def handler(payload: Any, context: Any) -> Complete:
        ran[context.job.id] += 1
        if payload.first:
            both.wait(20)
        return Complete()

    world = make_world(handlers={"work": handler}, GIFTCARD_JOBS_PER_CRON_RUN=100, GIFTCARD_CONCURRENCY=1)
    ids = world.enqueue("work", {"first": True}, count=2) + world.enqueue("work", {"first": False}, count=30)
    with served(world.app) as url, ThreadPoolExecutor(2) as clocks:
        calls = [clocks.submit(_call, url, **{"user-agent": name}) for name in ("vercel-cron/1.0", "pg_net/0.20")]
        reports = [call.result(timeout=60) for call in calls]
    assert ran == dict.fromkeys(ids, 1)
    assert sum(report["completed"] for report in reports) == len(ids)
    assert all(report["started"] >= 1 and not report["lease_lost"] for report in reports)
    assert world.statuses() == {"completed": len(ids)}
    assert [tick["stopped_because"] for tick in world.sql("select stopped_because from giftcard_ticks")] == [
        "drained"
    ] * 2


# A clock that does not wait for the answer, as pg_net does not after 5 seconds


def test_a_tick_goes_on_when_its_caller_hangs_up(make_world: Make) -> None:
    begun, gate = threading.Event(), threading.Event()

    def slow(payload: Any, context: Any) -> Complete:
        begun.set()
        assert gate.wait(20)
        return Complete()

    def quick(payload: Any, context: Any) -> Complete:
        return Complete()

    world = make_world(handlers={"slow": slow, "quick": quick}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("slow")
    with served(world.app) as url:
        with pytest.raises(httpx.ReadTimeout):
            _call(url, timeout=0.5)
        assert begun.is_set()
        world.enqueue("quick")
        gate.set()
        wait_for(lambda: world.statuses() == {"completed": 2}, seconds=20, what="the end of both jobs")
        ended = "select stopped_because from giftcard_ticks where ended_at is not null"
        wait_for(lambda: bool(world.sql(ended)), seconds=20, what="the end of the tick")
        assert world.value(ended) == "drained"
        assert _call(url)["interrupted"] == 0
    assert world.services.shutdown._ticks == 0


def test_what_a_caller_asks_again_too_early_is_a_second_tick_beside_the_first(make_world: Make) -> None:
    begun, gate = threading.Semaphore(0), threading.Event()

    def slow(payload: Any, context: Any) -> Complete:
        begun.release()
        assert gate.wait(20)
        return Complete()

    world = make_world(handlers={"slow": slow}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("slow", count=2)
    with served(world.app) as url:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                _call(url, timeout=0.5)
            assert begun.acquire(timeout=20)
        gate.set()
        wait_for(lambda: world.statuses() == {"completed": 2}, seconds=20, what="the end of both jobs")
        ended = "select count(*) from giftcard_ticks where stopped_because = 'drained'"
        wait_for(lambda: world.value(ended) == 2, seconds=20, what="the end of both ticks")


# How a clock says which occurrence it delivers


def test_the_header_of_the_execution_id_can_be_chosen(make_world: Make) -> None:
    world = make_world(handlers={}, GIFTCARD_EXECUTION_ID_HEADER="X-CloudScheduler-ScheduleTime")
    with served(world.app) as url:
        first, again, later = (
            _call(url, **{"x-cloudscheduler-scheduletime": time})
            for time in ("2026-11-28T12:00:00Z", "2026-11-28T12:00:00Z", "2026-11-28T12:01:00Z")
        )
        other = [_call(url, **{"x-vercel-execution-id": "one"}) for _ in range(2)]
    assert [report["duplicate"] for report in (first, again, later, *other)] == [False, True, False, False, False]
    assert again["stopped_because"] == "duplicate"


@pytest.mark.parametrize("name", ["x y", "x:y", "x\ny", "é", "x" * 101])
def test_a_name_that_no_header_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"^GIFTCARD_EXECUTION_ID_HEADER: "):
        settings_of(GIFTCARD_EXECUTION_ID_HEADER=name)


def test_an_execution_id_of_any_length_is_told_apart(make_world: Make) -> None:
    world = make_world(handlers={})
    with served(world.app) as url:
        long = secrets.token_hex(3000)
        reports = [_call(url, **{"x-vercel-execution-id": long + end}) for end in "aab"]
    assert [report["duplicate"] for report in reports] == [False, True, False]
