"""What eight processes agree on beside the limits: the end of a batch, and who wakes the next tick."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash.house import House
from tests.crash.processes import wait_for

pytestmark = pytest.mark.slow

_EIGHT = 8


def test_eight_processes_end_a_batch_once(house: House, tmp_path: Path) -> None:
    jobs = """select jsonb_agg(jsonb_build_object('stage', 'task', 'correlation_id', 'part-' || n,
                                                  'payload', jsonb_build_object('trace', %s::text)))
                from generate_series(1, 200) n"""
    trace = str(tmp_path / "trace")
    follow_up = f'{{"stage": "task", "correlation_id": "the end", "payload": {{"trace": "{trace}"}}}}'
    house.execute(f"select giftcard_create_batch('all', %s::jsonb, ({jobs}))", follow_up, trace)
    workers = [house.worker("tasks", GIFTCARD_TICK_LINGER="1", GIFTCARD_CONCURRENCY="3") for _ in range(_EIGHT)]
    for worker in workers:
        worker.await_ready()
    for worker in workers:
        worker.begin_tick(limit=1000, budget=60)
    left = "select 201 - count(*) from giftcard_jobs where status = 'completed'"
    wait_for(lambda: house.value(left) == 0, seconds=90, what="the follow-up completed")
    assert sum(report["completed"] for worker in workers if (report := worker.answer())) == 201
    ((ended_with, follow_ups),) = house.rows(
        "select ended_with, (select count(*) from giftcard_jobs where correlation_id = 'the end') from giftcard_batches"
    )
    assert (ended_with["total"], ended_with["completed"], follow_ups) == (200, 200, 1)


_TAKES_WAKES = """
import sys, time, psycopg
taken, end = 0, time.monotonic() + 3
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    while time.monotonic() < end:
        taken += connection.execute("select giftcard_take_wake()").fetchone()[0]
print(taken)
"""


def test_eight_processes_wake_one_tick_a_second(house: House) -> None:
    url = house.environment["DATABASE_URL"]
    began = time.monotonic()
    processes = [
        subprocess.Popen([sys.executable, "-c", _TAKES_WAKES, url], stdout=subprocess.PIPE, text=True)
        for _ in range(_EIGHT)
    ]
    taken = sum(int(process.communicate(timeout=60)[0]) for process in processes)
    assert 2 <= taken <= time.monotonic() - began + 1
    assert house.value("select sent from giftcard_wakes") == taken
