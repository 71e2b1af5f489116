"""The threads that handlers run in: a bounded number of places."""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from lib.job import Job
from lib.jobs.context import Context
from lib.store.codec import Result

# After the first handler has ended, its neighbours get this long (seconds) to be settled in the same call.
_GATHER = 0.003
# So many results are worth a call. With more places than that, half of them are: the other half works during the call.
_WORTH_A_CALL = 10


class Places:
    """`run` must not raise. A run past its ttr is given up, but its place counts as taken until its thread ends."""

    def __init__(self, count: int, *, run: Callable[[Job, Context], Result]) -> None:
        self._count = count
        self._run = run
        self._enough = max(_WORTH_A_CALL, count // 2)
        self._threads: list[threading.Thread] = []
        self._begun: deque[tuple[Job, Context]] = deque()
        self._bells: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._running: dict[tuple[int, int], tuple[Job, Context]] = {}
        self._given_up: set[tuple[int, int]] = set()
        self._finished: queue.SimpleQueue[Result] = queue.SimpleQueue()

    @property
    def busy(self) -> int:
        """Threads that have not ended."""
        return len(self._running) + len(self._given_up)

    @property
    def free(self) -> int:
        """Runs that may begin now."""
        return self._count - self.busy

    def start(self, job: Job, context: Context) -> None:
        """Begins a run at once: never ask for more places than are free."""
        self._running[job.run] = (job, context)
        self._begun.append((job, context))
        if len(self._threads) < self.busy:
            self._threads.append(threading.Thread(target=self._work, name=f"stage-{len(self._threads)}"))
            self._threads[-1].start()
        self._ring()

    def ended(self, *, within: float) -> list[Result]:
        """The results of runs that end `within` seconds; what a run given up returns is dropped."""
        ended = []
        try:
            ended.append(self._finished.get(timeout=within))
            while len(ended) < min(self.busy, self._enough):
                ended.append(self._finished.get(timeout=_GATHER))
        except queue.Empty:
            pass
        kept = [result for result in ended if result.job.run not in self._given_up]
        for result in ended:
            self._given_up.discard(result.job.run)
            self._running.pop(result.job.run, None)
        return kept

    def give_up(self) -> list[Job]:
        """The runs that are past their ttr now; their handlers learn it by `context.cancelled`."""
        late = [(job, context) for job, context in self._running.values() if context.remaining() <= 0]
        for job, context in late:
            context.cancelled.set()
            del self._running[job.run]
            self._given_up.add(job.run)
        return [job for job, _ in late]

    def seconds_to_ttr(self) -> float | None:
        """Until the next run is past its ttr; None: none runs."""
        deadlines = [context.deadline for _, context in self._running.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def close(self) -> None:
        """Waits for the last thread: an answer before it would let the platform freeze it in the middle of its work."""
        for _ in self._threads:
            self._bells.put(False)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        # No executor: its futures cost more than all else that a run which does nothing takes.
        while self._bells.get():
            with contextlib.suppress(IndexError):  # another thread was quicker
                while True:
                    run = self._begun.popleft()
                    self._ring()
                    self._finished.put(self._run(*run))

    def _ring(self) -> None:
        """Wakes one thread if runs wait, and that one wakes the next: waking all costs more than short runs take."""
        if self._begun and self._bells.empty():
            self._bells.put(True)
