"""A secret in any setting, however malformed, is in no error and no representation."""

import traceback

import pytest
from pydantic import SecretStr

from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides, variable
from lib.errors import SettingsError
from lib.telemetry.redact import clean
from tests.support.world import settings_of

pytestmark = pytest.mark.slow

PLANTED = "Sesame7Open9"
SCHEMES = {"database_url": "postgresql", "postgres_url": "postgres", "smtp_url": "smtp"}
RECIPIENTS = ("report_recipients", "giftcard_alert_recipients")
FORMS = (
    "{s}://kim:{p}@h.example.com/x",
    "{s}://kim:{p}@{p}@h.example.com/x",
    "{s}://kim:{p}/{p}@h.example.com/x",
    "{s}://kim:{p}?{p}@h.example.com/x",
    "{s}://kim:{p}#{p}@h.example.com/x",
    "{s}://kim:%{p}@h.example.com/x",
    "{s}://kim:%ff{p}@h.example.com/x",
    "{s}://kim:%00{p}@h.example.com/x",
    "{s}://kim:a:{p}:b@h.example.com/x",
    "{s}://kim:a {p}@h.example.com/x",
    '{s}://kim:"{p}"@h.example.com/x',
    "{s}://kim:[{p}]@h.example.com/x",
    "{s}://kim:{p}\n{p}@h.example.com/x",
    "{s}://kim:ü{p}@h.example.com/x",
    "{s}://{p}@h.example.com/x",
    "{s}://kim:{p}",
    "{s}://kim:{p}@",
    "{s}://kim:{p}@h.example.com:{p}/x",
    "{s}://kim:{p}@h.example.com:99999/x",
    "{s}://kim:{p}@[::1/x",
    "{s}://kim:{p}@[{p}]/x",
    "{s}://kim:{p}@h.example.com/x?{p}",
    "{s}://kim:{p}@h.example.com/x?{p}={p}",
    "{s}://h.example.com/x?password={p}",
    "{s}:/kim:{p}@h.example.com/x",
    "kim:{p}@h.example.com/x",
    "ftp://kim:{p}@h.example.com/x",
    "host=h.example.com user=kim password={p}",
    "{s}://kim:{p}@h.example.com/" + "x" * 2_048,
    "{s}://kim:" + "x" * 2_048 + "{p}@h.example.com/",
    "{p}",
    '"{p}',
    "{p}\n{p}",
    "{p}@",
    "a@b.example,{p}@c.example;{p}",
)


def planted(field: str, form: str) -> str:
    return form.format(s=SCHEMES.get(field, "https"), p=PLANTED)


def loaded(field: str, form: str) -> Settings | SettingsError:
    try:
        return settings_of(**{"GIFTCARD_ENV": "production", field.upper(): planted(field, form)})
    except SettingsError as error:
        return error


def check_error(error: SettingsError, field: str) -> None:
    assert PLANTED not in "".join(traceback.format_exception(error))
    assert str(error).startswith(f"{field.upper()}: ")
    assert error.__context__ is None, "the error of pydantic holds the value"


def check_settings(settings: Settings, field: str, form: str) -> None:
    value = getattr(settings, field)
    if field in RECIPIENTS:
        assert PLANTED not in f"{settings} {settings!r}"
    if isinstance(value, SecretStr):
        dumped = f"{settings.model_dump()} {settings.model_dump_json()}"
        assert PLANTED not in f"{settings} {settings!r} {dumped} {value} {value!r}"
        given = planted(field, form)
        said = f"libpq: {given!r}, {given}, {value.get_secret_value()}: no"
        assert PLANTED not in clean(said, secrets=settings.secrets(), limit=10_000)


@pytest.mark.parametrize("field", Settings.model_fields)
def test_secret_in_a_setting_is_repeated_nowhere(field: str) -> None:
    for form in FORMS:
        found = loaded(field, form)
        if isinstance(found, SettingsError):
            check_error(found, field)
        else:
            check_settings(found, field, form)


def test_secret_in_an_override_of_a_stage_is_not_repeated() -> None:
    for name in StageOverrides.model_fields:
        for form in FORMS:
            with pytest.raises(SettingsError) as refused:
                settings_of(**{variable("email", name): planted("", form)})
            assert PLANTED not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("bound", ["HOSTS", "SOURCES"])
def test_secret_in_a_bound_of_another_is_not_repeated(bound: str) -> None:
    for form in FORMS:
        if (bound, form) == ("HOSTS", "{p}"):
            continue  # it has the form of a host
        with pytest.raises(SettingsError) as refused:
            settings_of(GIFTCARD_SECRET_A="a-key-of-8", **{f"GIFTCARD_SECRET_A_{bound}": planted("", form)})
        assert PLANTED not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("field", [*SCHEMES, "giftcard_payment_url", "giftcard_card_url", "giftcard_alert_url"])
def test_malformed_url_stops_the_start(field: str) -> None:
    assert sum(isinstance(loaded(field, form), SettingsError) for form in FORMS[1:]) >= 24
