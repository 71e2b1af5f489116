"""How long to wait, and what a failure becomes: the tables of the contract."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.errors import (
    Declined,
    DuplicatePersonalCode,
    Interrupted,
    LeaseLost,
    PermanentError,
    TransientError,
    TtrExceeded,
    UnknownOutcome,
)
from lib.job import Error, Retry
from lib.jobs.failure_policy import describe
from lib.jobs.retry_policy import MAX_ATTEMPTS, RetryPolicy, max_attempts
from tests.support.cases import CASES
from tests.support.decisions import a_job, decided

BACKOFF = CASES["backoff"]


def delays(policy: RetryPolicy, attempts: int) -> list[float]:
    return [policy.delay(n, random.Random(n)) for n in range(1, attempts + 1)]


# Delays


@pytest.mark.parametrize(
    ("policy", "table"),
    [
        (RetryPolicy(), BACKOFF["default"]),
        (RetryPolicy(max_attempts=4, delays=(30, 60, 120)), BACKOFF["webhook"]),
        (RetryPolicy(max_attempts=4, base=1, cap=300), BACKOFF["http_call"]),
    ],
    ids=["default", "webhook", "http_call"],
)
def test_the_delay_after_attempt_n_is_that_of_the_table(policy: RetryPolicy, table: dict[str, Any]) -> None:
    assert delays(policy, len(table["delays_by_attempt"])) == table["delays_by_attempt"]


def test_attempt_2000_waits_no_longer_than_the_cap() -> None:
    assert RetryPolicy().delay(2000, random.Random(1)) == BACKOFF["default"]["attempt_2000"]


@settings(deadline=None)
@given(attempt=st.integers(1, 3000), seed=st.integers())
def test_jitter_only_adds(attempt: int, seed: int) -> None:
    table = BACKOFF["email_payment_report"]
    policy = RetryPolicy(base=table["base"], cap=table["cap"], jitter=table["jitter"])
    plain = (table["floor_by_attempt"][attempt - 1 : attempt] or [table["cap"]])[0]
    assert plain <= policy.delay(attempt, random.Random(seed)) <= plain * 1.3


@settings(deadline=None)
@given(st.floats(0.001, 86_400), st.floats(0.001, 86_400), st.floats(0, 1), st.integers(1, 10_000), st.integers())
def test_no_delay_is_longer_than_its_cap_and_jitter(
    base: float, cap: float, jitter: float, attempt: int, seed: int
) -> None:
    delay = RetryPolicy(base=base, cap=cap, jitter=jitter).delay(attempt, random.Random(seed))
    assert 0 < delay <= cap * (1 + jitter)


def test_the_last_of_a_list_of_delays_repeats() -> None:
    assert delays(RetryPolicy(delays=(1, 2)), 4) == [1, 2, 2, 2]


def test_a_jobs_own_delays_go_before_its_stages() -> None:
    outcome = decided(TransientError(), attempts=2, retry_delays=(7.0, 8.0))
    assert outcome == Retry(delay=8, error="text")


@pytest.mark.parametrize(
    ("wish", "delay"),
    [
        (None, 5),
        (0, 5),
        (-1, 5),
        (4.9, 5),
        (6, 6),
        (24 * 3600, 24 * 3600),
        (24 * 3600 + 1, 24 * 3600),
        (1e12, 24 * 3600),
    ],
)
def test_the_other_sides_wish_is_a_floor_of_at_most_a_day(wish: float | None, delay: float) -> None:
    outcome = decided(TransientError(retry_after=wish))
    hold = min(wish, 24 * 3600) if wish and wish > 0 else None
    assert outcome == Retry(delay=delay, error="text", hold=hold)


# What a failure becomes


@pytest.mark.parametrize("name", ["default", "email", "payment", "report", "webhook", "http_call"])
def test_a_transient_failure_is_retried_while_attempts_are_left(name: str) -> None:
    most = CASES["max_attempts"][name]
    policy = RetryPolicy(max_attempts=most)
    outcomes = [decided(TransientError(), policy=policy, attempts=n) for n in range(1, most + 2)]
    assert [type(outcome) for outcome in outcomes] == [Retry] * (most - 1) + [Error] * 2


def test_the_story_of_a_code_that_is_taken_for_ever() -> None:
    story = CASES["duplicate_code_story"]
    for step in story["after_failure"]:
        outcome = decided(DuplicatePersonalCode("taken"), attempts=step["attempt"])
        if step["status"] == "queued":
            assert outcome == Retry(delay=step["delay"], error="text", counts=False)
        else:
            assert outcome == Error(error="text", revive=step["revives_after_hours"] * 3600, counts=False)


@pytest.mark.parametrize("failure", [PermanentError("x"), Declined("x"), UnknownOutcome("x")])
def test_a_permanent_failure_is_never_retried_nor_revived_nor_counted(failure: PermanentError) -> None:
    assert decided(failure) == Error(error="text", revive=None, counts=False)


@pytest.mark.parametrize(
    ("failure", "counts"),
    [
        (TransientError(), True),
        (TtrExceeded(), True),
        (ValueError(), True),
        (SystemExit(), True),
        (Interrupted(), False),
        (DuplicatePersonalCode(), False),
        (LeaseLost(), False),
        (PermanentError(), False),
    ],
)
@pytest.mark.parametrize("attempts", [1, 5])
def test_what_counts_for_the_circuit(failure: BaseException, counts: bool, attempts: int) -> None:
    assert decided(failure, attempts=attempts).counts == counts


def test_an_interrupted_job_runs_out_of_attempts_too() -> None:
    assert isinstance(decided(Interrupted(), attempts=4), Retry)
    assert decided(Interrupted(), attempts=5) == Error(error="text", revive=24 * 3600, counts=False)
    assert isinstance(decided(Interrupted(), attempts=2, max_attempts=2), Error)


@pytest.mark.parametrize("failure", [TransientError(), Interrupted(), ValueError(), TransientError(retry_after=1)])
def test_at_most_once_is_one_attempt_without_retry_or_revival(failure: BaseException) -> None:
    outcome = decided(failure, semantics="at_most_once", max_attempts=9)
    assert isinstance(outcome, Error)
    assert outcome.revive is None


@pytest.mark.parametrize(
    ("own", "policys", "most"),
    [(None, 5, 5), (7, 5, 7), (2, 5, 2), (None, 99, 25), (99, 5, 25), (25, 5, 25)],
)
def test_nobody_tries_more_often_than_twenty_five_times(own: int | None, policys: int, most: int) -> None:
    assert max_attempts(a_job(max_attempts=own), RetryPolicy(max_attempts=policys)) == most
    assert isinstance(decided(TransientError(), max_attempts=own, attempts=MAX_ATTEMPTS), Error)


@pytest.mark.parametrize("hours", [*CASES["revival_hours"]["examples"], CASES["revival_hours"]["off"]])
def test_an_exhausted_job_revives_after_so_many_hours_and_never_with_none(hours: int) -> None:
    outcome = decided(TransientError(), attempts=5, revive_hours=hours)
    assert outcome == Error(error="text", revive=hours * 3600 or None, counts=True)


@pytest.mark.parametrize(("revivals", "revives"), [(0, True), (2, True), (3, False), (4, False)])
def test_a_job_revives_at_most_three_times(revivals: int, revives: bool) -> None:
    outcome = decided(TransientError(), attempts=5, revivals=revivals)
    assert isinstance(outcome, Error)
    assert (outcome.revive is not None) == revives


# What a handler decides itself


def test_a_handler_may_retry_beyond_its_stages_attempts_but_not_beyond_twenty_five() -> None:
    assert decided(Retry(delay=1, error="x"), attempts=24) == Retry(delay=1, error="text")
    assert decided(Retry(delay=1, error="x"), attempts=25) == Error(error="text", revive=24 * 3600, counts=True)


def test_a_handler_cannot_retry_or_revive_what_runs_at_most_once() -> None:
    once = {"semantics": "at_most_once"}
    assert decided(Retry(delay=1, error="x"), **once) == Error(error="text", revive=None, counts=True)
    assert decided(Error(error="x", revive=60), **once) == Error(error="text", revive=None)


def test_a_handler_cannot_revive_more_often_than_the_rules_allow() -> None:
    assert decided(Error(error="x", revive=60), revivals=2) == Error(error="text", revive=60)
    assert decided(Error(error="x", revive=60), revivals=3) == Error(error="text", revive=None)


# Words


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (UnknownOutcome("charge"), "Outcome unknown: charge"),
        (KeyError("a"), "KeyError: 'a'"),
    ],
)
def test_a_failure_is_type_and_message(failure: Exception, words: str) -> None:
    assert describe(failure) == words


def test_a_failure_without_a_readable_message_has_its_type_at_least() -> None:
    unspeakable = type("Unspeakable", (Exception,), {"__str__": lambda self: 1 / 0})
    assert describe(unspeakable()) == "Unspeakable: it has no readable message"
