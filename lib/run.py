"""One run of a job: the handler in its thread, and the only broad `except` of the house."""

import json
import random
import time
from dataclasses import dataclass, replace

from pydantic import ValidationError

from lib import events
from lib.context import Context
from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Job, Outcome, Release, Retry, Snooze
from lib.policy import RetryPolicy, Rules, decide, describe, max_attempts, within_rules
from lib.redact import clean
from lib.settings import Settings
from lib.stages import Registry
from lib.store.shapes import Result, Settled, settle
from lib.validation import problems


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs and turns what comes of them into results for the settle."""

    registry: Registry
    settings: Settings
    rng: random.Random

    def run(self, job: Job, context: Context) -> Result:
        """Calls the stage's handler. Never raises: whatever happens becomes an outcome."""
        began = time.monotonic()
        try:
            result = self._result(job, self._outcome(job, context))
            _check_that_it_can_be_stored(result)
        except BaseException as failure:  # noqa: BLE001 - even of a handler that calls sys.exit(): its job must be settled
            result = self.failed(job, failure)
        return replace(result, duration_ms=int((time.monotonic() - began) * 1000))

    def failed(self, job: Job, failure: BaseException) -> Result:
        """The result of a failure: by the stage's policy, or by the default one for a stage unknown here."""
        text = self._clean(describe(failure))
        policy = self._policy(job.stage)
        return self._result(job, decide(failure, job, policy, rules=self._rules(), text=text, rng=self.rng))

    def begins(self, job: Job) -> None:
        """Tells that a run is about to begin."""
        self._tell("run_started", job)

    def ended(self, result: Result, settled: Settled | None) -> None:
        """Tells how a run ended, once its settle is known. `settled` None: the job's row is gone."""
        job, outcome = result.job, result.outcome
        if settled is None or settled.settled == "lease_lost":
            self._tell("lease_lost", job, duration_ms=result.duration_ms, outcome=type(outcome).__name__.lower())
            return
        event = {
            Complete: "run_completed",
            Retry: "run_failed",
            Error: "run_dead_lettered",
            Snooze: "run_snoozed",
            Release: "run_released",
        }[type(outcome)]
        next_run_at = settled.next_run_at.isoformat() if settled.next_run_at else None
        error = getattr(outcome, "error", None)
        self._tell(
            event, job, duration_ms=result.duration_ms, error=error, next_run_at=next_run_at, status=settled.status
        )

    def _outcome(self, job: Job, context: Context) -> Outcome:
        """What the handler says, if it can be stored."""
        stage = self.registry.stages[job.stage]
        try:
            payload = stage.payload.model_validate_json(job.payload_json)
        except ValidationError as error:
            field, words = problems(error)[0]
            raise PermanentError(f"payload: {field} {words}") from None
        outcome = stage.handler(payload, context)
        if not isinstance(outcome, Complete | Retry | Error | Snooze):
            raise PermanentError(f"the handler returned {type(outcome).__name__}, not an outcome")
        if isinstance(outcome, Snooze) and job.semantics == "at_most_once":
            raise TransientError("a job that runs at most once cannot snooze")
        return self._ruled(outcome, job)

    def _ruled(self, outcome: Outcome, job: Job) -> Outcome:
        """What the handler decided by itself, in words that may be stored, within what nothing overrides."""
        if isinstance(outcome, Snooze):
            return replace(outcome, waiting_for=self._clean(str(outcome.waiting_for)))
        if isinstance(outcome, Retry | Error):
            return within_rules(outcome, job, rules=self._rules(), text=self._clean(str(outcome.error)))
        return outcome

    def _result(self, job: Job, outcome: Outcome) -> Result:
        """With the threshold of its circuit, if it counts towards opening it."""
        stage = self.registry.stages.get(job.stage)
        own = stage.threshold if stage else None
        threshold = self.settings.giftcard_circuit_threshold if own is None else own
        counts = isinstance(outcome, Retry | Error) and outcome.counts
        return Result(job=job, outcome=outcome, trips=threshold if counts and threshold > 0 else None)

    def _policy(self, name: str) -> RetryPolicy:
        stage = self.registry.stages.get(name)
        return stage.policy_in(self.settings) if stage else _default(self.settings)

    def _rules(self) -> Rules:
        hours, revivals = self.settings.giftcard_failed_job_retry_hours, self.settings.giftcard_max_revivals
        return Rules(revive_hours=hours, max_revivals=revivals)

    def _clean(self, text: str) -> str:
        return clean(text, secrets=self.settings.secrets())

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
            max_attempts=max_attempts(job, self._policy(job.stage)),
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


def _default(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=settings.giftcard_max_attempts,
        base=settings.giftcard_backoff_base_seconds,
        cap=settings.giftcard_backoff_cap_seconds,
    )
