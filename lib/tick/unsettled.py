"""Results that are not stored yet: the database was away, or refused them."""

import time
from dataclasses import dataclass, replace

from lib.errors import TransientError
from lib.store.codec import Result, Settled
from lib.store.sqlstate import gives_ids_again
from lib.telemetry import events
from lib.tick.runner import Runner, faulty_result

# A result that is refused for a reason that may not be its own is sent so often, once a second, before it counts.
_TRIES = 4
_PAUSE_SECONDS = 1.0
# Someone else holds a row that the result needs: no reason to count it.
_LOCKED = "55P03"


@dataclass(slots=True)
class _Kept:
    """A result to send at `at`, until `give_up_at` (`time.monotonic()`). `failed`: the failure of a refused one."""

    result: Result
    at: float
    give_up_at: float
    tries: int = 0
    failed: bool = False


class Unsettled:
    """The results of a tick that wait for a further call."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._kept: list[_Kept] = []
        self._sent: dict[tuple[int, int], _Kept] = {}

    def __len__(self) -> int:
        """Return how many wait for a later call than the next."""
        return len(self._kept)

    def due_in(self) -> float | None:
        """Return the seconds until the next is to be sent; None: there is none."""
        return max(0.0, min(kept.at for kept in self._kept) - time.monotonic()) if self._kept else None

    def take(self, results: list[Result], *, now: float, give_up_at: float) -> list[Result]:
        """Return what the next call settles: these results and those kept that are due, one of each job.

        An operator's UPDATE may have started a running job again: the older run goes first. Those that have waited for
        too long are given up: their leases end, and their runs count as interrupted.
        """
        self._kept += [_Kept(result, now, give_up_at) for result in results]
        self._kept.sort(key=lambda kept: kept.result.job.run_no)
        self._sent = {}
        waiting = []
        jobs: set[int] = set()
        for kept in self._kept:
            job = kept.result.job
            if now > kept.give_up_at:
                events.emit("result_refused", job_id=job.id, error="it could not be stored in time")
            elif kept.at <= now and job.id not in jobs:
                jobs.add(job.id)
                self._sent[job.run] = kept
            else:
                waiting.append(kept)
        self._kept = waiting
        return [kept.result for kept in self._sent.values()]

    def put_back(self, batch: list[Result]) -> None:
        """Keep a batch whose call failed."""
        at = time.monotonic() + _PAUSE_SECONDS
        self._kept += [replace(self._sent[result.job.run], at=at) for result in batch]

    def refuse(self, result: Result, settled: Settled) -> None:
        """Keep a result that was refused, or what becomes of it.

        One whose data is wrong is a permanent failure; any other is sent again, and then counts as a transient one. If
        even the failure is refused, the job is put aside.
        """
        kept = self._sent[result.job.run]
        now = time.monotonic()
        state, error = settled.sqlstate or "", settled.error or ""
        is_data = state.startswith(("22", "23", "GC4")) and not gives_ids_again(state, error)
        kept.tries += settled.sqlstate != _LOCKED
        if settled.sqlstate == _LOCKED or (kept.tries < _TRIES and not is_data):
            self._kept.append(replace(kept, at=now + _PAUSE_SECONDS))
            return
        if kept.failed:
            if not result.last_resort:
                self._kept.append(replace(kept, result=replace(result, last_resort=True), at=now))
            return
        events.emit("result_refused", job_id=result.job.id, error=settled.error)
        text = f"its result cannot be stored: {settled.error}"
        failure = faulty_result(text) if is_data else TransientError(text)
        self._kept.append(replace(kept, result=self._runner.failed(result.job, failure), at=now, tries=0, failed=True))
