"""The policies that the stages and the vendors' answers have, as the tables of the contract say."""

import random

import httpx
import pytest

from lib import stages
from lib.config.load import load
from lib.config.settings import Settings
from lib.errors import PermanentError, TransientError, is_permanent_status
from lib.jobs.clients import raise_for_status
from lib.jobs.retry_policy import RetryPolicy
from tests.support.cases import CASES


@pytest.mark.parametrize("kind", ["permanent", "transient", "success"])
def test_an_http_status_is_what_the_table_says(kind: str) -> None:
    for status in CASES["http_status"][kind]:
        assert is_permanent_status(status) == (kind == "permanent"), status
        response = httpx.Response(status)
        if kind == "success":
            raise_for_status(response, who="vendor")
        else:
            with pytest.raises(PermanentError if kind == "permanent" else TransientError):
                raise_for_status(response, who="vendor")


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("7", 7),
        ("0", 0),
        ("9" * 400, float("inf")),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("٧", None),
        ("1.5", None),
    ],
)
def test_retry_after_is_heard_when_it_is_a_number_of_seconds(said: str, heard: float | None) -> None:
    with pytest.raises(TransientError) as caught:
        raise_for_status(httpx.Response(503, headers={"retry-after": said.encode()}), who="vendor")
    assert caught.value.retry_after == heard


@pytest.mark.parametrize("name", ["customer_ingest", "personal_code", "issue_card"])
def test_the_other_stages_follow_the_default_policy(name: str) -> None:
    assert stages.load().stages[name].failure_policy(Settings()).retry == RetryPolicy(max_attempts=5, base=5, cap=300)
    bent = Settings(giftcard_max_attempts=2, giftcard_backoff_base_seconds=1, giftcard_backoff_cap_seconds=3)
    assert stages.load().stages[name].failure_policy(bent).retry == RetryPolicy(max_attempts=2, base=1, cap=3)


@pytest.mark.parametrize("name", ["email", "payment", "report"])
def test_email_payment_and_report_have_policies_of_their_own(name: str) -> None:
    policy = stages.load().stages[name].failure_policy(Settings(giftcard_max_attempts=2)).retry
    assert policy == RetryPolicy(max_attempts=CASES["max_attempts"][name], base=1, cap=60, jitter=0.3)
    bent = Settings.model_validate({f"max_{name}_retry_attempts": 9})
    assert stages.load().stages[name].failure_policy(bent).retry.max_attempts == 9


def test_webhooks_have_the_delays_of_their_setting_and_as_many_retries() -> None:
    stage = stages.load().stages["webhook"]
    policy = stage.failure_policy(Settings()).retry
    assert (policy.max_attempts, policy.delays) == (CASES["max_attempts"]["webhook"], (30, 60, 120))
    assert stage.failure_policy(Settings(giftcard_webhook_retry_seconds=(1, 2))).retry.max_attempts == 3
    assert stage.effective(Settings(), "circuit_threshold") == CASES["circuit"]["thresholds"]["webhook"]


RULES = ("max_attempts", "base_seconds", "jitter", "ttr_seconds", "concurrency", "semantics")


def test_each_rule_in_force_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTCARD_STAGE_PAYMENT_BASE_SECONDS", "2")
    monkeypatch.setenv("MAX_PAYMENT_RETRY_ATTEMPTS", "7")
    monkeypatch.setenv("GIFTCARD_STAGE_PAYMENT_CONCURRENCY", "3")
    rules = stages.load().stages["payment"].effective_settings(load())
    assert {name: (rules[name].value, rules[name].source) for name in RULES} == {
        "max_attempts": (7, "MAX_PAYMENT_RETRY_ATTEMPTS"),
        "base_seconds": (2, "GIFTCARD_STAGE_PAYMENT_BASE_SECONDS"),
        "jitter": (0.3, "code"),
        "ttr_seconds": (60, "default"),
        "concurrency": (3, "GIFTCARD_STAGE_PAYMENT_CONCURRENCY"),
        "semantics": ("at_least_once", "default"),
    }


def test_rule_of_all_stages_is_named_as_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTCARD_MAX_ATTEMPTS", "9")
    rule = stages.load().stages["issue_card"].effective_settings(load())["max_attempts"]
    assert (rule.value, rule.source) == (9, "GIFTCARD_MAX_ATTEMPTS")


def test_http_calls_have_a_policy_and_a_threshold_of_their_own() -> None:
    stage = stages.load().stages["http_call"]
    assert stage.failure_policy(Settings()).retry == RetryPolicy(
        max_attempts=CASES["max_attempts"]["http_call"], base=1, cap=300
    )
    assert stage.effective(Settings(), "circuit_threshold") == CASES["circuit"]["thresholds"]["http_call"]
    delays = [stage.failure_policy(Settings()).retry.delay(attempt, random.Random()) for attempt in range(1, 12)]
    assert delays == CASES["backoff"]["http_call"]["delays_by_attempt"]
