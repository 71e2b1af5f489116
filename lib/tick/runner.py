"""One run of a job: the handler in its thread. Whatever it raises becomes an outcome."""

import functools
import json
import random
import time
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from lib import hooks
from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Job, NextJob, Outcome, Release, Retry, Snooze
from lib.jobs.context import Context
from lib.jobs.failure_policy import Verdict
from lib.jobs.retry_policy import max_attempts
from lib.jobs.stage import Registry
from lib.store.codec import Result, Settled, settle
from lib.store.store import Store
from lib.telemetry import events, sentry
from lib.validation import field_errors

_EVENTS = {
    Complete: "run_completed",
    Retry: "run_failed",
    Error: "run_dead_lettered",
    Snooze: "run_snoozed",
    Release: "run_released",
}


class Runner:
    """Runs jobs and turns what comes of them into results for the settle."""

    def __init__(self, registry: Registry, settings: Settings, rng: random.Random) -> None:
        self._registry = registry
        self._settings = settings
        self._verdict = Verdict(registry, settings, rng)
        # Asked for each job; settings do not change while a tick runs.
        self._rule = functools.cache(lambda stage, rule: registry.stages[stage].rule_in(settings, rule))

    def known(self, job: Job) -> Job:
        """The job with what its stage says of it: a stage that runs at most once makes each of its jobs so."""
        if job.stage not in self._registry.stages or self._rule(job.stage, "semantics") == job.semantics:
            return job
        return replace(job, semantics="at_most_once")

    def context(self, job: Job, store: Store) -> Context:
        """A run's surroundings; its clock starts now."""
        return Context.for_job(
            job, store=store, settings=self._settings, longest=self._rule(job.stage, "longest_seconds")
        )

    def begins(self, job: Job) -> None:
        """Tells that a run is about to begin."""
        self._tell("run_started", job)

    def run(self, job: Job, context: Context) -> Result:
        """Calls the stage's handler. Never raises: whatever happens becomes an outcome."""
        began = time.monotonic()
        try:
            with sentry.processed(job):
                result = self._result(job, self.outcome(job, context), began=began)
            _check_that_it_can_be_stored(result)
        except BaseException as failure:  # noqa: BLE001 - even of a handler that calls sys.exit(): its job must be settled
            result = self.failed(job, failure, began=began)
        return result

    def failed(self, job: Job, failure: BaseException, *, began: float | None = None) -> Result:
        """The result of a failure. `began`: when its handler did, as `time.monotonic()` counts; None: it never did."""
        return self._result(job, self._verdict.failed(job, failure), began=began)

    def ended(self, result: Result, settled: Settled | None) -> None:
        """Tells how a run ended, once its settle is known. `settled` None: the job's row is gone."""
        job, outcome = result.job, result.outcome
        if settled is None or settled.settled == "lease_lost":
            self._tell("lease_lost", job, duration_ms=result.duration_ms, outcome=type(outcome).__name__.lower())
            return
        self._tell(
            _EVENTS[type(outcome)],
            job,
            duration_ms=result.duration_ms,
            error=getattr(outcome, "error", None),
            next_run_at=settled.next_run_at.isoformat() if settled.next_run_at else None,
            status=settled.status,
        )

    def outcome(self, job: Job, context: Context) -> Outcome:
        """What the handler says, within the rules. What it raises is raised."""
        stage = self._registry.stages[job.stage]
        try:
            payload = stage.payload.model_validate_json(job.payload_json)
        except ValidationError as error:
            field, words = field_errors(error)[0]
            raise PermanentError(f"payload: {field} {words}") from None
        outcome = stage.handler(payload, context)
        if not isinstance(outcome, Complete | Retry | Error | Snooze):
            raise PermanentError(f"the handler returned {type(outcome).__name__}, not an outcome")
        if isinstance(outcome, Snooze) and job.semantics == "at_most_once":
            raise TransientError("a job that runs at most once cannot snooze")
        outcome = self._verdict.ruled(outcome, job)
        if not isinstance(outcome, Complete | Error) or not outcome.next:
            return outcome
        try:
            return replace(outcome, next=tuple(self._shaped(following, job) for following in outcome.next))
        except (TypeError, AttributeError, ValueError) as error:
            raise PermanentError(f"what it says comes next is no job: {error}") from None

    def _shaped(self, following: NextJob, job: Job) -> NextJob:
        """The next job with what its stage and the hooks say of it."""
        row: dict[str, Any] = {
            "stage": following.stage,
            "tenant_id": job.tenant_id,
            "correlation_id": job.correlation_id,
            "trigger_type": "flow",
            "circuit": following.circuit,
            "payload": job.payload if following.payload is None else following.payload,
            "ttr_seconds": following.ttr_seconds,
            "delay_seconds": following.delay_seconds,
            "semantics": following.semantics,
        }
        (shaped,) = hooks.drafted([self._registry.shaped(row, self._settings)])
        payload = None if following.payload is None and shaped["payload"] == row["payload"] else shaped["payload"]
        said = {name: shaped[name] for name in ("circuit", "ttr_seconds", "delay_seconds", "semantics")}
        return replace(following, payload=payload, **said)

    def _result(self, job: Job, outcome: Outcome, *, began: float | None) -> Result:
        """With the threshold of its circuit, if it counts towards opening it."""
        counts = isinstance(outcome, Retry | Error) and outcome.counts
        threshold = self._verdict.threshold(job.stage) if counts else 0
        duration_ms = None if began is None else int((time.monotonic() - began) * 1000)
        return Result(job=job, outcome=outcome, trips=threshold or None, duration_ms=duration_ms)

    def _tell(
        self,
        event: str,
        job: Job,
        *,
        duration_ms: int | None = None,
        error: str | None = None,
        next_run_at: str | None = None,
        **fields: object,
    ) -> None:
        """Every line of a run has the same fields."""
        if not events.heard(event):
            return
        events.emit(
            event,
            job_id=job.id,
            correlation_id=job.correlation_id,
            tenant_id=job.tenant_id,
            stage=job.stage,
            attempt=job.attempts,
            max_attempts=max_attempts(job, self._verdict.policy(job.stage)),
            run_no=job.run_no,
            lock_owner=job.lock_owner,
            duration_ms=duration_ms,
            error=error,
            next_run_at=next_run_at,
            **fields,
        )


def _check_that_it_can_be_stored(result: Result) -> None:
    """What is not JSON would fail in the tick itself, beside the results of other jobs."""
    if result.outcome == Complete():
        return  # nothing in it, and the commonest of all
    try:
        json.dumps(settle(result), allow_nan=False)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PermanentError(f"its result cannot be stored: {error}") from None
