"""Waking by the own address: real calls of a real server, which nobody waits for."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lib.job import Complete
from lib.store.codec import Step
from lib.tick import waking
from lib.tick.waking import Waker, WakingStore
from lib.web.services import Services
from tests.crash.processes import wait_for
from tests.sql.supabase_cron.serving import served
from tests.support.world import ADMIN, CRON, World, bearer

Make = Callable[..., World]


def _handlers() -> dict[str, Any]:
    return {"work": lambda payload, context: Complete()}


@contextmanager
def _waking(world: World) -> Iterator[WakingStore]:
    """The application with a store that wakes it. The address is known only once it is served."""
    with served(world.app) as url:
        store = WakingStore(world.store._wire, Waker(url, CRON), ticks=world.settings.giftcard_fleet_ticks)
        own = Services(world.settings, store, lambda: world.registry)
        world.app.extensions["services"] = own
        yield store


def _ticks(world: World) -> list[dict[str, Any]]:
    return world.sql("select source, stopped_because, started from giftcard_ticks order by id")


def _await_end(world: World) -> None:
    live = "select 1 from giftcard_ticks where ended_at is null"
    wait_for(lambda: not world.sql(live), seconds=60, what="the end of the ticks")


def _job(number: int, **more: Any) -> dict[str, Any]:
    return {"stage": "work", "correlation_id": f"w-{number}", "payload": {}} | more


def test_an_enqueue_wakes_a_tick_that_runs_the_job(make_world: Make) -> None:
    world = make_world(handlers=_handlers(), GIFTCARD_WAKE="url")
    with _waking(world) as store:
        (answer,) = store.enqueue([_job(1)])
        assert answer["created"]
        wait_for(lambda: world.statuses() == {"completed": 1}, seconds=20, what="the job")
        wait_for(lambda: _ticks(world)[0]["stopped_because"] is not None, seconds=20, what="the end of the tick")
    assert _ticks(world) == [{"source": "wake", "stopped_because": "drained", "started": 1}]


def test_an_order_wakes_a_tick(make_world: Make) -> None:
    world = make_world(GIFTCARD_WAKE="url")
    with _waking(world):
        assert world.submit().status_code == 202
        done = "select 1 from giftcard_jobs where stage = 'customer_ingest' and status = 'completed'"
        wait_for(lambda: bool(world.sql(done)), seconds=20, what="the first job of the order")
        _await_end(world)
    assert {tick["source"] for tick in _ticks(world)} == {"wake"}


def test_ticks_that_end_at_their_limit_wake_each_other_until_the_work_is_done(make_world: Make) -> None:
    world = make_world(handlers=_handlers(), GIFTCARD_WAKE="url", GIFTCARD_JOBS_PER_CRON_RUN=2, GIFTCARD_TICK_LINGER=1)
    world.enqueue("work", count=6)
    with _waking(world):
        assert world.tick()["stopped_because"] == "limit"
        wait_for(lambda: world.statuses() == {"completed": 6}, seconds=30, what="all jobs")
        _await_end(world)
    assert [(tick["source"], tick["started"]) for tick in _ticks(world)] == [("cron", 2), ("wake", 2), ("wake", 2)]
    times = world.sql("select started_at from giftcard_ticks where source = 'wake' order by id")
    assert (times[1]["started_at"] - times[0]["started_at"]).total_seconds() > 0.9, "one wake a second"


@pytest.mark.parametrize(("next_due_in", "woken"), [(-1.0, 1), (0.0, 1), (20.0, 0)])
def test_a_tick_that_asks_again_asks_for_the_fleet_only_where_work_is_due(
    make_world: Make, monkeypatch: pytest.MonkeyPatch, next_due_in: float, woken: int
) -> None:
    """One tick waits. It is enough for what is due later."""
    world, sent = make_world(), list[float]()
    waker = SimpleNamespace(send=lambda *, within: sent.append(within))
    store = WakingStore(world.store._wire, cast("Waker", waker), ticks=4)
    world.sql(
        "insert into giftcard_ticks (key, owner, source, started_at, live_until, stages, wake)"
        " values (gen_random_uuid(), 'other', 'cron', now(), now() + interval '90 seconds', '{}',"
        """ '{"mode": "url", "ticks": 4, "seconds": 50, "limit": 10}') returning id"""
    )
    slept: list[float] = []
    monkeypatch.setattr(waking, "time", SimpleNamespace(sleep=slept.append))
    store._after(Step(jobs=(), stopped_because="limit", next_due_in=next_due_in, wake_in=1))
    assert (slept, len(sent)) == ([1], woken)


def test_a_fleet_works_side_by_side(make_world: Make) -> None:
    begun, gate = threading.Semaphore(0), threading.Event()

    def slow(payload: Any, context: Any) -> Complete:
        begun.release()
        assert gate.wait(30)
        return Complete()

    settings = {"GIFTCARD_WAKE": "url", "GIFTCARD_FLEET_TICKS": 2, "GIFTCARD_CONCURRENCY": 1, "GIFTCARD_TICK_LINGER": 1}
    world = make_world(handlers={"slow": slow}, **settings)
    world.enqueue("slow", count=2)
    with _waking(world):
        tick = threading.Thread(target=world.tick)
        tick.start()
        try:
            for _ in range(2):
                assert begun.acquire(timeout=20), "a second tick runs beside the first"
        finally:
            gate.set()
        tick.join(60)
        _await_end(world)
    assert world.statuses() == {"completed": 2}
    assert sorted(tick["source"] for tick in _ticks(world)) == ["cron", "wake"]


@contextmanager
def _mute() -> Iterator[str]:
    """An address that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_an_address_that_never_answers_delays_no_order(make_world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_TIMEOUT", 30.0)
    world = make_world(GIFTCARD_WAKE="url")
    with _mute() as url:
        store = WakingStore(world.store._wire, Waker(url, CRON), ticks=1)
        world.app.extensions["services"] = Services(world.settings, store, lambda: world.registry)
        began = time.monotonic()
        assert world.submit().status_code == 202
        assert time.monotonic() - began < 15
    assert world.sql("select sent from giftcard_wakes") == [{"sent": 1}]
    assert world.statuses() == {"queued": 1}


def test_a_wake_waits_until_its_call_is_sent_and_no_longer_than_it_is_told() -> None:
    release = threading.Event()

    class Stuck(Waker):
        def _status(self, sent: threading.Event) -> int | None:
            release.wait(30)
            return 200

    others = set(threading.enumerate())
    began = time.monotonic()
    waker = Stuck("http://127.0.0.1:1", CRON)
    for _ in range(20):
        waker.send(within=0.01)
    assert time.monotonic() - began < 20
    ours = [thread for thread in set(threading.enumerate()) - others if thread.name == "wake"]
    assert len(ours) == waking._MOST, "no more threads than that"
    release.set()


def test_an_address_that_refuses_is_logged_once(log: Callable[[], list[dict[str, Any]]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    waker = Waker(url, CRON)
    for _ in range(3):
        waker.send(within=10)
    wait_for(lambda: bool(log()), seconds=10, what="the line")
    assert [(line["event"], line["error"]) for line in log()] == [("wake_failed", "ConnectionRefusedError")]


def test_acts_of_operators_wake_too(make_world: Make) -> None:
    world = make_world(handlers=_handlers(), GIFTCARD_WAKE="url")
    (job_id,) = world.enqueue("work", status="error")
    with _waking(world) as store:
        answer = world.client.post(f"/api/v1/jobs/{job_id}/requeue", headers=bearer(ADMIN))
        assert answer.status_code == 200, answer.text
        wait_for(lambda: world.statuses() == {"completed": 1}, seconds=20, what="the job")
    assert isinstance(store, WakingStore)


def test_a_batch_wakes_ticks_for_its_jobs_and_for_the_follow_up_of_its_seal(make_world: Make) -> None:
    world = make_world(handlers=_handlers(), GIFTCARD_WAKE="url", GIFTCARD_TICK_LINGER="1")
    open_batch = {"name": "b", "open": True, "jobs": [_job(1)], "follow_up": {"stage": "work", "correlation_id": "end"}}
    with _waking(world):
        answer = world.client.post("/api/v1/batches", json=open_batch, headers=bearer(ADMIN))
        assert answer.status_code == 201, answer.text
        address = f"/api/v1/batches/{answer.json['id']}"
        wait_for(lambda: world.statuses() == {"completed": 1}, seconds=20, what="its job")
        _await_end(world)
        answer = world.client.post(f"{address}/seal", headers=bearer(ADMIN))
        assert answer.status_code == 200, answer.text
        wait_for(lambda: world.statuses() == {"completed": 2}, seconds=20, what="the follow-up")
    assert {tick["source"] for tick in _ticks(world)} == {"wake"}


def test_the_end_of_a_limit_wakes_a_tick(make_world: Make) -> None:
    world = make_world(handlers=_handlers(), GIFTCARD_WAKE="url")
    key = {"kind": "stage", "name": "work"}
    assert world.client.put("/api/v1/limits", json=key | {"runs": 0}, headers=bearer(ADMIN)).status_code == 200
    world.enqueue("work")
    with _waking(world):
        answer = world.client.post("/api/v1/limits/remove", json=key, headers=bearer(ADMIN))
        assert answer.status_code == 200, answer.text
        wait_for(lambda: world.statuses() == {"completed": 1}, seconds=20, what="the job")


def test_without_an_address_the_store_stays_as_it_is(make_world: Make) -> None:
    world = make_world(GIFTCARD_WAKE="url")
    assert WakingStore.over(world.store, world.settings) is world.store
