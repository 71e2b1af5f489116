"""Pure decisions: how long to wait, and what a failure becomes. No clock, no database, no randomness of its own."""

import random
from dataclasses import dataclass, replace

from lib.errors import DuplicatePersonalCode, Interrupted, LeaseLost, PermanentError, TransientError, UnknownOutcome
from lib.job import Error, Job, Retry

# Nobody, by whatever setting, tries one job more often than this in one round.
MAX_ATTEMPTS = 25
# The longest wish of another side (Retry-After) that is followed.
LONGEST_RETRY_AFTER = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Attempts in all, and the delay in seconds after each: `base` × 2^(n−1), at most `cap`, plus up to `jitter` of it.

    `delays`, where given, are the delays after attempt 1, 2, …; the last one repeats.
    """

    max_attempts: int = 5
    base: float = 5
    cap: float = 300
    jitter: float = 0
    delays: tuple[float, ...] | None = None

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Seconds to wait after attempt `attempt` has failed; lies in [d, (1 + jitter) × d]."""
        if self.delays:
            plain = self.delays[min(attempt, len(self.delays)) - 1]
        else:
            # 2**64 is beyond any cap; a larger exponent only overflows.
            plain = min(self.base * 2.0 ** min(attempt - 1, 64), self.cap)
        return plain * (1 + self.jitter * rng.random())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides about a failed job besides its stage's retry policy."""

    revive_hours: float
    max_revivals: int


def max_attempts(job: Job, policy: RetryPolicy) -> int:
    """Attempts in all for this job: its own number, else its policy's; never more than 25."""
    if job.semantics == "at_most_once":
        return 1
    return min(job.max_attempts or policy.max_attempts, MAX_ATTEMPTS)


def decide(
    failure: BaseException,
    job: Job,
    policy: RetryPolicy,
    *,
    rules: Rules,
    text: str,
    rng: random.Random,
    wish: bool | None = None,
) -> Retry | Error:
    """What a failure of this attempt becomes; `text` is the failure as it may be stored.

    Permanent failures end the job and it does not revive. Transient ones are retried while attempts are left; after
    the last the job becomes a dead letter that revives, at most `rules.max_revivals` times; at_most_once never does.
    `wish`: what the stage's `can_retry` says, above the policy: True, once more; False, never again, nor revived.
    """
    permanent = isinstance(failure, PermanentError)
    counts = not permanent and not isinstance(failure, Interrupted | DuplicatePersonalCode | LeaseLost)
    counts = counts and getattr(failure, "counts", True)
    detail = getattr(failure, "detail", None)
    retry = not permanent and job.attempts < max_attempts(job, policy) if wish is None else wish
    if retry and may_retry(failure, job, policy):
        own = RetryPolicy(delays=job.retry_delays) if job.retry_delays else policy
        delay = own.delay(job.attempts, rng)
        if isinstance(failure, TransientError) and failure.retry_after is not None:
            delay = max(delay, min(failure.retry_after, LONGEST_RETRY_AFTER))
        return Retry(delay=delay, error=text, counts=counts, detail=detail)
    revives = not permanent and wish is not False and rules.revive_hours > 0 and _may_revive(job, rules)
    return Error(error=text, revive=rules.revive_hours * 3600 if revives else None, counts=counts, detail=detail)


def may_retry(failure: BaseException, job: Job, policy: RetryPolicy) -> bool:
    """What nothing overrides: at_most_once, 25 attempts in all, and `max_attempts` after an interruption."""
    if job.semantics == "at_most_once" or job.attempts >= MAX_ATTEMPTS:
        return False
    return not isinstance(failure, Interrupted) or job.attempts < max_attempts(job, policy)


def within_rules(outcome: Retry | Error, job: Job, *, rules: Rules, text: str) -> Retry | Error:
    """What a handler decided itself, within at_most_once, 25 attempts and the number of revivals."""
    if isinstance(outcome, Error):
        return replace(outcome, error=text, revive=outcome.revive if _may_revive(job, rules) else None)
    if job.semantics == "at_least_once" and job.attempts < MAX_ATTEMPTS:
        return replace(outcome, error=text)
    revives = rules.revive_hours > 0 and _may_revive(job, rules)
    return Error(error=text, revive=rules.revive_hours * 3600 if revives else None, counts=outcome.counts)


def _may_revive(job: Job, rules: Rules) -> bool:
    return job.semantics == "at_least_once" and job.revivals < rules.max_revivals


def describe(failure: BaseException) -> str:
    """Type and message, as `last_error` holds them before they are cleaned."""
    name = "Outcome unknown" if isinstance(failure, UnknownOutcome) else type(failure).__name__
    try:
        said = str(failure)
    except Exception:  # noqa: BLE001 - an exception that cannot be put into words must not take its tick along
        said = "it cannot be put into words"
    return f"{name}: {said}" if said else name
