"""One run of a job: the handler in its thread, and the only broad `except` of the house."""

import json
import random
import time
from dataclasses import dataclass, replace

from pydantic import ValidationError

from lib import events
from lib.context import Context
from lib.errors import LeaseLost, PermanentError, TransientError
from lib.job import Complete, Error, Job, Outcome, Release, Retry, Snooze
from lib.policy import RetryPolicy, Rules, decide, describe, max_attempts
from lib.redact import clean
from lib.settings import Settings
from lib.stages import Registry
from lib.store.shapes import Result, Settled


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs and turns what comes of them into results for the settle."""

    registry: Registry
    settings: Settings
    rng: random.Random

    def run(self, job: Job, context: Context) -> Result:
        """Calls the stage's handler. Never raises: whatever happens becomes an outcome."""
        self._tell("run_started", job)
        began = time.monotonic()
        try:
            result = Result(job=job, outcome=self._outcome(job, context))
        except BaseException as failure:  # noqa: BLE001 - even of a handler that calls sys.exit(): its job must be settled
            result = self.failed(job, failure)
        return replace(result, duration_ms=int((time.monotonic() - began) * 1000))

    def failed(self, job: Job, failure: BaseException) -> Result:
        """The result of a failure: by the stage's policy, or by the default one for a stage unknown here."""
        stage = self.registry.stages.get(job.stage)
        policy = stage.policy_in(self.settings) if stage else _default(self.settings)
        rules = Rules(
            revive_hours=self.settings.giftcard_failed_job_retry_hours, max_revivals=self.settings.giftcard_max_revivals
        )
        text = clean(describe(failure), secrets=self.settings.secrets())
        outcome = decide(failure, job, policy, rules=rules, text=text, rng=self.rng)
        threshold = (
            stage.threshold if stage and stage.threshold is not None else self.settings.giftcard_circuit_threshold
        )
        trips = threshold if outcome.counts and threshold > 0 and not isinstance(failure, LeaseLost) else None
        return Result(job=job, outcome=outcome, trips=trips)

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
            payload = stage.payload.model_validate_json(json.dumps(job.payload))
        except ValidationError as error:
            raise PermanentError(f"payload: {_first(error)}") from None
        outcome = stage.handler(payload, context)
        if not isinstance(outcome, Complete | Retry | Error | Snooze):
            raise PermanentError(f"the handler returned {type(outcome).__name__}, not an outcome")
        if isinstance(outcome, Snooze) and job.semantics == "at_most_once":
            raise TransientError("a job that runs at most once cannot snooze")
        if isinstance(outcome, Complete):
            json.dumps([outcome.context, [following.payload for following in outcome.next]])
        return outcome

    def _tell(self, event: str, job: Job, *, duration_ms: int | None = None, **fields: object) -> None:
        stage = self.registry.stages.get(job.stage)
        policy = stage.policy_in(self.settings) if stage else _default(self.settings)
        events.emit(
            event,
            job_id=job.id,
            correlation_id=job.correlation_id,
            tenant_id=job.tenant_id,
            stage=job.stage,
            attempt=job.attempts,
            max_attempts=max_attempts(job, policy),
            run_no=job.run_no,
            lock_owner=job.lock_owner,
            duration_ms=duration_ms,
            **fields,
        )


def _default(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=settings.giftcard_max_attempts,
        base=settings.giftcard_backoff_base_seconds,
        cap=settings.giftcard_backoff_cap_seconds,
    )


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
