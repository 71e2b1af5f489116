"""Rates as people write them."""

import pytest

from lib.config.rates import Rate
from lib.errors import SettingsError
from tests.support.world import settings_of

GOOD = {
    "10/s": (10, 10),
    "10/s burst 20": (10, 20),
    "600/min": (10, 10),
    "600 / MINUTE, burst 1": (10, 1),
    "5 per second": (5, 5),
    "5 per second  burst  7": (5, 7),
    "30/m": (0.5, 1),
    "90 per hour": (0.025, 1),
    "36000/h,burst 3": (10, 3),
    "2.5/sec": (2.5, 3),
    "0.5/s": (0.5, 1),
    "10000/s burst 100000": (10_000, 100_000),
}
WRONG = ["10", "10/s burst", "10/s burst 0", "10/s burst 100001", "10/s burst 1.5", "0/s", "10001/s", "ten per second",
         "10/fortnight", "10/s 20", "1/s/s", "10pers", "10/ms", "600001/min"]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_a_rate_is_read_in_each_of_its_forms(text: str) -> None:
    override = settings_of(GIFTCARD_STAGE_EMAIL_RATE=text).stage_overrides["email"].rate
    assert override is not None
    assert (override.as_json()["per_second"], override.as_json()["burst"]) == GOOD[text]


@pytest.mark.parametrize("text", GOOD)
def test_a_rate_reads_as_it_is_written(text: str) -> None:
    rate = settings_of(GIFTCARD_STAGE_EMAIL_RATE=text).stage_overrides["email"].rate
    again = settings_of(GIFTCARD_STAGE_EMAIL_RATE=str(rate)).stage_overrides["email"].rate
    assert again is not None
    assert again.as_json() == Rate(per_second=GOOD[text][0], burst=GOOD[text][1]).as_json()


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_rate_is_refused_with_examples(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(GIFTCARD_STAGE_EMAIL_RATE=text)
    assert str(refused.value) == (
        "GIFTCARD_STAGE_EMAIL_RATE: must be a rate like 10/s, 600/min, 5 per second or 10/s burst 20: above 0, to "
        "10000 a second, with a burst from 1 to 100000"
    )


def test_weights_of_tenants_are_bounded() -> None:
    assert settings_of(GIFTCARD_TENANT_WEIGHTS="acme=3,b=1").giftcard_tenant_weights == (("acme", 3), ("b", 1))
    assert settings_of().giftcard_tenant_weights == ()
    with pytest.raises(SettingsError, match="at most 100 tenants"):
        settings_of(GIFTCARD_TENANT_WEIGHTS=",".join(f"t{n}=2" for n in range(101)))
