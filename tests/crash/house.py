"""Workers as real processes over one database, and the time of that database in the test's hand."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from tests.crash.doom import Appointments, point
from tests.crash.processes import Worker, owner

_DEADLINE_SECONDS = 120

# What an ended process left is free now, what waits is due now. SKIP LOCKED: moving time never waits for a worker.
_END_LEASES = """
    update giftcard_jobs set lease_expires_at = clock_timestamp() where status = 'running' and id = any (array(
      select id from giftcard_jobs where status = 'running' and lock_owner = any (%s) for update skip locked))"""
_MOVES = (
    """update giftcard_jobs set scheduled_at = clock_timestamp() where status = 'queued' and id = any (array(
         select id from giftcard_jobs where status = 'queued' and scheduled_at > clock_timestamp()
            for update skip locked))""",
    """update giftcard_jobs set revive_at = clock_timestamp() where status = 'error' and id = any (array(
         select id from giftcard_jobs where status = 'error' and revive_at > clock_timestamp()
            for update skip locked))""",
    """update giftcard_circuits set open_until = clock_timestamp() where circuit = any (array(
         select circuit from giftcard_circuits where open_until > clock_timestamp() for update skip locked))""",
)


class House:
    """The workers of one test. `environment`: settings that all of them get."""

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.workers: list[Worker] = []
        self.appointments = Appointments(folder)
        self.environment = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": url,
            "GIFTCARD_ENV": "test",
            "GIFTCARD_TICK_LINGER": "0",
            **environment,
        }
        self._numbers = itertools.count(1)
        self._connection = psycopg.connect(url, autocommit=True)

    @property
    def killed(self) -> int:
        """Processes that SIGKILL has ended so far."""
        return sum(len(worker.deaths) for worker in self.workers)

    def worker(self, kind: str = "orders", **environment: str) -> Worker:
        """Starts one more process."""
        log = self.folder / f"worker-{next(self._numbers)}.log"
        worker = Worker(kind, str(self.folder), environment=self.environment | environment, log=log)
        self.workers.append(worker)
        return worker

    def strike(self, order: str, stage: str, when: str) -> bool:
        """Keeps an appointment from outside: kills the process that runs this stage of the order."""
        if self.appointments.meet(point(order, stage, when)) is None:
            return False
        holder = self.value(
            "select lock_owner from giftcard_jobs where correlation_id = %s and stage = %s and status = 'running'",
            order,
            stage,
        )
        for worker in self.workers:  # never a process that is not ours
            if worker.pid is not None and owner(worker.pid) == holder:
                worker.signal(signal.SIGKILL)
        return True

    def value(self, query: str, *arguments: Any) -> Any:
        """The one value that a query answers; None: no row."""
        row = self.rows(query, *arguments)
        return row[0][0] if row else None

    def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All that a query answers."""
        return self._connection.execute(query.encode(), arguments or None).fetchall()

    def execute(self, statement: str, *arguments: Any) -> None:
        """Changes something behind the workers' backs."""
        self._connection.execute(statement.encode(), arguments or None)

    def end_leases_of_the_dead(self) -> None:
        """As if a minute had gone by since they were killed."""
        self.end_leases_of([pid for worker in self.workers for pid in worker.deaths])

    def end_leases_of(self, pids: list[int]) -> None:
        """As if a minute had gone by since these processes last worked."""
        self.execute(_END_LEASES, [owner(pid) for pid in pids])

    def move_time(self) -> None:
        """To where everything that waits is due and every lease of a dead process has ended."""
        self.end_leases_of_the_dead()
        for move in _MOVES:
            self.execute(move)

    def work(
        self,
        *,
        until: Callable[[], bool],
        lanes: int = 2,
        environment: dict[str, str] | None = None,
        kind: str = "orders",
    ) -> None:
        """Keeps `lanes` workers ticking, time moving on all the while. For each that is killed there is a next one."""
        give_up = threading.Event()
        end = time.monotonic() + _DEADLINE_SECONDS

        def lane(worker: Worker) -> None:
            try:
                while not until() and not give_up.is_set():
                    assert time.monotonic() < end, f"not done after {_DEADLINE_SECONDS} s: {self.unfinished()}"
                    report = worker.tick(limit=1000)
                    self.move_time()
                    if report is not None and not report["started"]:
                        time.sleep(0.02)  # what is left runs in another lane
            except BaseException:
                give_up.set()
                raise
            worker.end()

        with ThreadPoolExecutor(lanes) as pool:
            list(pool.map(lane, [self.worker(kind, **(environment or {})) for _ in range(lanes)]))

    def close(self) -> None:
        """Ends what still runs."""
        for worker in self.workers:
            worker.destroy()
        self._connection.close()

    def unfinished(self) -> list[tuple[Any, ...]]:
        """The first jobs that are not completed."""
        return self.rows("""select correlation_id, stage, status, attempts, run_no, lock_owner, last_error
                              from giftcard_jobs where status <> 'completed' order by id limit 20""")
