"""Tokens that are missing, short, equal or easy to guess."""

import secrets
from collections.abc import Callable

import pytest

from lib.monitoring.doctor.tokens import estimated_bits
from tests.monitoring.doctor.conftest import Examine
from tests.support.world import ADMIN, API, CRON, World

Make = Callable[..., World]


@pytest.mark.parametrize("name", ["CRON_SECRET", "GIFTCARD_ADMIN_TOKEN"])
@pytest.mark.parametrize("value", [None, "   ", "short", "ein-schöner-langer-schlüssel"])
def test_a_secret_that_opens_no_door_is_red(make_world: Make, examined: Examine, name: str, value: str | None) -> None:
    line = examined(make_world(**{name: value}))["secrets"]
    assert line["level"] == "red"
    assert name in line["message"]
    assert "schlüssel" not in line["message"]


def test_without_an_api_token_orders_need_the_admin_token(make_world: Make, examined: Examine) -> None:
    line = examined(make_world(GIFTCARD_API_TOKEN=None))["secrets"]
    assert (line["level"], line["message"]) == ("yellow", "GIFTCARD_API_TOKEN is not set: orders need the admin token")
    assert line["fix"].startswith("run make secrets, which adds what .env.production lacks; load that file here")


@pytest.mark.parametrize(("name", "value"), [("CRON_SECRET", API), ("GIFTCARD_LOOKUP_KEY", CRON * 2)])
def test_equal_secrets_are_red_and_not_shown(make_world: Make, examined: Examine, name: str, value: str) -> None:
    line = examined(make_world(**{name: value, "GIFTCARD_ADMIN_TOKEN": value}))["secrets"]
    assert line["level"] == "red"
    assert "are the same" in line["message"]
    assert value not in str(line)


@pytest.mark.parametrize(
    "name",
    ["CRON_SECRET", "GIFTCARD_ADMIN_TOKEN", "GIFTCARD_API_TOKEN", "GIFTCARD_METRICS_TOKEN"],
)
def test_any_token_below_24_characters_is_red(make_world: Make, examined: Examine, name: str) -> None:
    line = examined(make_world(**{name: secrets.token_hex(12)[1:]}))["secrets"]
    assert (line["level"], line["message"]) == ("red", f"{name} is shorter than 24 characters")
    assert line["fix"] == "replace each as docs/doctor.md#secrets describes, and deploy again"
    assert examined(make_world(**{name: secrets.token_hex(12)}))["secrets"]["level"] == "green"


WEAK = [
    "a" * 24,
    "changemechangemechangeme",
    "abcdefghijklmnopqrstuvwxyz",
    "0123456789012345678901234",
    "AbAbAbAbAbAbAbAbAbAbAbAbAb",
    "password-password-password1",
    "my-secret-token-for-production",
    "cron-secret-your-value-here!",
    "qwertyuiopasdfghjklzxcvbnm",
    "abcabcabcabcabcabcabcabcabc1",
]


@pytest.mark.parametrize("value", WEAK)
def test_a_token_that_is_easy_to_guess_is_red_and_not_shown(make_world: Make, examined: Examine, value: str) -> None:
    line = examined(make_world(GIFTCARD_METRICS_TOKEN=value))["secrets"]
    assert (line["level"], line["message"]) == ("red", "GIFTCARD_METRICS_TOKEN is easy to guess")


def test_an_encryption_key_that_is_easy_to_guess_is_red(make_world: Make, examined: Examine) -> None:
    keys = f"dGhpcyBpcyBub3QgYSBzZWNyZXQsIGJ1dCBhIGtleSE=,{'A' * 43}="
    line = examined(make_world(GIFTCARD_ENCRYPTION_KEYS=keys))["secrets"]
    assert (line["level"], line["message"]) == ("red", "key 2 of GIFTCARD_ENCRYPTION_KEYS is easy to guess")


def test_what_programs_generate_is_hard_to_guess() -> None:
    digits = lambda: str(secrets.randbelow(10**24)).zfill(24)  # noqa: E731
    for generate in (secrets.token_urlsafe, lambda: secrets.token_hex(12), lambda: secrets.token_urlsafe(18), digits):
        assert min(estimated_bits(generate()) for _ in range(300)) >= 36
    assert all(estimated_bits(value) < 30 for value in WEAK)


@pytest.mark.parametrize("other", ["GIFTCARD_PAYMENT_TOKEN", "GIFTCARD_CARD_TOKEN", "GIFTCARD_SECRET_SHOP"])
def test_a_token_that_a_vendor_knows_too_is_red(make_world: Make, examined: Examine, other: str) -> None:
    line = examined(make_world(**{other: ADMIN}))["secrets"]
    assert (line["level"], line["message"]) == ("red", f"GIFTCARD_ADMIN_TOKEN and {other} are the same")
    same = {"GIFTCARD_PAYMENT_TOKEN": "vendor", "GIFTCARD_CARD_TOKEN": "vendor"}
    assert examined(make_world(**same))["secrets"]["level"] == "green"
