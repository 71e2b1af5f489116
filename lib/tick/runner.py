"""One run of a job: the handler in its thread. Anything it raises becomes an outcome."""

import functools
import json
import random
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Job, NextJob, Outcome, Release, Retry, Snooze
from lib.jobs import hooks
from lib.jobs.context import Context
from lib.jobs.enqueue import prepare_unattended
from lib.jobs.failure_policy import FailurePolicy, decide, without_attributes
from lib.jobs.registry import Registry
from lib.jobs.retry_policy import max_attempts
from lib.jobs.shown import PAYLOAD_REFUSED
from lib.store.codec import Result, Settled
from lib.store.encode import encode_result
from lib.store.store import Store
from lib.telemetry import events, sentry
from lib.telemetry.frames import Fault, fault_of
from lib.telemetry.redact import clean
from lib.tick.storable import storable
from lib.validation import error_sentence, field_errors, same_json

_EVENTS = {
    Complete: "run_completed",
    Retry: "run_failed",
    Error: "run_dead_lettered",
    Snooze: "run_snoozed",
    Release: "run_released",
}

# Bytes of context, detail and next jobs as JSON: a larger one takes a call of the database longer than it may.
_LARGEST_RESULT = 4_000_000


class Runner:
    """Runs jobs and turns what they return or raise into results for the settle."""

    def __init__(self, registry: Registry, settings: Settings, rng: random.Random) -> None:
        self.tick_id = 0
        self._registry = registry
        self._settings = settings
        self._rng = rng
        # Read for each job; settings do not change while a tick runs.
        self._effective = functools.cache(lambda stage, name: registry.stages[stage].effective(settings, name))
        self._policy = functools.cache(lambda stage: registry.failure_policy(stage, settings))
        self._secrets = functools.cache(settings.secrets)

    def with_semantics(self, job: Job) -> Job:
        """Apply the stage's semantics to a claimed job: a stage that runs at most once makes each of its jobs so."""
        if job.stage not in self._registry.stages or self._effective(job.stage, "semantics") == job.semantics:
            return job
        return replace(job, semantics="at_most_once")

    def context(self, job: Job, store: Store, *, since: float | None = None) -> Context:
        """Return the context of a run, whose time began at `since` (`time.monotonic()`), by default now."""
        longest = self._effective(job.stage, "longest_seconds")
        model = self._registry.stages[job.stage].settings
        own = self._settings.of_stage(model) if model else None
        return Context.for_job(
            job, store=store, settings=self._settings, stage_settings=own, longest=longest, since=since
        )

    def log_starts(self, jobs: list[Job]) -> None:
        """Log that these runs are about to begin."""
        if jobs and events.is_enabled("run_started"):
            with events.batch():
                for job in jobs:
                    self._log("run_started", job)

    def run(self, job: Job, context: Context) -> Result:
        """Call the stage's handler. Never raises: whatever happens becomes an outcome.

        A run whose time is over before it begins is released: the process was frozen, or the claim's answer was late.
        """
        if context.remaining() <= 0:
            return Result(job=job, outcome=Release())
        began = time.monotonic()
        try:
            with sentry.processed(job):
                result = self._result(job, self.outcome(job, context), began=began)
            _check_storable(result)
            if result.call:
                from lib.tick.settle_calls import settle_with_call  # most stages have no call

                result = settle_with_call(result, result.call, context, tick_id=self.tick_id)
        except BaseException as failure:  # noqa: BLE001 - even of a handler that calls sys.exit(): its job must be settled
            result = self.failed(job, failure, began=began)
        return result

    def failed(self, job: Job, failure: BaseException, *, began: float | None = None) -> Result:
        """Return the result of a failure. `began`: when its handler did, by `time.monotonic()`; None: it never did."""
        policy = self._policy(job.stage)
        try:
            outcome = decide(failure, job, policy, rng=self._rng, again=hooks.ask_can_retry(policy, job, failure))
            stored = storable(self._after_error(outcome, failure, job), secrets=self._secrets)
        except BaseException:  # noqa: BLE001 - an exception may have any attributes, and raise when they are read
            stored = decide(without_attributes(failure), job, policy, rng=self._rng)
        return replace(self._result(job, stored, began=began), fault=self.fault(job, failure))

    def fault(self, job: Job, failure: BaseException) -> Fault | None:
        """Return where a run failed; None if the failure was expected."""
        stage = self._registry.stages.get(job.stage)
        return fault_of(failure, handler=stage.handler if stage else None, secrets=self._secrets())

    def log_end(self, result: Result, settled: Settled | None) -> None:
        """Log how a run ended, once it is settled. `settled` None: the job's row is gone."""
        job, outcome = result.job, result.outcome
        if settled is None or settled.settled in ("lease_lost", "skipped"):
            self._log("lease_lost", job, duration_ms=result.duration_ms, outcome=type(outcome).__name__.lower())
            return
        failed = isinstance(outcome, Retry | Error)
        self._log(
            _EVENTS[type(outcome)],
            job,
            duration_ms=result.duration_ms,
            error=getattr(outcome, "error", None),
            fault=result.fault,
            next_run_at=_text(settled.next_run_at),
            status=settled.status,
            **({"at": result.fault.at if result.fault else None} if failed else {}),
        )

    def outcome(self, job: Job, context: Context) -> Outcome:
        """Return the handler's outcome, within the failure policy. What the handler raises is raised."""
        stage = self._registry.stages[job.stage]
        try:
            payload = stage.payload.model_validate_json(job.payload_json)
        except ValidationError as error:
            raise PermanentError(f"{PAYLOAD_REFUSED}{error_sentence(field_errors(error, stage.payload))}") from None
        outcome = stage.handler(payload, context)
        if not isinstance(outcome, Complete | Retry | Error | Snooze):
            raise faulty_result(f"the handler returned {type(outcome).__name__}, not an outcome")
        if isinstance(outcome, Snooze) and job.semantics == "at_most_once":
            raise TransientError("a job that runs at most once cannot snooze")
        if isinstance(outcome, Retry | Error):
            error_text = clean(str(outcome.error), secrets=self._secrets())
            failure = TransientError(error_text) if isinstance(outcome, Retry) else PermanentError(error_text)
            outcome = self._after_error(decide(outcome, job, self._policy(job.stage), rng=self._rng), failure, job)
        outcome = storable(outcome, secrets=self._secrets)
        if not isinstance(outcome, Complete | Error) or not outcome.next:
            return outcome
        try:
            return replace(outcome, next=tuple(self._prepared(following, job) for following in outcome.next))
        except (TypeError, AttributeError, ValueError) as error:
            raise faulty_result(f"the next job that it returned is not a job: {error}") from None

    def _after_error(self, outcome: Retry | Error, failure: BaseException, job: Job) -> Retry | Error:
        policy: FailurePolicy = self._policy(job.stage)
        return hooks.apply_after_error(outcome, failure, job, policy, rng=self._rng)

    def _prepared(self, following: NextJob, job: Job) -> NextJob:
        """Prepare a next job like any other. The database copies flow, context and an unchanged payload to it."""
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
            "concurrency_key": following.concurrency_key,
        }
        prepared = prepare_unattended(row, self._registry, self._settings)
        unchanged = following.payload is None and same_json(prepared["payload"], row["payload"])
        payload = None if unchanged else prepared["payload"]
        names = ("circuit", "ttr_seconds", "delay_seconds", "semantics", "concurrency_key")
        changed = {name: prepared[name] for name in names}
        return replace(following, payload=payload, **changed)

    def _result(self, job: Job, outcome: Outcome, *, began: float | None) -> Result:
        """Return the result, with the threshold of its circuit if it counts towards opening it."""
        counts = isinstance(outcome, Retry | Error) and outcome.counts
        threshold = self._policy(job.stage).circuit_threshold if counts else 0
        duration_ms = None if began is None else int((time.monotonic() - began) * 1000)
        return Result(job=job, outcome=outcome, trips=threshold or None, duration_ms=duration_ms)

    def _log(
        self,
        event: str,
        job: Job,
        *,
        duration_ms: int | None = None,
        error: str | None = None,
        fault: Fault | None = None,
        next_run_at: str | None = None,
        **fields: object,
    ) -> None:
        """Log an event with the fields that all events of a run have."""
        if not events.is_enabled(event):
            return
        common = {
            "job_id": job.id,
            "correlation_id": job.correlation_id,
            "tenant_id": job.tenant_id,
            "stage": job.stage,
            "attempt": job.attempts,
            "max_attempts": max_attempts(job, self._policy(job.stage).retry),
            "run_no": job.run_no,
            "lock_owner": job.lock_owner,
            "started_at": _text(job.locked_at),
            "duration_ms": duration_ms,
            "error": error,
            "next_run_at": next_run_at,
        }
        events.log(event, common | fields, fault=fault)


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time else None


def faulty_result(message: str) -> PermanentError:
    """Return the failure of a run whose handler has returned what cannot be used."""
    failure = PermanentError(message)
    failure.of_result = True
    return failure


def _check_storable(result: Result) -> None:
    """Raise PermanentError for a result that is not JSON: it would fail the settle, and with it other jobs' results."""
    if result.outcome == Complete():
        return  # the most common outcome, always storable
    try:
        size = len(json.dumps(encode_result(result), allow_nan=False))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise faulty_result(f"its result cannot be stored: {error}") from None
    if size > _LARGEST_RESULT:
        raise faulty_result(f"its result has {size:,} bytes as JSON, and may have {_LARGEST_RESULT:,}")
