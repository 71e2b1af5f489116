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
        ("MAX_ATTEMPTS", "0", "greater than or equal to 1"),
        ("MAX_ATTEMPTS", "26", "less than or equal to 25"),
        ("BASE_SECONDS", "0", "greater than 0"),
        ("CAP_SECONDS", "-1", "greater than 0"),
        ("JITTER", "1.1", "less than or equal to 1"),
        ("JITTER", "nan", "less than or equal to 1"),
        ("TTR_SECONDS", "0", "greater than or equal to 1"),
        ("TTR_SECONDS", "-60", "greater than or equal to 1"),
        ("TTR_SECONDS", "null", "valid integer"),
        ("DELAYS", "30,soon", "valid number"),
        ("DELAYS", "-1", "greater than or equal to 0"),
    ],
)
def test_a_wrong_rule_of_a_stage_is_told_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, rule: str, value: str, allowed: str
) -> None:
    said = refused(monkeypatch, **{f"GIFTCARD_STAGE_HTTP_CALL_{rule}": value})
    assert said.startswith(f"GIFTCARD_STAGE_HTTP_CALL_{rule}: ")
    assert allowed in said
    assert "\n" not in said
