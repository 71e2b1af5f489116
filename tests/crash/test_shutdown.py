"""SIGTERM in the middle of a tick: what runs is finished, what has not begun is given back, and the process leaves."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from dev import ROOT
from tests.crash.doom import point
from tests.crash.house import House
from tests.crash.processes import wait_for
from tests.crash.shop import Shop

# What the platform gives a process between SIGTERM and SIGKILL, in seconds.
_NOTICE = 0.5


def _enqueue(house: House, name: str, trace: Path, gate: Path | None = None) -> None:
    payload = {"trace": str(trace)} | ({"gate": str(gate)} if gate else {})
    house.execute(
        "insert into giftcard_jobs (correlation_id, stage, payload) values (%s, 'task', %s)", name, json.dumps(payload)
    )


def _jobs(house: House) -> dict[str, tuple[str, int, int]]:
    rows = house.rows("select correlation_id, status, attempts, run_no from giftcard_jobs")
    return {row[0]: row[1:] for row in rows}


@pytest.mark.slow
def test_what_was_claimed_and_not_begun_is_given_back_at_once(house: House, tmp_path: Path) -> None:
    """The signal comes with the answer that brings `third`, while `first` still runs."""
    trace, gate = tmp_path / "trace", tmp_path / "gate"
    _enqueue(house, "first", trace, gate)
    for name in ("second", "third", "fourth"):
        _enqueue(house, name, trace)
    house.appointments.make(point("third", "task", "after claim"), number=signal.SIGTERM)
    worker = house.worker("tasks", GIFTCARD_CONCURRENCY="2")
    worker.await_ready()
    worker.begin_tick()
    wait_for(lambda: bool(house.appointments.kept()), seconds=20, what="the signal")
    wait_for(lambda: _jobs(house)["third"][0] == "queued", seconds=20, what="the release, while `first` still runs")
    assert _jobs(house) == {
        "first": ("running", 1, 1),
        "second": ("completed", 1, 1),
        "third": ("queued", 0, 1),
        "fourth": ("queued", 0, 0),
    }
    gate.write_text("complete")
    report = worker.answer()
    assert report is not None
    assert (report["started"], report["completed"], report["released"]) == (2, 2, 1)
    assert report["stopped_because"] == "shutdown"
    assert worker.wait(timeout=20) == 0
    assert _jobs(house)["first"] == ("completed", 1, 1)
    ran = [int(line.split()[0]) for line in trace.read_text().splitlines()]
    assert sorted(ran) == [1, 2], "a job that was given back had begun"
    assert house.rows("select run_no, result from giftcard_job_history where job_id = 3") == [(1, "RELEASED")]


def test_a_tick_that_waits_for_work_leaves_at_once(house: House, tmp_path: Path) -> None:
    _enqueue(house, "later", tmp_path / "trace")
    house.execute("update giftcard_jobs set scheduled_at = clock_timestamp() + interval '50 seconds'")
    assert min(_seconds_to_leave(house) for _ in range(3)) < _NOTICE  # a busy machine may be slow once, or twice


def _seconds_to_leave(house: House) -> float:
    """How long a tick that waits takes to end after SIGTERM."""
    before = house.value("select count(*) from giftcard_ticks")
    worker = house.worker("tasks")
    worker.await_ready()
    worker.begin_tick(linger=True)
    wait_for(lambda: house.value("select count(*) from giftcard_ticks") > before, seconds=20, what="the tick")
    worker.signal(signal.SIGTERM)
    told = time.monotonic()
    report = worker.answer()
    took = time.monotonic() - told
    assert report is not None
    assert report["stopped_because"] == "shutdown"
    assert worker.wait(timeout=20) == 0
    return took


@contextmanager
def _flask(house: House, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The real application in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "api.index", *arguments],
        env=house.environment | environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def _assert_the_payment_was_the_last(house: House, order: str, *, late: str) -> None:
    stages = "select stage, status, attempts, run_no from giftcard_jobs where correlation_id = %s order by id"
    assert house.rows(stages, order) == [
        ("customer_ingest", "completed", 1, 1),
        ("personal_code", "completed", 1, 1),
        ("payment", "completed", 1, 1),
        ("issue_card", "queued", 0, 0),
    ]
    assert house.rows(stages, late) == [("customer_ingest", "queued", 0, 0)]


@pytest.mark.slow
def test_the_command_finishes_a_payment_and_begins_nothing_more(shop: Shop) -> None:
    """`flask jobs tick`: the tick runs in the thread that heeds the signal."""
    shop.vendor.hold.clear()
    order = shop.order()
    with _flask(shop.house, "jobs", "tick", "--json", "--limit", "1000") as process:
        assert shop.vendor.asked.wait(60), "the payment never began"
        process.send_signal(signal.SIGTERM)
        late = shop.order()
        shop.vendor.hold.set()
        told, _ = process.communicate(timeout=60)
    report = json.loads(told)
    assert (process.returncode, report["stopped_because"], report["completed"]) == (0, "shutdown", 3)
    _assert_the_payment_was_the_last(shop.house, order, late=late)
    shop.house.work(until=shop.all_done, lanes=1)
    shop.assert_all_is_right()


@pytest.mark.slow
def test_the_web_application_finishes_a_payment_and_begins_nothing_more(shop: Shop) -> None:
    """A server that leaves SIGTERM to the application: it ends when the tick has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, secret = f"http://127.0.0.1:{port}", "cron-secret"
    shop.vendor.hold.clear()
    order = shop.order()
    with _flask(shop.house, "run", "--port", str(port), CRON_SECRET=secret) as process, ThreadPoolExecutor(1) as clock:
        wait_for(lambda: _answers(f"{url}/api/health"), seconds=60, what="the server")
        headers = {"Authorization": f"Bearer {secret}"}
        call = clock.submit(httpx.get, f"{url}/api/cron/giftcard-jobs", headers=headers, timeout=20)
        assert shop.vendor.asked.wait(60), "the payment never began"
        process.send_signal(signal.SIGTERM)
        late = shop.order()
        time.sleep(0.2)  # a server that left at once would be gone now
        assert process.poll() is None, "it left in the middle of a payment"
        shop.vendor.hold.set()
        assert process.wait(60) == -signal.SIGTERM
        call.exception(timeout=10)  # the answer may be lost: the process ends with it
    _assert_the_payment_was_the_last(shop.house, order, late=late)
    shop.house.work(until=shop.all_done, lanes=1)
    shop.assert_all_is_right()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
