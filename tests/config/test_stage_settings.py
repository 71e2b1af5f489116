"""The settings of a stage of one's own: from the environment, cleaned, covered, and without a value in any error."""

from typing import Any

import pytest
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from lib.config.settings import Settings
from lib.config.stage_settings import StageSettings
from lib.errors import SettingsError
from tests.support.world import settings_of

SECRET = "hunter2-hunter2"


class Loyalty(StageSettings):
    model_config = SettingsConfigDict(env_prefix="LOYALTY_")

    url: str
    key: SecretStr | None = None
    points: int = Field(default=1, ge=1)
    other: str = Field(default="", validation_alias="other_name")

    @field_validator("url")
    @classmethod
    def _check(cls, value: str) -> str:
        if value == "bad-value":
            raise ValueError(f"{value} is bad")
        if value == "worse-value":
            raise KeyError(value)
        return value

    @model_validator(mode="after")
    def _check_all(self) -> "Loyalty":
        if self.points == 7:
            raise ValueError(f"{self.url} has no 7 points")
        return self


class Plain(StageSettings):
    plain_url: str


def test_fields_are_read_from_variables_by_their_names() -> None:
    settings = settings_of(LOYALTY_URL=' "https://x" ', LOYALTY_POINTS="3", OTHER_NAME="o", PLAIN_URL="p")
    found = settings.of_stage(Loyalty)
    assert (found.url, found.points, found.other, found.key) == ("https://x", 3, "o", None)
    assert settings.of_stage(Loyalty) is found
    assert settings.of_stage(Plain).plain_url == "p"
    assert set(Loyalty.variables().values()) == {"LOYALTY_URL", "LOYALTY_KEY", "LOYALTY_POINTS", "OTHER_NAME"}


@pytest.mark.parametrize("url", [None, "", '""', "  "])
def test_a_missing_field_is_named_by_its_variable(url: str | None) -> None:
    with pytest.raises(SettingsError, match=r"^LOYALTY_URL$"):
        settings_of(LOYALTY_URL=url).of_stage(Loyalty)


@pytest.mark.parametrize(
    ("variables", "begins"),
    [
        ({"LOYALTY_URL": "u", "LOYALTY_POINTS": "many-points"}, "LOYALTY_POINTS: "),
        ({"LOYALTY_URL": "u", "LOYALTY_POINTS": "0"}, "LOYALTY_POINTS: "),
        ({"LOYALTY_URL": "bad-value"}, "LOYALTY_URL: is invalid"),
        (
            {"LOYALTY_URL": "worse-value"},
            "LOYALTY_KEY, LOYALTY_POINTS, LOYALTY_URL, OTHER_NAME cannot be read: KeyError",
        ),
        (
            {"LOYALTY_URL": "some-url", "LOYALTY_POINTS": "7"},
            "LOYALTY_KEY, LOYALTY_POINTS, LOYALTY_URL, OTHER_NAME: are",
        ),
    ],
)
def test_an_invalid_value_is_not_repeated(variables: dict[str, Any], begins: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(**variables).of_stage(Loyalty)
    assert str(refused.value).startswith(begins)
    assert refused.value.__context__ is None
    assert not any(len(value) > 1 and value in str(refused.value) for value in variables.values())


@pytest.mark.parametrize("url", [None, "https://x"])
def test_a_secret_is_covered_once_its_stage_is_loaded_also_if_the_settings_are_invalid(url: str | None) -> None:
    settings = settings_of(LOYALTY_URL=url, LOYALTY_KEY=SECRET)
    covered = settings.secrets()
    assert SECRET not in covered
    try:
        assert SECRET not in repr(settings.of_stage(Loyalty))
    except SettingsError:
        assert url is None
    assert SECRET in covered, "whatever holds the list, such as Sentry, knows it"
    assert settings.secrets() is covered
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("GIFTCARD_STAGES", "shop/stages", "item 1 must be the dotted name of a package"),
        ("GIFTCARD_STAGES", "shop.stages,.more", "item 2 must be the dotted name"),
        ("GIFTCARD_STAGES", "lib.stages", "item 1 must be a package of your own"),
        ("GIFTCARD_TEMPLATES", "no/such/folder", "must be a folder that exists"),
        ("GIFTCARD_TEMPLATES", "README.md", "must be a folder that exists"),
        ("GIFTCARD_ORDER_FLOW", "customer_ingest,payment", "must begin with customer_ingest and have each of"),
        ("GIFTCARD_ORDER_FLOW", "x,customer_ingest,personal_code,payment,issue_card,email", "must begin with"),
        ("GIFTCARD_ORDER_FLOW", "customer_ingest,payment,personal_code,issue_card,email", "must begin with"),
        ("GIFTCARD_ORDER_FLOW", "customer_ingest,personal_code,payment,issue_card,email,email", "must begin with"),
        ("GIFTCARD_ORDER_FLOW", "customer_ingest,a,personal_code,a,payment,issue_card,email", "step 4 is there twice"),
        (
            "GIFTCARD_ORDER_FLOW",
            "customer_ingest,A b,personal_code,payment,issue_card,email",
            "step 2 must be the name",
        ),
        ("GIFTCARD_ORDER_FLOW", ",", "must begin with"),
    ],
)
def test_what_a_project_adds_is_checked_at_the_start(name: str, value: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: {reason}"):
        settings_of(**{name: value})


def test_unset_means_the_product_alone() -> None:
    settings: Settings = settings_of(GIFTCARD_STAGES="", GIFTCARD_TEMPLATES="", GIFTCARD_ORDER_FLOW="")
    assert (settings.giftcard_stages, settings.giftcard_templates) == ((), None)
    assert settings.giftcard_order_flow == ("customer_ingest", "personal_code", "payment", "issue_card", "email")
