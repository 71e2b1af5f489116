"""Inline mode (`GIFTCARD_INLINE`): a job runs inside its enqueue, in the caller's thread, where a debugger can step.

Claims, settles, effects and next jobs are real. There are no retries, no circuits and no due times: a job for tomorrow
runs now, and a breakpoint may hold for an hour. An exception of a handler is raised in the caller; its job becomes a
dead letter that is not revived. A job whose stage is parked or paused stays queued.
"""

import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import Interrupted, PermanentError, TransientError
from lib.job import Complete, Error, Job, NextJob, Outcome, Retry
from lib.jobs.failure_policy import describe
from lib.jobs.registry import Registry
from lib.store.codec import Result, Settled
from lib.store.store import Store
from lib.store.wire import Wire
from lib.telemetry.frames import Fault
from lib.telemetry.redact import clean
from lib.tick.runner import Runner
from lib.tick.settle_calls import settle_with_call

# A run may stay at a breakpoint this long before other ticks take it over.
_TTR_SECONDS = 3600


class InlineStore(Store):
    """A store that runs jobs, and all their next jobs, before the enqueue returns or raises."""

    def __init__(self, wire: Wire, registry: Callable[[], Registry], settings: Settings) -> None:
        super().__init__(wire)
        self._registry = registry
        self._settings = settings

    @classmethod
    def over(cls, store: Store, registry: Callable[[], Registry], settings: Settings) -> "InlineStore":
        """Return an inline store over the wire of another store."""
        return cls(store._wire, registry, settings)

    def enqueue(
        self, jobs: list[dict[str, Any]], *, replace: bool = False, caller: Caller | None = None
    ) -> list[dict[str, Any]]:
        """Enqueue and run jobs; `status` is that after the run. Raises the first failure; later jobs stay queued."""
        enqueued = super().enqueue(jobs, replace=replace, caller=caller)
        return [row | {"status": self._run(row["id"])} if row["status"] == "queued" else row for row in enqueued]

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """Store an order and run its whole flow."""
        order = super().submit_order(**arguments)
        if order["created"]:
            self._run(order["job_id"])
        return order

    def _run(self, job_id: int) -> str:
        """Run a job and its next jobs. Return the job's status."""
        if self._settings.giftcard_paused:
            return "queued"
        registry = self._registry()
        runner = Runner(registry, self._settings, random.Random())  # noqa: S311 - jitter
        step = self.begin_tick(
            key=str(uuid.uuid4()),
            owner=f"{socket.gethostname()}:{os.getpid()}",
            source="inline",
            stages=dict.fromkeys(registry.ready(self._settings), _TTR_SECONDS),
            limit=1,
            live_seconds=_TTR_SECONDS,
            only_job_id=job_id,
        )
        status = "queued"
        for job in map(runner.with_semantics, step.jobs):
            if job.interrupted:  # a killed run of another process, which each claim takes over
                self._settle(step.tick_id, runner, runner.failed(job, Interrupted("its process was ended")))
            else:
                status = self._run_claimed(step.tick_id, runner, job)
        return status

    def _run_claimed(self, tick_id: int, runner: Runner, job: Job) -> str:
        began = time.monotonic()
        following: tuple[NextJob, ...] = ()

        def settle(outcome: Outcome, fault: Fault | None = None) -> str:
            duration_ms = int((time.monotonic() - began) * 1000)
            result = Result(job=job, outcome=outcome, duration_ms=duration_ms, fault=fault)
            if not result.call:
                return self._settle(tick_id, runner, result)
            done = settle_with_call(result, result.call, context, tick_id=tick_id).settle
            return self._settled(runner, result, done.settled if done else None)

        context = runner.context(job, self)
        runner.log_starts([job])
        try:
            outcome = runner.outcome(job, context)
            if isinstance(outcome, Error):
                following = outcome.next
                raise PermanentError(outcome.error)
            if isinstance(outcome, Retry):
                raise TransientError(outcome.error)
            status = settle(outcome)
        except BaseException as failure:  # including KeyboardInterrupt in the debugger
            text = clean(describe(failure), secrets=self._settings.secrets())
            settle(Error(error=text, next=following), runner.fault(job, failure))
            raise
        if isinstance(outcome, Complete):
            self._run_next(job, outcome.next)
        return status

    def _run_next(self, job: Job, following: tuple[NextJob, ...]) -> None:
        """Run the next jobs. The settle has enqueued them; enqueueing them again finds them and changes nothing."""
        flow = {"tenant_id": job.tenant_id, "correlation_id": job.correlation_id}
        keys = [flow | {"stage": next_job.stage, "dedup_key": next_job.dedup_key} for next_job in following]
        for found in super().enqueue(keys) if keys else ():
            if found["status"] == "queued":
                self._run(found["id"])

    def _settle(self, tick_id: int, runner: Runner, result: Result) -> str:
        step = self.advance_tick(tick_id, claim_key=str(uuid.uuid4()), results=[result], limit=0, busy=0, stop="limit")
        return self._settled(runner, result, step.settled[0] if step.settled else None)

    @staticmethod
    def _settled(runner: Runner, result: Result, settled: Settled | None) -> str:
        runner.log_end(result, settled)
        return settled.status if settled else "gone"
