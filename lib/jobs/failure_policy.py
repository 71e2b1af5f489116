"""The outcome of a failed run: one pure decision, for exceptions and for outcomes that a handler returns itself."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lib.errors import (
    DuplicatePersonalCode,
    Interrupted,
    LeaseLost,
    Misconfigured,
    PermanentError,
    TransientError,
    Unavailable,
    UnknownOutcome,
)
from lib.job import LONGEST_RETRY_AFTER, Error, Job, Retry
from lib.jobs.retry_policy import MAX_ATTEMPTS, RetryPolicy, max_attempts

# Called after each failure with the attempt that failed and the exception. True: retry; False: do not, and without
# revival while attempts are left; None: the policy decides.
CanRetry = Callable[[int, BaseException], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """Everything that decides about failed runs of a stage, resolved from the code and the settings.

    `revive_hours`: after how long a dead letter revives (0: never), at most `max_revivals` times (0: never).
    `circuit_threshold`: failures in a row that open the circuit (0: none does).
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    revive_hours: float = 24
    max_revivals: int = 3
    circuit_threshold: int = 3
    can_retry: CanRetry | None = None

    @property
    def revives(self) -> bool:
        """Whether any dead letter revives. With hours or revivals of 0 none does, even if its handler asks for it."""
        return self.revive_hours > 0 and self.max_revivals > 0


def decide(
    failed: BaseException | Retry | Error,
    job: Job,
    policy: FailurePolicy,
    *,
    rng: random.Random,
    again: bool | None = None,
) -> Retry | Error:
    """Return the outcome of a run that raised, or returned, `failed`. The error's text is not cleaned yet.

    A permanent failure ends the job, and it does not revive. A transient one is retried while attempts are left; after
    the last the job is a dead letter that revives. An outcome of the handler's own stands. `again` overrides both: True
    retries once more; False never again, and a job that had attempts left does not revive. Nothing overrides what
    `may_retry` refuses, nor settings that let no dead letter revive.
    """
    permanent = isinstance(failed, PermanentError | Error)
    attempts_left = job.attempts < max_attempts(job, policy.retry)
    retry = again
    if retry is None:
        retry = isinstance(failed, Retry) or (not permanent and attempts_left)
    if retry and may_retry(failed, job, policy.retry):
        return failed if isinstance(failed, Retry) else _retry(failed, job, policy.retry, rng)
    may_revive = policy.revives and job.semantics == "at_least_once" and job.revivals < policy.max_revivals
    if isinstance(failed, Error):
        return replace(failed, revive=failed.revive if may_revive else None)
    # False at the last attempt changes nothing: the job has run out of attempts.
    stopped_early = again is False and attempts_left
    revives = may_revive and not permanent and not stopped_early
    return Error(
        error=describe(failed),
        revive=policy.revive_hours * 3600 if revives else None,
        counts=_counts(failed),
        hold=_hold(failed),
        detail=getattr(failed, "detail", None),
    )


def may_retry(failed: BaseException | Retry | Error, job: Job, policy: RetryPolicy) -> bool:
    """Return whether a retry is possible at all: not for at_most_once, nor after 25 attempts, nor past `max_attempts`
    when the run was interrupted."""
    if job.semantics == "at_most_once" or job.attempts >= MAX_ATTEMPTS:
        return False
    return not isinstance(failed, Interrupted) or job.attempts < max_attempts(job, policy)


def _retry(failed: BaseException | Error, job: Job, policy: RetryPolicy, rng: random.Random) -> Retry:
    own = RetryPolicy(delays=job.retry_delays) if job.retry_delays else policy
    hold = _hold(failed)
    return Retry(
        delay=max(own.delay(job.attempts, rng), hold or 0),
        error=describe(failed),
        counts=_counts(failed),
        hold=hold,
        detail=getattr(failed, "detail", None),
    )


def _hold(failed: BaseException | Retry | Error) -> float | None:
    """Return the Retry-After that a failure carries, as far as it is followed."""
    if isinstance(failed, Retry | Error):
        return failed.hold
    asked = failed.retry_after if isinstance(failed, TransientError) else None
    return min(asked, LONGEST_RETRY_AFTER) if asked is not None and asked > 0 else None


def _counts(failed: BaseException | Retry | Error) -> bool:
    """Return whether a failure counts towards opening the circuit: not if our own database failed."""
    if isinstance(failed, PermanentError | Interrupted | DuplicatePersonalCode | LeaseLost):
        return False
    if isinstance(failed, Unavailable | Misconfigured):
        return False
    return bool(getattr(failed, "counts", True))


def describe(failed: BaseException | Retry | Error) -> str:
    """Return the error as `last_error` holds it before it is cleaned: type and message, or the outcome's own text."""
    if isinstance(failed, Retry | Error):
        return str(failed.error)
    name = "Outcome unknown" if isinstance(failed, UnknownOutcome) else type(failed).__name__
    try:
        message = str(failed)
    except BaseException:  # noqa: BLE001 - an exception without a usable message must not fail its tick
        message = "it has no readable message"
    return f"{name}: {message}" if message else name


def without_attributes(failure: BaseException) -> PermanentError | TransientError:
    """Return a failure of the same kind in place of an exception whose message or attributes cannot be used."""
    kind = PermanentError if issubclass(type(failure), PermanentError) else TransientError
    return kind(f"{type(failure).__name__[:100]}: it has a message or an attribute that cannot be read")
