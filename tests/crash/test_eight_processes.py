"""Eight processes over one queue: every job once, and one probe for a half-open circuit."""

import collections
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.crash.house import House
from tests.crash.processes import Worker, owner, wait_for

pytestmark = pytest.mark.slow

_EIGHT = 8


def _eight(house: House, **environment: str) -> list[Worker]:
    workers = [house.worker("tasks", **environment) for _ in range(_EIGHT)]
    for worker in workers:
        worker.await_ready()
    return workers


def _enqueue(house: House, count: int, **payload: str) -> None:
    """So many tasks, due now."""
    house.execute(
        """insert into giftcard_jobs (correlation_id, stage, payload)
           select format('task-%%s', n), 'task', %s::jsonb from generate_series(1, %s) n""",
        json.dumps(payload),
        count,
    )


def _traced(trace: Path) -> list[tuple[int, int, int]]:
    """Job, run and process of each run that began."""
    lines = trace.read_text().splitlines() if trace.exists() else []
    return [tuple(int(part) for part in line.split()) for line in lines]  # type: ignore[misc]


def _tick_all(workers: list[Worker], **options: Any) -> list[dict[str, Any]]:
    """All at once; their reports."""
    for worker in workers:
        worker.begin_tick(**options)
    reports = [worker.answer() for worker in workers]
    return [report for report in reports if report is not None]


def test_eight_processes_do_each_of_2000_jobs_once(house: House, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    _enqueue(house, 2000, trace=str(trace))
    workers = _eight(house)
    reports = _tick_all(workers, limit=100_000)
    while house.value("select count(*) from giftcard_jobs where status <> 'completed'"):
        again = _tick_all(workers, limit=100_000)
        assert any(report["started"] for report in again), "jobs are left and nobody takes them"
        reports += again
    runs = collections.Counter((job, run) for job, run, _ in _traced(trace))
    jobs = [row[0] for row in house.rows("select id from giftcard_jobs order by id")]
    assert {run: times for run, times in runs.items() if times > 1} == {}, "these (job, run) began more than once"
    assert sorted(runs) == [(job, 1) for job in jobs], "a job was lost, or ran again"
    history = house.rows("select job_id, run_no, result from giftcard_job_history order by job_id, run_no")
    assert history == [(job, 1, "SUCCESS") for job in jobs]
    assert sum(report["completed"] for report in reports) == len(jobs) == 2000
    assert sum(report["lease_lost"] + report["interrupted"] + report["retried"] for report in reports) == 0
    shares = dict(house.rows("select lock_owner, count(*) from giftcard_job_history group by lock_owner"))
    assert set(shares) == {owner(worker.pid or 0) for worker in workers}, f"somebody did nothing: {shares}"
    assert house.value("select sum(completed) from giftcard_ticks") == 2000


class _Probes:
    """Rounds in which eight processes claim at once while the circuit is half-open."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self._trace, self._gate = folder / "trace", folder / "gate"
        _enqueue(house, 100, trace=str(self._trace), gate=str(self._gate))
        house.execute("""insert into giftcard_circuits (circuit, state, changed_at, open_until)
                         values ('task', 'open', now() - interval '61 s', now() - interval '1 s')""")
        self.workers = _eight(house, GIFTCARD_CONCURRENCY="2")

    def one_begins(self) -> Worker:
        """All tick at once: one runs a probe and waits at the gate, the others find nothing to do. Answers the one."""
        before = len(_traced(self._trace))
        for worker in self.workers:
            worker.begin_tick(limit=1)
        wait_for(lambda: len(_traced(self._trace)) > before, seconds=20, what="anybody runs a probe")
        probe = _traced(self._trace)[-1]
        holder = next(worker for worker in self.workers if worker.pid == probe[2])
        for worker in self.workers:
            if worker is not holder:
                report = self._answer(worker, before)
                assert report["started"] == 0, f"{worker.pid} began a second probe beside job {probe[0]}"
        return holder

    def none_begins(self) -> None:
        """All tick at once and find nothing to do."""
        before = len(_traced(self._trace))
        reports = _tick_all(self.workers, limit=1)
        assert [report["started"] for report in reports] == [0] * len(self.workers)
        assert len(_traced(self._trace)) == before

    def one_ends(self, how: str) -> None:
        """A whole round, in which the probe ends like this."""
        holder = self.one_begins()
        told = self._gate.with_suffix(".new")
        told.write_text(how)
        told.rename(self._gate)
        report = holder.answer()
        self._gate.unlink()
        assert report is not None, f"{holder.pid} was killed"
        assert report["started"] == 1
        assert report["lease_lost"] == 0

    def _answer(self, worker: Worker, before: int) -> dict[str, Any]:
        """The report of one that should find nothing to do: one that is silent waits at the gate."""
        try:
            report = worker.answer(timeout=10)
        finally:
            probes = _traced(self._trace)[before:]
            assert len(probes) == 1, f"several probes at once (job, run, process): {probes}"
        assert report is not None, f"{worker.pid} was killed"
        return report

    def cool_down(self) -> None:
        """The cooldown is over, and who was put off is due."""
        self.house.move_time()

    def state(self) -> str:
        """Of the circuit, as stored."""
        return str(self.house.value("select state from giftcard_circuits where circuit = 'task'"))


def test_a_half_open_circuit_has_one_probe_in_the_whole_fleet(house: House, tmp_path: Path) -> None:
    probes = _Probes(house, tmp_path)
    for _ in range(3):
        probes.one_ends("fail")
        assert probes.state() == "open"
        probes.none_begins()  # for a whole new cooldown
        probes.cool_down()
        probes.one_ends("snooze")
        assert probes.state() == "half_open"
        probes.one_ends("snooze")
    probes.one_ends("complete")
    assert probes.state() == "closed"
    changes = house.rows("select from_state || ' ' || to_state from giftcard_circuit_changes order by id")
    assert [row[0] for row in changes] == [
        *("open half_open", "half_open open") * 3,
        "open half_open",
        "half_open closed",
    ]


def test_a_killed_probe_keeps_its_place_until_its_lease_is_taken_over(house: House, tmp_path: Path) -> None:
    probes = _Probes(house, tmp_path)
    for _ in range(3):
        holder = probes.one_begins()
        holder.signal(signal.SIGKILL)
        assert holder.answer() is None
        holder.await_ready()
        probes.none_begins()
        house.end_leases_of_the_dead()
        probes.one_ends("snooze")
        assert probes.state() == "half_open", "an interrupted probe changes nothing"
    probes.one_ends("complete")
    assert probes.state() == "closed"
    interrupted = house.rows("select result, count(*)::int from giftcard_job_history group by result order by result")
    assert interrupted == [("INTERRUPTED", 3), ("SNOOZED", 3), ("SUCCESS", 1)]
