"""Claimed jobs of pure tests, and what a failure of theirs becomes."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lib.job import Error, Job, Retry
from lib.jobs.failure_policy import FailurePolicy, decide, describe
from lib.jobs.retry_policy import RetryPolicy

NOON = datetime(2035, 1, 1, 12, tzinfo=UTC)
PLAIN = RetryPolicy()


def a_job(**fields: Any) -> Job:
    usual: dict[str, Any] = {
        "id": 1, "tenant_id": "default", "correlation_id": "order-7", "stage": "email", "dedup_key": "",
        "circuit": "email", "payload_json": "{}", "context_json": "{}", "attempts": 1, "max_attempts": None,
        "run_no": 1, "revivals": 0, "semantics": "at_least_once", "ttr": 60, "retry_delays": None,
        "scheduled_at": NOON, "locked_at": NOON, "lock_owner": "w", "lease_id": "l", "interrupted": False,
    }  # fmt: skip
    return Job(**(usual | fields))


def decided(
    failed: BaseException | Retry | Error,
    *,
    policy: RetryPolicy = PLAIN,
    revive_hours: float = 24,
    max_revivals: int = 3,
    again: bool | None = None,
    **fields: Any,
) -> Retry | Error:
    """The outcome, with the text of every error replaced by `text`."""
    rules = FailurePolicy(retry=policy, revive_hours=revive_hours, max_revivals=max_revivals)
    outcome = decide(failed, a_job(**fields), rules, rng=random.Random(1), again=again)
    assert outcome.error == describe(failed)
    return replace(outcome, error="text")
