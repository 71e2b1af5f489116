"""Functions that commit with a settle, in many processes and in dying ones: once for each job, or not at all."""

import json
from pathlib import Path

import psycopg
import pytest

from tests.crash.doom import point
from tests.crash.house import House
from tests.crash.processes import wait_for

pytestmark = pytest.mark.slow

_PAY = """
    create table public.paid (flow text, pid integer not null default pg_backend_pid());
    create function public.pay(p_arguments jsonb) returns void language plpgsql as $$
    begin
      insert into public.paid values (p_arguments ->> 'flow');
      perform pg_advisory_xact_lock_shared(7);
      if p_arguments ->> 'flow' like '%0' then
        raise exception 'it is not for sale';
      end if;
    end $$;
    insert into giftcard_settle_functions values ('pay')
"""
_ENQUEUE = """
    insert into giftcard_jobs (correlation_id, stage, payload)
    select format('task-%%s', n), 'task', %s::jsonb from generate_series(1, %s) n
"""


@pytest.fixture
def till(house: House, tmp_path: Path) -> House:
    """A house whose tasks are paid as they are settled; those whose number ends with 0 are refused."""
    house.execute(_PAY)
    return house


def enqueue(house: House, count: int, folder: Path) -> None:
    house.execute(_ENQUEUE, json.dumps({"trace": str(folder / "trace"), "then": "pay"}), count)


def assert_all_is_right(house: House, count: int) -> None:
    """Each job is settled, and paid once if it is complete; every run has one line of history."""
    refused = count // 10
    by_status = dict(house.rows("select status, count(*) from giftcard_jobs group by status"))
    assert by_status == {"completed": count - refused} | ({"error": refused} if refused else {})
    completed = house.rows("select correlation_id from giftcard_jobs where status = 'completed' order by 1")
    assert house.rows("select flow from paid order by 1") == completed
    results = dict(house.rows("select result, count(*) from giftcard_job_history group by result"))
    assert (results["SUCCESS"], results.get("FAILED", 0)) == (count - refused, refused)
    assert house.value("select sum(completed) from giftcard_ticks") == count - refused


def test_eight_processes_pay_for_each_job_once(till: House, tmp_path: Path) -> None:
    enqueue(till, 200, tmp_path)
    ended = "select count(*) = 200 from giftcard_jobs where status in ('completed', 'error')"
    till.work(until=lambda: bool(till.value(ended)), lanes=8, kind="tasks")
    assert_all_is_right(till, 200)
    errors = till.rows("select distinct last_error from giftcard_jobs where status = 'error'")
    assert errors == [("PermanentError: pay refused: it is not for sale (SQLSTATE P0001)",)]


def test_a_process_that_is_killed_around_its_settle_leaves_no_half_of_it(till: House, tmp_path: Path) -> None:
    enqueue(till, 4, tmp_path)
    till.appointments.make(point("task-1", "task", "before settle_with_call"))
    till.appointments.make(point("task-2", "task", "after settle_with_call"))
    ended = "select count(*) = 4 from giftcard_jobs where status in ('completed', 'error')"
    till.work(until=lambda: bool(till.value(ended)), lanes=1, kind="tasks")
    assert (till.killed, till.appointments.left()) == (2, [])
    assert_all_is_right(till, 4)
    assert till.rows("select result, count(*) from giftcard_job_history where result <> 'SUCCESS' group by 1") == [
        ("INTERRUPTED", till.value("select sum(run_no) - 4 from giftcard_jobs"))
    ]


def test_a_process_that_is_killed_while_the_function_runs_has_paid_nothing(till: House, tmp_path: Path) -> None:
    enqueue(till, 1, tmp_path)
    worker = till.worker("tasks")
    worker.await_ready()
    with psycopg.connect(till.environment["DATABASE_URL"]) as holder:
        holder.execute("select pg_advisory_lock(7)")
        worker.begin_tick(limit=1)
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        wait_for(lambda: till.value(waits) == 1, seconds=20, what="it is called")
        till.appointments.make(point("task-1", "task", "now"))
        assert till.strike("task-1", "task", "now")
        assert worker.answer() is None
    held = "select count(*) from pg_locks where locktype = 'advisory'"
    wait_for(lambda: till.value(held) == 0, seconds=20, what="its session has ended")
    assert till.value("select count(*) from paid") == 0
    till.work(until=lambda: till.value("select status from giftcard_jobs") == "completed", lanes=1, kind="tasks")
    assert_all_is_right(till, 1)
