"""The policies that the stages and the vendors' answers have, as the tables of the contract say."""

import json
from pathlib import Path

import httpx
import pytest

from lib import stages
from lib.clients import raise_for_status
from lib.errors import PermanentError, TransientError
from lib.policy import RetryPolicy, is_permanent_status
from lib.settings import Settings

CASES = json.loads(Path(__file__).parents[1].joinpath("cases.json").read_text(encoding="utf-8"))


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
    assert stages.load().stages[name].policy_in(Settings()) == RetryPolicy(max_attempts=5, base=5, cap=300)
    bent = Settings(giftcard_max_attempts=2, giftcard_backoff_base_seconds=1, giftcard_backoff_cap_seconds=3)
    assert stages.load().stages[name].policy_in(bent) == RetryPolicy(max_attempts=2, base=1, cap=3)


@pytest.mark.parametrize("name", ["email", "payment"])
def test_email_and_payment_have_policies_of_their_own(name: str) -> None:
    policy = stages.load().stages[name].policy_in(Settings(giftcard_max_attempts=2))
    assert policy == RetryPolicy(max_attempts=CASES["max_attempts"][name], base=1, cap=60, jitter=0.3)
    bent = Settings.model_validate({f"max_{name}_retry_attempts": 9})
    assert stages.load().stages[name].policy_in(bent).max_attempts == 9
