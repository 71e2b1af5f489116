"""The thread pool that handlers run in."""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from lib.job import Job
from lib.jobs.context import Context
from lib.store.codec import Result

# Seconds after the first result in which further results join the same settle call.
_GATHER_SECONDS = 0.003
# Results that fill a settle call; in a larger pool, half of its threads: the other half works during the call.
_BATCH = 10


class Pool:
    """A bounded pool of threads, one per run. `run` must not raise.

    The result of an expired run is dropped, but its thread stays busy until the handler returns.
    """

    def __init__(self, count: int, *, run: Callable[[Job, Context], Result]) -> None:
        self._count = count
        self._run = run
        self._batch = max(_BATCH, count // 2)
        self._threads: list[threading.Thread] = []
        self._waiting: deque[tuple[Job, Context]] = deque()
        self._wakeups: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._running: dict[tuple[int, int], tuple[Job, Context]] = {}
        self._expired: set[tuple[int, int]] = set()
        self._finished: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._drained: deque[Result] = deque()

    @property
    def busy(self) -> int:
        """The number of threads whose handler has not returned."""
        return len(self._running) + len(self._expired)

    @property
    def free(self) -> int:
        """The number of runs that may start now."""
        return self._count - self.busy

    def start(self, job: Job, context: Context) -> None:
        """Start a run at once. The caller checks `free` first."""
        self._running[job.run] = (job, context)
        self._waiting.append((job, context))
        if len(self._threads) < self.busy:
            self._threads.append(threading.Thread(target=self._work, name=f"stage-{len(self._threads)}"))
            self._threads[-1].start()
        self._wake_one()

    def finished(self, *, within: float) -> list[Result]:
        """Wait up to `within` seconds and return a batch of results; those of expired runs are dropped."""
        finished = [self._drained.popleft() for _ in range(min(len(self._drained), self._batch))]
        try:
            if not finished:
                finished.append(self._finished.get(timeout=within))
            while len(finished) < min(self.busy, self._batch):
                finished.append(self._finished.get(timeout=_GATHER_SECONDS))
        except queue.Empty:
            pass
        results = [result for result in finished if result.job.run not in self._expired]
        for result in finished:
            self._expired.discard(result.job.run)
            self._running.pop(result.job.run, None)
        return results

    def expire(self) -> list[Job]:
        """Cancel the runs that are past their ttr and return their jobs. Handlers see it in `context.cancelled`.

        A run that has ended is not late, even if its result has not been fetched yet.
        """
        while not self._finished.empty():
            self._drained.append(self._finished.get())
        ended = {result.job.run for result in self._drained}
        runs = [(job, context) for job, context in self._running.values() if job.run not in ended]
        late = [(job, context) for job, context in runs if context.remaining() <= 0]
        for job, context in late:
            context.cancelled.set()
            del self._running[job.run]
            self._expired.add(job.run)
        return [job for job, _ in late]

    def seconds_to_ttr(self) -> float | None:
        """Return the seconds until the next run is past its ttr; None if no run is in progress."""
        deadlines = [context.deadline for _, context in self._running.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def close(self) -> None:
        """Wait for every thread to end: after the response, the platform may freeze one in the middle of its work."""
        for _ in self._threads:
            self._wakeups.put(False)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        # No executor: for short runs, its futures cost more than everything else.
        while self._wakeups.get():
            with contextlib.suppress(IndexError):  # another thread took the run
                while True:
                    run = self._waiting.popleft()
                    self._wake_one()
                    self._finished.put(self._run(*run))

    def _wake_one(self) -> None:
        """Wake one thread if runs wait; it wakes the next. Waking all at once costs more than short runs take."""
        if self._waiting and self._wakeups.empty():
            self._wakeups.put(True)
