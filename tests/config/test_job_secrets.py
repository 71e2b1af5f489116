"""Secrets that jobs name: where they come from, and where they may not be seen."""

import pytest

from lib.config import job_secrets
from lib.errors import SettingsError
from lib.telemetry.redact import clean
from tests.support.world import settings_of

KNOWN = {"KEY": 'a "quoted" key', "TOKEN_2": "{{secret:KEY}}"}


def test_secrets_are_read_from_their_variables() -> None:
    settings = settings_of(
        GIFTCARD_SECRET_KEY=" key-of-a-job\n", GIFTCARD_SECRET_B2_C="other-key", GIFTCARD_SECRET_NONE=""
    )
    found = {name: secret.value.get_secret_value() for name, secret in settings.job_secrets.items()}
    assert found == {"KEY": "key-of-a-job", "B2_C": "other-key"}
    assert settings.unknown == ()
    assert "key-of-a-job" not in repr(settings) + str(settings.job_secrets)


def test_variable_with_another_spelling_is_unknown() -> None:
    assert settings_of(GIFTCARD_SECRET_="a-key-of-8", GIFTCARD_SECRET_small="x" * 8).unknown == (
        "GIFTCARD_SECRET_", "GIFTCARD_SECRET_small",
    )  # fmt: skip


@pytest.mark.parametrize("value", ["1234567", "ab" * 2_049])
def test_secret_of_no_proper_length_stops_the_start_and_is_not_shown(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^GIFTCARD_SECRET_PIN: a secret must have 8 to 4096 characters$"):
        settings_of(GIFTCARD_SECRET_PIN=value)


def test_secret_is_covered_in_every_form() -> None:
    secret = 'k/"ü" & <x> 1+'
    covered = settings_of(GIFTCARD_SECRET_KEY=secret).secrets()
    for form in job_secrets.forms(secret):
        assert clean(f"said {form} again", secrets=covered) == "said [secret] again"
    assert len(job_secrets.forms(secret)) >= 6


def test_secrets_are_filled_in_once_and_as_they_fit() -> None:
    assert job_secrets.filled("x {{secret:KEY}} {{secret:TOKEN_2}} {{other}}", KNOWN.__getitem__) == (
        'x a "quoted" key {{secret:KEY}} {{other}}'
    )
    filled = job_secrets.filled('["{{secret:KEY}}"]', KNOWN.__getitem__, written=job_secrets.in_json)
    assert filled == '["a \\"quoted\\" key"]'


@pytest.mark.parametrize(
    "text",
    ["", "{{secret:A}}", "{{secret:A_1}}{{secret:B}}", "{{name}}", "{{secretary}}", "secret: {{x}}", "{secret:A}"],
)
def test_text_that_names_secrets_properly_or_none_passes(text: str) -> None:
    job_secrets.check(text)
    assert bool(job_secrets.names_in(text)) == ("{{secret:A" in text)


@pytest.mark.parametrize(
    "text",
    ["{{secret}}", "{{secret:}}", "{{secret:a}}", "{{ secret:A }}", "{{Secret:A}}", "{{secret:A", "{{secret:1A}}",
     "{{secret:A-B}}", "{{secret.A}}", "{{secret: A}}", "{{sec{{secret:A}}ret:B}} {{secret:é}}",
     f"{{{{secret:{'A' * 64}}}}}", "{{secret:A_HOSTS}}", "{{secret:A_SOURCES}}", "{{secret:HOSTS}}"],
)  # fmt: skip
def test_secret_named_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must refer to a secret like"):
        job_secrets.check(text)


@pytest.mark.parametrize(
    ("value", "networks"),
    [("10.0.0.0/8,::1", ["10.0.0.0/8", "::1/128"]), (" 127.0.0.1 , ", ["127.0.0.1/32"]), ("", []), (",", [])],
)
def test_allowed_networks_are_a_list(value: str, networks: list[str]) -> None:
    assert [
        str(network) for network in settings_of(GIFTCARD_ALLOWED_NETWORKS=value).giftcard_allowed_networks
    ] == networks


@pytest.mark.parametrize("value", ["10.0.0.1/8", "localhost", "10.0.0.0/33", "*", "10.0.0.0/8 ::1"])
def test_network_that_is_none_stops_the_start(value: str) -> None:
    with pytest.raises(SettingsError, match="GIFTCARD_ALLOWED_NETWORKS"):
        settings_of(GIFTCARD_ALLOWED_NETWORKS=value)
