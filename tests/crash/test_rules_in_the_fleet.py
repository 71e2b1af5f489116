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
    _enqueue(house, tmp_path, _JOBS)
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
        return bool(left == 0)

    wait_for(done, seconds=90, what="all jobs completed")
    assert max(seen) == _MOST, f"so many ran at once: {sorted(seen)}"
    reports = [worker.answer() for worker in workers]
    assert sum(report["completed"] for report in reports if report) == _JOBS
    assert len(house.rows("select distinct lock_owner from giftcard_job_history")) > 1


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
