"""Rules of a stage hold in the whole fleet, and when processes are killed."""

import signal
from pathlib import Path

import pytest

from tests.crash.house import House
from tests.crash.processes import wait_for

pytestmark = pytest.mark.slow

_EIGHT, _MOST, _JOBS = 8, 3, 400


def _enqueue(house: House, folder: Path, count: int, *, gate: bool = False, stage: str = "task") -> None:
    held = f', "gate": "{folder / "gate"}"' if gate else ""
    house.execute(
        """insert into giftcard_jobs (correlation_id, stage, payload)
           select format('task-%%s', n), %s, %s::jsonb from generate_series(1, %s) n""",
        stage,
        f'{{"trace": "{folder / "trace"}"{held}}}',
        count,
    )


def test_eight_processes_keep_to_the_limit_of_a_stage(house: House, tmp_path: Path) -> None:
    """While the first runs wait at the gate, the limit is full, and no process starts another."""
    _enqueue(house, tmp_path, _JOBS, gate=True)
    rules = {"GIFTCARD_STAGE_TASK_CONCURRENCY": str(_MOST), "GIFTCARD_TICK_LINGER": "1", "GIFTCARD_CONCURRENCY": "1"}
    workers = [house.worker("tasks", **rules) for _ in range(_EIGHT)]
    for worker in workers:
        worker.await_ready()
    for worker in workers:
        worker.begin_tick(limit=1000, budget=60)
    seen = set()

    def done() -> bool:
        running, left = house.rows("""select count(*) filter (where status = 'running'),
                                             count(*) filter (where status <> 'completed') from giftcard_jobs""")[0]
        seen.add(running)
        if running == _MOST and not (tmp_path / "gate").exists():
            (tmp_path / "complete").write_text("complete")
            (tmp_path / "complete").rename(tmp_path / "gate")  # whole at once
        return bool(left == 0)

    wait_for(done, seconds=90, what="all jobs completed")
    assert max(seen) == _MOST, f"so many ran at once: {sorted(seen)}"
    reports = [worker.answer() for worker in workers]
    assert sum(report["completed"] for report in reports if report) == _JOBS
    assert len(house.rows("select distinct lock_owner from giftcard_job_history")) > 1


def _drained(house: House, *, largest: str = "select 0", **rules: str) -> int:
    """Let eight processes drain the queue, and return the largest that a query has returned meanwhile."""
    workers = [
        house.worker("tasks", GIFTCARD_TICK_LINGER="1", GIFTCARD_CONCURRENCY="2", **rules) for _ in range(_EIGHT)
    ]
    for worker in workers:
        worker.await_ready()
    for worker in workers:
        worker.begin_tick(limit=1000, budget=60)
    seen = [0]

    def done() -> bool:
        seen.append(house.value(largest) or 0)
        return bool(house.value("select count(*) from giftcard_jobs where status <> 'completed'") == 0)

    wait_for(done, seconds=90, what="all jobs completed")
    reports = [worker.answer() for worker in workers]
    assert sum(report["completed"] for report in reports if report) == house.value("select count(*) from giftcard_jobs")
    return max(seen)


def test_eight_processes_run_the_jobs_of_a_key_one_after_another(house: House, tmp_path: Path) -> None:
    _enqueue(house, tmp_path, 120)
    house.execute("update giftcard_jobs set concurrency_key = 'customer-' || id % 6")
    largest = """select max(n) from (select count(*) as n from giftcard_jobs where status = 'running'
                                      group by concurrency_key) x"""
    assert _drained(house, largest=largest) == 1


def test_eight_processes_keep_to_the_limit_of_each_tenant(house: House, tmp_path: Path) -> None:
    _enqueue(house, tmp_path, 200)
    house.execute("update giftcard_jobs set tenant_id = 'tenant-' || id % 3")
    house.execute("insert into giftcard_limits (kind, name, tenant_id, runs) values ('tenant', 'task', '*', 2)")
    largest = (
        "select max(n) from (select count(*) as n from giftcard_jobs where status = 'running' group by tenant_id) x"
    )
    assert _drained(house, largest=largest) == 2


def test_eight_processes_keep_to_a_rate(house: House, tmp_path: Path) -> None:
    """20 at once, and 40 a second from then on: at no time more, and hardly less."""
    _enqueue(house, tmp_path, 140)
    house.execute("insert into giftcard_limits (kind, name, per_second, burst) values ('stage', 'task', 40, 20)")
    _drained(house)
    started = [row[0] for row in house.rows("select started_at from giftcard_job_history order by started_at")]
    for first in range(len(started)):
        for last in range(first, len(started)):
            seconds = (started[last] - started[first]).total_seconds()
            assert last - first + 1 <= 20 + 40 * seconds + 1, f"{last - first + 1} in {seconds:.2f} s"
    assert (started[-1] - started[0]).total_seconds() < 30


@pytest.mark.parametrize("by", ["stage", "job"])
def test_killed_run_of_a_job_that_runs_at_most_once_is_never_run_again(house: House, tmp_path: Path, by: str) -> None:
    _enqueue(house, tmp_path, 1, gate=True)
    rules = {"GIFTCARD_STAGE_TASK_SEMANTICS": "at_most_once"} if by == "stage" else {}
    if by == "job":
        house.execute("update giftcard_jobs set semantics = 'at_most_once'")
    worker = house.worker("tasks", **rules)
    worker.await_ready()
    worker.begin_tick(limit=10)
    wait_for((tmp_path / "trace").exists, seconds=20, what="the run begins")
    worker.signal(signal.SIGKILL)
    assert worker.answer() is None
    (tmp_path / "gate").write_text("complete")
    for _ in range(3):
        house.move_time()
        worker.tick(limit=10)
    ((status, attempts, revive_at, error),) = house.rows(
        "select status, attempts, revive_at, last_error from giftcard_jobs"
    )
    assert (status, attempts, revive_at) == ("error", 1, None)
    assert error.startswith("Interrupted")
    assert len((tmp_path / "trace").read_text().splitlines()) == 1
