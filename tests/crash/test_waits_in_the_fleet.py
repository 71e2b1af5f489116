"""What eight processes agree on beside the limits: the end of a batch, and who wakes the next tick."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
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


def test_of_eight_that_would_wake_a_tick_in_the_same_second_one_does(house: House) -> None:
    seconds = 15
    take = "select giftcard_take_wake(p_now => date_trunc('minute', now()) + make_interval(secs => %s))"
    together = threading.Barrier(_EIGHT)

    def take_all(_number: int) -> list[bool]:
        taken = []
        with psycopg.connect(house.environment["DATABASE_URL"], autocommit=True) as connection:
            for second in range(seconds):
                together.wait(60)
                ((has_taken,),) = connection.execute(take, [second]).fetchall()
                taken.append(has_taken)
        return taken

    with ThreadPoolExecutor(_EIGHT) as pool:
        taken = list(pool.map(take_all, range(_EIGHT)))
    assert [sum(in_second) for in_second in zip(*taken, strict=True)] == [1] * seconds
    assert house.value("select sent from giftcard_wakes") == seconds
