"""What a file declares with `@stage(...)` is checked when it is loaded: each argument, and the handler."""

import inspect
import math
from typing import Any

import pytest
from pydantic import BaseModel

from lib.config.rates import Rate
from lib.errors import StageError
from lib.job import Complete
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage


class Payload(BaseModel):
    pass


def handler(payload: Any, context: Any) -> Complete:
    return Complete()


async def waits(*_: Any) -> None: ...


def yields(*_: Any) -> Any:
    yield


def one(_: Any) -> None: ...


def three(a: Any, b: Any, c: Any) -> None: ...


NOT_FUNCTIONS = ["no", 1, waits, yields, three, Payload()]
WRONG: dict[str, list[Any]] = {
    "name": ["", "Points", "loyalty points", "loyalty-points", "1st", "a:b", "é", "a" * 64, None, 7, "a\n"],
    "payload": [None, dict, BaseModel, Payload(), "Payload", int],
    "settings": [Payload, {}, "LOYALTY", int],
    "policy": [{}, RetryPolicy, 3, "often"]
    + [RetryPolicy(max_attempts=number) for number in (0, -1, 26, True, 2.5, math.nan, "3", None)]  # type: ignore[arg-type]
    + [RetryPolicy(base=number) for number in (0, -1, math.nan, math.inf, 301, "5", None, True)]  # type: ignore[arg-type]
    + [RetryPolicy(cap=number) for number in (0, -1, math.nan, math.inf, 86_401, "5", None)]  # type: ignore[arg-type]
    + [RetryPolicy(jitter=number) for number in (-0.1, 1.1, math.nan, "0", None, True)]  # type: ignore[arg-type]
    + [RetryPolicy(delays=delays) for delays in ((), (-1,), (math.nan,), ("30",), "30,60", 30, (True,))],  # type: ignore[arg-type]
    "attempts_setting": ["", "no_such_setting", "MAX_EMAIL_RETRY_ATTEMPTS", "smtp_url", "giftcard_paused", 3],
    "delays_setting": ["", "no_such_setting", "report_recipients", "giftcard_max_attempts", (30, 60)],
    "ttr": [None, 0, -1, True, 2.5, math.nan, math.inf, "60", 3_601],
    "longest": [0, -1, True, 2.5, math.nan, "60", 3_601, 59],  # shorter than the ttr
    "semantics": [None, "", "exactly_once", "AT_MOST_ONCE", 1],
    "concurrency": [0, -1, True, 1.5, math.nan, "2", 10_001],
    "rate": ["10/s", 10, {"per_second": 10}, Rate]
    + [Rate(per_second=number) for number in (0, -1, math.nan, math.inf, 10_001, "5", None, True)]  # type: ignore[arg-type]
    + [Rate(per_second=1, burst=number) for number in (0, -1, 1.5, math.nan, 100_001, "5", True)],  # type: ignore[arg-type]
    "threshold": [-1, True, 1.5, math.nan, "3", 1_001],
    "needs": [None, *NOT_FUNCTIONS],
    "can_retry": [*NOT_FUNCTIONS, one],
    "circuit_of": NOT_FUNCTIONS,
    "concurrency_key_of": NOT_FUNCTIONS,
}


@pytest.mark.parametrize("argument", inspect.signature(stage).parameters)
def test_an_impossible_argument_is_refused_by_its_name(argument: str) -> None:
    for value in WRONG[argument]:
        given: dict[str, Any] = {"name": "points", "payload": Payload} | {argument: value}
        with pytest.raises(StageError) as refused:
            stage(**given)(handler)
        told = str(refused.value)
        assert told.startswith("stage "), value
        assert argument in told or argument == "name", (argument, value, told)


@pytest.mark.parametrize(
    "handler", [None, "no", waits, yields, one, three, Payload, lambda: None, lambda payload: None]
)
def test_a_handler_that_cannot_take_payload_and_context_is_refused(handler: Any) -> None:
    with pytest.raises(StageError, match=r"^stage points: the handler has to"):
        stage("points", payload=Payload)(handler)


def test_the_bounds_themselves_are_possible() -> None:
    for policy in (RetryPolicy(max_attempts=25, base=5, cap=5, jitter=1), RetryPolicy(max_attempts=1, delays=(0, 1.5))):
        made = stage("a", payload=Payload, policy=policy, ttr=3_600, longest=3_600, threshold=0, concurrency=1)(handler)
        assert made.where.startswith("tests/jobs/test_declared_stages.py:")
    stage("a" * 63, payload=Payload, attempts_setting="giftcard_max_attempts")(lambda payload, context: Complete())
    for rate in (Rate(per_second=10_000, burst=100_000), Rate(per_second=1, burst=1), Rate(per_second=0.01)):
        assert stage("a", payload=Payload, rate=rate)(handler).own["rate"] == rate
    stage("a_1", payload=Payload, delays_setting="giftcard_webhook_retry_seconds")(handler)
