"""What becomes of a run that failed: an `after_error` hook decides, else the stage's `can_retry`, else its policy."""

import random
from dataclasses import dataclass, replace
from typing import Any

from lib import hooks
from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Job, Outcome, Release, Retry, Snooze
from lib.jobs.retry_policy import RetryPolicy, Rules, decide, describe, max_attempts, may_retry, within_rules
from lib.jobs.stage import Registry
from lib.telemetry.redact import clean

# What a run may keep of what it met: a few short facts, not a vendor's whole answer.
_LONGEST_FACT = 2_048
_MOST_FACTS = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decides by the rules in force, and puts failures into words that may be stored."""

    registry: Registry
    settings: Settings
    rng: random.Random

    def failed(self, job: Job, failure: BaseException) -> Retry | Error:
        """By its stage's rules, or by the default ones for a stage unknown here."""
        return self._heard(self._decided(job, failure, self._can_retry(job, failure)), job, failure)

    def ruled(self, outcome: Outcome, job: Job) -> Outcome:
        """What the handler decided by itself, in words that may be stored, within what nothing overrides."""
        if isinstance(outcome, Snooze):
            return replace(outcome, waiting_for=self.clean(str(outcome.waiting_for)), detail=self._kept(outcome.detail))
        if isinstance(outcome, Complete):
            return replace(outcome, detail=self._kept(outcome.detail)) if outcome.detail else outcome
        if isinstance(outcome, Release):
            return outcome
        text = self.clean(str(outcome.error))
        failure = TransientError(text) if isinstance(outcome, Retry) else PermanentError(text)
        bounded = within_rules(outcome, job, rules=self._rules(), text=text)
        return self._heard(replace(bounded, detail=self._kept(outcome.detail)), job, failure)

    def policy(self, name: str) -> RetryPolicy:
        """The policy in force for a stage."""
        stage = self.registry.stages.get(name)
        if stage is not None:
            return stage.policy_in(self.settings)
        of_all = self.settings
        return RetryPolicy(
            max_attempts=of_all.giftcard_max_attempts,
            base=of_all.giftcard_backoff_base_seconds,
            cap=of_all.giftcard_backoff_cap_seconds,
        )

    def threshold(self, name: str) -> int:
        """Failures in a row that open a stage's circuit; 0: none does."""
        stage = self.registry.stages.get(name)
        of_all = self.settings.giftcard_circuit_threshold
        return int(stage.rule_in(self.settings, "circuit_threshold")) if stage and of_all else of_all

    def clean(self, text: str) -> str:
        """As it may be stored."""
        return clean(text, secrets=self.settings.secrets())

    def _decided(self, job: Job, failure: BaseException, wish: bool | None) -> Retry | Error:
        text = self.clean(describe(failure))
        rules, policy = self._rules(), self.policy(job.stage)
        outcome = decide(failure, job, policy, rules=rules, text=text, rng=self.rng, wish=wish)
        return replace(outcome, detail=self._kept(outcome.detail))

    def _can_retry(self, job: Job, failure: BaseException) -> bool | None:
        stage = self.registry.stages.get(job.stage)
        asked = stage.can_retry if stage else None
        if asked is None:
            return None
        said = hooks.guarded(f"can_retry of {job.stage}", lambda: asked(job.attempts, failure), job_id=job.id)
        return said if isinstance(said, bool) else None

    def _heard(self, outcome: Retry | Error, job: Job, failure: BaseException) -> Retry | Error:
        """As the hooks leave it."""
        if not hooks.after_error.receivers:
            return outcome
        policy = self.policy(job.stage)
        told = hooks.heard(
            hooks.FailedRun(
                stage=job.stage,
                job_id=job.id,
                tenant_id=job.tenant_id,
                correlation_id=job.correlation_id,
                attempt=job.attempts,
                max_attempts=max_attempts(job, policy),
                error=failure,
                retry=isinstance(outcome, Retry),
                delay=outcome.delay if isinstance(outcome, Retry) else None,
            )
        )
        if not told.retry:
            return self._decided(job, failure, wish=False) if isinstance(outcome, Retry) else outcome
        if not may_retry(failure, job, policy):
            return outcome
        again = outcome if isinstance(outcome, Retry) else self._decided(job, failure, wish=True)
        return again if told.delay is None or isinstance(again, Error) else replace(again, delay=float(told.delay))

    def _kept(self, detail: Any) -> dict[str, Any] | None:
        """A few plain facts, none of them long or secret."""
        if not isinstance(detail, dict) or not detail:
            return None
        secrets = self.settings.secrets()
        facts = list(detail.items())[:_MOST_FACTS]
        plain = {
            str(name): value if isinstance(value, int | float | bool | None) else str(value) for name, value in facts
        }
        return {
            name: clean(value, secrets=secrets, limit=_LONGEST_FACT) if isinstance(value, str) else value
            for name, value in plain.items()
        }

    def _rules(self) -> Rules:
        hours, revivals = self.settings.giftcard_failed_job_retry_hours, self.settings.giftcard_max_revivals
        return Rules(revive_hours=hours, max_revivals=revivals)
