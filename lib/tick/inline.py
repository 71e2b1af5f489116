"""`GIFTCARD_INLINE`: a job runs inside its enqueue, in the caller's thread, where a debugger can follow it.

Claim, settle, effects and what follows are the real ones. There is no retry and no circuit, and time does not matter: a
job for tomorrow runs now, and a breakpoint may be held for an hour. What a handler raises goes to whoever enqueued; its
job is then a dead letter that does not revive. A job whose stage is parked or paused stays queued.
"""

import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any

from lib.config.settings import Settings
from lib.errors import Interrupted, PermanentError, TransientError
from lib.job import Complete, Error, Job, NextJob, Outcome, Retry
from lib.jobs.failure_policy import describe
from lib.jobs.stage import Registry
from lib.store.codec import Result
from lib.store.store import Store
from lib.store.wire import Wire
from lib.telemetry.redact import clean
from lib.tick.runner import Runner

# Seconds that a run may be looked at before other ticks take it for killed.
_PATIENCE = 3600


class SyncStore(Store):
    """A store whose enqueues return, or raise, when their jobs and all that follows of them have ended."""

    def __init__(self, wire: Wire, registry: Callable[[], Registry], settings: Settings) -> None:
        super().__init__(wire)
        self._registry = registry
        self._settings = settings

    @classmethod
    def over(cls, store: Store, registry: Callable[[], Registry], settings: Settings) -> "SyncStore":
        """The same database in another temper."""
        return cls(store._wire, registry, settings)

    def enqueue(self, jobs: list[dict[str, Any]], *, replace: bool = False) -> list[dict[str, Any]]:
        """As ever, but `status` is what became of each. The first that fails raises; those behind it stay queued."""
        answers = super().enqueue(jobs, replace=replace)
        return [
            answer | {"status": self._run(answer["id"])} if answer["status"] == "queued" else answer
            for answer in answers
        ]

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """As ever, and the whole flow after it."""
        answer = super().submit_order(**arguments)
        if answer["created"]:
            self._run(answer["job_id"])
        return answer

    def _run(self, job_id: int) -> str:
        """One job, and what follows of it; the status that it has then."""
        if self._settings.giftcard_paused:
            return "queued"
        registry = self._registry()
        runner = Runner(registry, self._settings, random.Random())  # noqa: S311 - jitter
        step = self.begin_tick(
            key=str(uuid.uuid4()),
            owner=f"{socket.gethostname()}:{os.getpid()}",
            source="sync",
            stages=dict.fromkeys(registry.ready(self._settings), _PATIENCE),
            limit=1,
            live_seconds=_PATIENCE,
            only_job_id=job_id,
        )
        status = "queued"
        for job in map(runner.with_semantics, step.jobs):
            if job.interrupted:  # somebody else's, who was killed: whoever claims has to see to it
                self._settle(step.tick_id, runner, runner.failed(job, Interrupted("its process was ended")))
            else:
                status = self._to_its_end(step.tick_id, runner, job)
        return status

    def _to_its_end(self, tick_id: int, runner: Runner, job: Job) -> str:
        began = time.monotonic()
        following: tuple[NextJob, ...] = ()

        def settle(outcome: Outcome) -> str:
            took = int((time.monotonic() - began) * 1000)
            return self._settle(tick_id, runner, Result(job=job, outcome=outcome, duration_ms=took))

        runner.log_start(job)
        try:
            outcome = runner.outcome(job, runner.context(job, self))
            if isinstance(outcome, Error):
                following = outcome.next
                raise PermanentError(outcome.error)
            if isinstance(outcome, Retry):
                raise TransientError(outcome.error)
            status = settle(outcome)
        except BaseException as failure:  # also of a person who has seen enough and leaves the debugger
            settle(Error(error=clean(describe(failure), secrets=self._settings.secrets()), next=following))
            raise
        if isinstance(outcome, Complete):
            self._go_on(job, outcome.next)
        return status

    def _go_on(self, job: Job, following: tuple[NextJob, ...]) -> None:
        """Runs what the settle has enqueued. Enqueueing the same again finds it, and changes nothing."""
        flow = {"tenant_id": job.tenant_id, "correlation_id": job.correlation_id}
        places = [flow | {"stage": one.stage, "dedup_key": one.dedup_key} for one in following]
        for found in super().enqueue(places) if places else ():
            if found["status"] == "queued":
                self._run(found["id"])

    def _settle(self, tick_id: int, runner: Runner, result: Result) -> str:
        step = self.advance_tick(tick_id, claim_key=str(uuid.uuid4()), results=[result], limit=0, busy=0, stop="limit")
        settled = step.settled[0] if step.settled else None
        runner.log_end(result, settled)
        return settled.status if settled else "gone"
