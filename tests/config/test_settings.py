"""Every setting comes from the environment; a wrong one is told by name, with what is allowed."""

import pytest

from lib.config.load import load
from lib.config.settings import RENAMED, Settings
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


def test_with_nothing_set_everything_has_the_contracts_value() -> None:
    settings = load()
    assert (settings.giftcard_jobs_per_cron_run, settings.giftcard_concurrency) == (10, 5)
    assert (settings.giftcard_tick_budget_seconds, settings.giftcard_tick_linger) == (50, True)
    assert (settings.giftcard_max_attempts, settings.giftcard_backoff_base_seconds) == (5, 5)
    assert settings.giftcard_backoff_cap_seconds == 300
    assert (settings.max_email_retry_attempts, settings.max_payment_retry_attempts) == (5, 5)
    assert (settings.max_report_retry_attempts, settings.giftcard_webhook_retry_seconds) == (3, (30, 60, 120))
    assert (settings.giftcard_failed_job_retry_hours, settings.giftcard_max_revivals) == (24, 3)
    assert (settings.giftcard_circuit_threshold, settings.giftcard_circuit_cooldown_seconds) == (3, 60)
    assert settings.giftcard_vendor_key_hours == 20
    assert (settings.square_merchant_id, settings.square_location_id) == (None, ())
    assert settings.square_reference_prefix == "gc:"
    assert not settings.giftcard_paused
    assert not settings.giftcard_allow_preview
    assert settings.stage_overrides == {}


WRONG = [
    ("GIFTCARD_ENV", "prod", "must be production, preview, development or test"),
    ("GIFTCARD_JOBS_PER_CRON_RUN", "0", "a whole number from 1 to 100000, like 10"),
    ("GIFTCARD_JOBS_PER_CRON_RUN", "ten", "a whole number from 1 to 100000, like 10"),
    ("GIFTCARD_JOBS_PER_CRON_RUN", "1.5", "a whole number from 1 to 100000, like 10"),
    ("GIFTCARD_CONCURRENCY", "0", "a whole number from 1 to 100, like 5"),
    ("GIFTCARD_CONCURRENCY", "101", "a whole number from 1 to 100, like 5"),
    ("GIFTCARD_TICK_BUDGET_SECONDS", "0", "a number above 0 and up to 780, like 50"),
    ("GIFTCARD_TICK_BUDGET_SECONDS", "-1", "a number above 0 and up to 780, like 50"),
    ("GIFTCARD_TICK_BUDGET_SECONDS", "nan", "a number above 0 and up to 780, like 50"),
    ("GIFTCARD_TICK_BUDGET_SECONDS", "inf", "a number above 0 and up to 780, like 50"),
    ("GIFTCARD_TICK_LINGER", "maybe", "must be 1 or 0"),
    ("GIFTCARD_PAUSED", "2", "must be 1 or 0"),
    ("GIFTCARD_ALLOW_PREVIEW", "sure", "must be 1 or 0"),
    ("GIFTCARD_MAX_ATTEMPTS", "0", "a whole number from 1 to 25, like 5"),
    ("GIFTCARD_MAX_ATTEMPTS", "26", "a whole number from 1 to 25, like 5"),
    ("GIFTCARD_BACKOFF_BASE_SECONDS", "0", "a number above 0 and up to 86400, like 5"),
    ("GIFTCARD_BACKOFF_CAP_SECONDS", "x", "a number above 0 and up to 86400, like 300"),
    ("MAX_EMAIL_RETRY_ATTEMPTS", "-1", "a whole number from 1 to 25, like 5"),
    ("MAX_PAYMENT_RETRY_ATTEMPTS", "26", "a whole number from 1 to 25, like 5"),
    ("MAX_REPORT_RETRY_ATTEMPTS", "many", "a whole number from 1 to 25, like 3"),
    (
        "GIFTCARD_WEBHOOK_RETRY_SECONDS",
        "30,soon",
        "comma-separated numbers, each from 0 to 86400, like 30,60,120, and item 2 is none",
    ),
    (
        "GIFTCARD_WEBHOOK_RETRY_SECONDS",
        "30,-1",
        "comma-separated numbers, each from 0 to 86400, like 30,60,120, and item 2 is none",
    ),
    (
        "GIFTCARD_WEBHOOK_RETRY_SECONDS",
        "30,nan",
        "comma-separated numbers, each from 0 to 86400, like 30,60,120, and item 2 is none",
    ),
    ("GIFTCARD_FAILED_JOB_RETRY_HOURS", "-1", "a number from 0 to 8760, like 24"),
    ("GIFTCARD_MAX_REVIVALS", "-1", "a whole number from 0 to 1000, like 3"),
    ("GIFTCARD_CIRCUIT_THRESHOLD", "-1", "a whole number from 0 to 1000, like 3"),
    ("GIFTCARD_CIRCUIT_COOLDOWN_SECONDS", "0", "a number above 0 and up to 86400, like 60"),
    ("GIFTCARD_VENDOR_KEY_HOURS", "0", "a number above 0 and up to 8760, like 20"),
    ("GIFTCARD_PAYMENT_PROVIDER", "stripe", "must be ledger, http or square"),
    ("SQUARE_MERCHANT_ID", "6SSW 7HV", "an id as copied from Square"),
    ("SQUARE_LOCATION_ID", "S8GWD5R9QB376;L2", "an id as copied from Square"),
    ("SQUARE_REFERENCE_PREFIX", "gift card:", "1 to 20 printable ASCII characters without spaces, like gc:"),
    ("GIFTCARD_PGMQ_QUEUES", "email_queue", "like email_queue:email,payments_queue:payment"),
    ("GIFTCARD_PGMQ_QUEUES", "email queue:email", "like email_queue:email,payments_queue:payment"),
    ("GIFTCARD_PGMQ_QUEUES", "email_queue:E-Mail", "like email_queue:email,payments_queue:payment"),
    ("GIFTCARD_PGMQ_QUEUES", "a:email,b:email,a:payment", "names a queue twice"),
    ("GIFTCARD_LEAST_AMOUNTS", "500", "like USD:500,EUR:500"),
    ("GIFTCARD_LEAST_AMOUNTS", "usd:500", "like USD:500,EUR:500"),
    ("GIFTCARD_LEAST_AMOUNTS", "USD:5.00", "like USD:500,EUR:500"),
    ("GIFTCARD_LEAST_AMOUNTS", "USD:0", "like USD:500,EUR:500"),
    ("GIFTCARD_LEAST_AMOUNTS", "USD:500,USD:900", "names a currency twice"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_a_wrong_value_is_told_by_its_name_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    said = refused(monkeypatch, **{name: value})
    assert said.startswith(f"{name}: ")
    assert allowed in said
    assert "\n" not in said


@pytest.mark.parametrize("field", Settings.model_fields)
def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    monkeypatch.setenv(field.upper(), "")
    assert getattr(load(), field) == getattr(Settings(), field)


def test_variables_that_are_not_ours_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTCARDS", "x")
    monkeypatch.setenv("GIFTCARD_STAGE_EMAIL_COLOUR", "red")
    assert load().stage_overrides == {}


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("GIFTCARD_ENCRYPTION_KEY", True),
        ("GIFTCARD_STAGE_EMAIL_COLOUR", True),
        ("MAX_EMIAL_RETRY_ATTEMPTS", True),
        ("GIFTCARD_STAGE_EMAIL_MAX_ATTEMPTS", False),
        ("GIFTCARD_QUEUE_INLETS", True),
        ("GIFTCARD_PAUSED", False),
        ("GIFTCARD_URL", False),
        ("GIFTCARDS_THEME", False),
        ("MAX_MEMORY", False),
    ],
)
def test_a_name_that_looks_like_ours_and_is_not_is_kept_for_the_doctor(
    monkeypatch: pytest.MonkeyPatch, name: str, unknown: bool
) -> None:
    monkeypatch.setenv(name, "1")
    assert load().unknown == ((name,) if unknown else ())


def test_a_former_name_is_no_setting_and_leads_to_one() -> None:
    for former, name in RENAMED.items():
        assert former.lower() not in Settings.model_fields
        assert name.lower() in Settings.model_fields


def test_the_rules_of_stages_are_no_variable_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGE_RULES", '{"email": {"max_attempts": 1}}')
    monkeypatch.setenv("UNKNOWN", '["x"]')
    assert (load().stage_overrides, load().unknown) == ({}, ())


# Secrets

SECRETS = (
    "CRON_SECRET", "GIFTCARD_ADMIN_TOKEN", "GIFTCARD_API_TOKEN", "SUPABASE_SECRET_KEY",
    "SUPABASE_SERVICE_ROLE_KEY", "GIFTCARD_PAYMENT_TOKEN", "GIFTCARD_CARD_TOKEN",
    "GIFTCARD_ENCRYPTION_KEYS", "GIFTCARD_LOOKUP_KEY", "SQUARE_WEBHOOK_SIGNATURE_KEY",
)  # fmt: skip
# In the form of each kind: 32 bytes in base64, 32 characters, a key of Supabase.
SESAME = {
    "GIFTCARD_ENCRYPTION_KEYS": "sesame-open".ljust(43, "A") + "=",
    "GIFTCARD_LOOKUP_KEY": "sesame-open".ljust(32, "-"),
    "SUPABASE_SECRET_KEY": "sb_secret_sesame-open",
    "SUPABASE_SERVICE_ROLE_KEY": "eyJzZXNhbWU.sesame-open.signature",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_never_printed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    secret = SESAME.get(name, "sesame-open")
    monkeypatch.setenv(name, secret)
    settings = load()
    assert "sesame" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert secret in settings.secrets()


@pytest.mark.parametrize("name", SECRETS)
def test_a_wrong_setting_does_not_print_the_secrets_beside_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert "sesame" not in refused(monkeypatch, **{name: SESAME.get(name, "sesame-open"), "GIFTCARD_CONCURRENCY": "0"})


@pytest.mark.parametrize("name", ["GIFTCARD_PAYMENT_URL", "GIFTCARD_CARD_URL"])
def test_a_vendors_address_may_hold_a_password_and_is_not_printed_either(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "https://kate:sesame-open@vendor.example")
    assert "sesame" not in repr(load())


def test_each_of_several_keys_is_a_secret_and_short_ones_are_too_common_to_hide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = "A" * 43 + "=", "B" * 43 + "="
    monkeypatch.setenv("GIFTCARD_ENCRYPTION_KEYS", f" {first}, {second},,{first}")
    monkeypatch.setenv("CRON_SECRET", "abc")
    secrets = load().secrets()
    assert {first, second} <= set(secrets)
    assert "abc" not in secrets
    assert secrets == sorted(secrets, key=len, reverse=True)


# Which environment


@pytest.mark.parametrize(
    ("ours", "vercels", "environment", "careful"),
    [
        (None, None, "production", True),
        (None, "production", "production", True),
        (None, "preview", "preview", True),
        (None, "development", "development", False),
        (None, "staging", "production", True),
        ("test", "production", "test", False),
        ("production", "development", "production", True),
        ("development", None, "development", False),
    ],
)
def test_the_environment_is_ours_then_vercels_then_production(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, vercels: str | None, environment: str, careful: bool
) -> None:
    for name, value in (("GIFTCARD_ENV", ours), ("VERCEL_ENV", vercels)):
        if value is not None:
            monkeypatch.setenv(name, value)
    settings = load()
    assert (settings.environment, settings.is_production) == (environment, careful)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().giftcard_paused = True  # type: ignore[misc]
