"""Each stage may have settings of its own, `GIFTCARD_STAGE_<NAME>_*`."""

import pytest

from lib.config.load import load
from lib.config.settings import Settings
from lib.errors import SettingsError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def refused(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load()
    return str(caught.value)


def test_each_stage_may_have_rules_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("EMAIL_MAX_ATTEMPTS", "7"),
        ("EMAIL_BASE_SECONDS", "0.5"),
        ("EMAIL_CAP_SECONDS", "9"),
        ("EMAIL_JITTER", "0"),
        ("HTTP_CALL_DELAYS", "30, 60,120"),
        ("HTTP_CALL_TTR_SECONDS", "120"),
    ):
        monkeypatch.setenv(f"GIFTCARD_STAGE_{name}", value)
    overrides = load().stage_overrides
    assert set(overrides) == {"email", "http_call"}
    email, call = overrides["email"], overrides["http_call"]
    assert (email.max_attempts, email.base_seconds, email.cap_seconds, email.jitter) == (7, 0.5, 9, 0)
    assert (email.delays, email.ttr_seconds, call.max_attempts) == (None, None, None)
    assert (call.delays, call.ttr_seconds) == ((30, 60, 120), 120)


@pytest.mark.parametrize(
    ("rule", "value", "allowed"),
    [
        ("MAX_ATTEMPTS", "0", "a whole number from 1 to 25, like 5"),
        ("MAX_ATTEMPTS", "26", "a whole number from 1 to 25, like 5"),
        ("BASE_SECONDS", "0", "a number above 0 and up to 86400, like 5"),
        ("CAP_SECONDS", "-1", "a number above 0 and up to 86400, like 5"),
        ("JITTER", "1.1", "a number from 0 to 1, like 1"),
        ("JITTER", "nan", "a number from 0 to 1, like 1"),
        ("TTR_SECONDS", "0", "a whole number from 1 to 3600, like 5"),
        ("TTR_SECONDS", "-60", "a whole number from 1 to 3600, like 5"),
        ("TTR_SECONDS", "null", "is a placeholder: put in the real value"),
        ("DELAYS", "30,soon", "each from 0 to 86400, like 30,60,120, and item 2 is none"),
        ("DELAYS", "-1", "each from 0 to 86400, like 30,60,120, and item 1 is none"),
    ],
)
def test_a_wrong_rule_of_a_stage_is_told_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, rule: str, value: str, allowed: str
) -> None:
    said = refused(monkeypatch, **{f"GIFTCARD_STAGE_HTTP_CALL_{rule}": value})
    assert said.startswith(f"GIFTCARD_STAGE_HTTP_CALL_{rule}: ")
    assert allowed in said
    assert "\n" not in said
