"""What a failure becomes at the edges: where no dead letter revives, at the last attempt, with any numbers of a row."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import Interrupted, PermanentError, TransientError
from lib.job import Error, Retry
from lib.jobs.retry_policy import MAX_ATTEMPTS, RetryPolicy
from tests.support.decisions import decided
from tests.support.world import World

# Each way in which a job can become a dead letter that revives.
REVIVING: list[tuple[BaseException | Retry | Error, dict[str, Any]]] = [
    (TransientError(), {"attempts": 5}),
    (Interrupted(), {"attempts": 5}),
    (Retry(delay=1, error="x"), {"attempts": MAX_ATTEMPTS}),
    (TransientError(), {"attempts": 5, "again": False}),
    (TransientError(), {"attempts": MAX_ATTEMPTS, "again": True}),
    (Error(error="x", revive=60), {}),
    (Error(error="x", revive=60), {"attempts": 5}),
]


@pytest.mark.parametrize(("failed", "fields"), REVIVING)
@pytest.mark.parametrize(
    ("setting", "revives"), [({}, True), ({"revive_hours": 0}, False), ({"max_revivals": 0}, False)]
)
def test_nothing_revives_where_a_setting_of_revivals_is_0(
    failed: BaseException | Retry | Error, fields: dict[str, Any], setting: dict[str, Any], revives: bool
) -> None:
    outcome = decided(failed, **fields, **setting)
    assert isinstance(outcome, Error)
    assert (outcome.revive is not None) == revives


def test_a_stage_that_stops_the_last_attempt_changes_nothing_and_an_earlier_one_ends_for_good() -> None:
    for attempts in (1, 4):
        stopped = decided(TransientError(), attempts=attempts, again=False)
        assert stopped == Error(error="text", revive=None, counts=True)
    for attempts in (5, 6):
        stopped = decided(TransientError(), attempts=attempts, again=False)
        assert stopped == decided(TransientError(), attempts=attempts)
    assert decided(PermanentError(), attempts=5, again=False) == Error(error="text", revive=None)
    assert decided(TransientError(), attempts=2, max_attempts=2, again=False) == Error(
        error="text", revive=24 * 3600, counts=True
    )


# Numbers at the bounds of their columns

COUNTS = st.one_of(st.sampled_from([0, 1, 24, 25, 26, 1_000, 999_999, 1_000_000]), st.integers(0, 1_000_000))


@settings(deadline=None)
@given(
    attempts=COUNTS,
    revivals=COUNTS,
    run_no=st.sampled_from([0, 1, 1_000_000_000]),
    most=st.one_of(st.none(), st.integers(1, 1_000)),
    delays=st.one_of(st.none(), st.lists(st.floats(0, 86_400), min_size=1, max_size=25).map(tuple)),
    base=st.floats(1e-9, 86_400),
    failed=st.sampled_from(
        [TransientError(retry_after=1e308), Interrupted(), PermanentError(), Retry(delay=7, error="x"), Error(error="")]
    ),
    again=st.sampled_from([None, True, False]),
)
def test_any_numbers_of_a_row_become_an_outcome_within_the_bounds(
    attempts: int,
    revivals: int,
    run_no: int,
    most: int | None,
    delays: tuple[float, ...] | None,
    base: float,
    failed: BaseException | Retry | Error,
    again: bool | None,
) -> None:
    job = {"attempts": attempts, "revivals": revivals, "run_no": run_no, "max_attempts": most, "retry_delays": delays}
    outcome = decided(failed, policy=RetryPolicy(base=base, cap=86_400, jitter=1), again=again, **job)
    if isinstance(outcome, Retry):
        assert attempts < MAX_ATTEMPTS
        assert 0 <= outcome.delay <= 2 * 86_400
    else:
        assert outcome.revive is None or revivals < 3


@pytest.mark.parametrize("policy", [RetryPolicy(), RetryPolicy(delays=(7, 30, 60))])
def test_the_delay_after_attempt_0_is_that_after_the_first(policy: RetryPolicy) -> None:
    assert policy.delay(0, random.Random(1)) == policy.delay(1, random.Random(1))


# In a tick


@pytest.mark.parametrize(
    ("setting", "revives"),
    [
        ({}, True),
        ({"GIFTCARD_FAILED_JOB_RETRY_HOURS": 0}, False),
        ({"GIFTCARD_MAX_REVIVALS": 0}, False),
    ],
)
def test_handlers_own_revival_is_within_the_settings(
    make_world: Callable[..., World], setting: dict[str, int], revives: bool
) -> None:
    world = make_world(handlers={"work": lambda payload, context: Error(error="closed", revive=60)}, **setting)
    assert world.settings.revives == revives
    (job_id,) = world.enqueue("work")
    world.tick()
    assert (world.job(job_id)["revive_at"] is not None) == revives
    world.move(3600)
    world.tick()
    assert world.job(job_id)["revivals"] == int(revives)
