"""Variables that are misspelt, renamed, or set by half."""

from collections.abc import Callable

import pytest

from lib.config.settings import RENAMED
from tests.monitoring.doctor.conftest import Examine
from tests.support.world import World

Make = Callable[..., World]


@pytest.mark.parametrize(
    "name", ["GIFTCARD_STAGE_EMIAL_MAX_ATTEMPTS", "GIFTCARD_STAGE_EMAIL_RETRIES", "GIFTCARD_ENCRYPTION_KEY"]
)
def test_a_variable_that_nobody_reads_is_named(make_world: Make, examined: Examine, name: str) -> None:
    line = examined(make_world(**{name: 3}))["variables"]
    assert line["level"] == "red"
    assert name.removesuffix("_MAX_ATTEMPTS") in line["message"]


@pytest.mark.parametrize(("former", "name"), RENAMED.items())
def test_a_renamed_variable_is_named_with_its_new_name(
    make_world: Make, examined: Examine, former: str, name: str
) -> None:
    line = examined(make_world(**{former: "email_queue:email"}))["variables"]
    assert (line["level"], line["message"]) == ("yellow", f"{former} is now {name}: rename it")
    assert line["fix"] == "set the variable under its new name and deploy again"


def test_every_unknown_variable_is_named_in_one_line(make_world: Make, examined: Examine) -> None:
    names = ("GIFTCARD_SYNC", "GIFTCARD_ENCRYPTION_KEY", "GIFTCARD_STAGE_EMIAL_MAX_ATTEMPTS")
    line = examined(make_world(**dict.fromkeys(names, "3"), SUPABASE_URL="https://abc.supabase.co"))["variables"]
    assert line["message"] == (
        "GIFTCARD_SYNC is now GIFTCARD_INLINE: rename it; "
        "unknown variables: GIFTCARD_STAGE_EMIAL_… (there is no stage emial; did you mean email?), "
        "GIFTCARD_ENCRYPTION_KEY (did you mean GIFTCARD_ENCRYPTION_KEYS?); "
        "only one of SUPABASE_URL and SUPABASE_SECRET_KEY is set, so it is not used"
    )


def test_the_rules_of_a_stage_that_is_there_are_no_mistake(make_world: Make, examined: Examine) -> None:
    assert examined(make_world(GIFTCARD_STAGE_EMAIL_MAX_ATTEMPTS=3))["variables"]["level"] == "green"


@pytest.mark.parametrize(
    "half", [{"SUPABASE_URL": "https://abc.supabase.co"}, {"SUPABASE_SECRET_KEY": "sb_secret_testing"}]
)
def test_half_of_supabase_is_not_used(make_world: Make, examined: Examine, half: dict[str, str]) -> None:
    line = examined(make_world(**half))["variables"]
    assert (line["level"], line["fix"]) == ("yellow", "set both, or neither")


def test_wrong_channel_of_alerts_is_found_before_an_alert_is_due(make_world: Make, examined: Examine) -> None:
    many = ",".join(f"a{number}@ops.example" for number in range(20))
    line = examined(make_world(GIFTCARD_ALERT_RECIPIENTS=f"a@b.example,kim,{many}"))
    assert (line["variables"]["level"], line["variables"]["message"]) == (
        "yellow",
        "address 2 of GIFTCARD_ALERT_RECIPIENTS is not a mail address; "
        "GIFTCARD_ALERT_RECIPIENTS has more than 20 addresses: use a mailing list",
    )
    assert line["variables"]["fix"] == "correct it: no alert reaches this channel"
    good = {"GIFTCARD_ALERT_URL": "https://hooks.example/x?y", "GIFTCARD_ALERT_RECIPIENTS": "a@b.example"}
    assert examined(make_world(**good))["variables"]["level"] == "green"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SMPT_URL", "SMTP_URL"),
        ("SMTP_URI", "SMTP_URL"),
        ("MAILFROM", "MAIL_FROM"),
        ("MAIL_FORM", "MAIL_FROM"),
        ("CRON_SECRT", "CRON_SECRET"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("GIFTCARDS_ADMIN_TOKEN", "GIFTCARD_ADMIN_TOKEN"),
        ("GIFTCARD_ADMIN_TOKN", "GIFTCARD_ADMIN_TOKEN"),
        ("GIFT_CARD_API_TOKEN", "GIFTCARD_API_TOKEN"),
        ("SENTRY_DNS", "SENTRY_DSN"),
        ("SQUARE_LOCATION_IDS", "SQUARE_LOCATION_ID"),
        ("REPORTS_RECIPIENTS", "REPORT_RECIPIENTS"),
        ("SUPABASE_KEY", "SUPABASE_SECRET_KEY"),
        ("SMTP_HOST", "SMTP_URL"),
        ("ENCRYPTION_KEY", "GIFTCARD_ENCRYPTION_KEYS"),
    ],
)
def test_a_misspelt_variable_is_red_and_never_shows_its_value(
    make_world: Make, examined: Examine, name: str, meant: str
) -> None:
    without = {"GIFTCARD_ENCRYPTION_KEYS": None} if meant == "GIFTCARD_ENCRYPTION_KEYS" else {}
    line = examined(make_world(**without, **{name: "hunter2-hunter2"}))["variables"]
    assert (line["level"], line["message"]) == ("red", f"unknown variables: {name} (did you mean {meant}?)")
    assert "hunter2" not in str(line)


FOREIGN = (
    *("PATH", "HOME", "LANG", "TZ", "PWD", "SHLVL", "PORT", "AWS_REGION", "PYTHONPATH", "NOW_REGION", "CI"),
    *("VERCEL", "VERCEL_URL", "VERCEL_TARGET_ENV", "VERCEL_GIT_COMMIT_SHA", "VERCEL_REGION", "VERCEL_PROJECT_ID"),
    *("SENTRY_ENVIRONMENT", "SENTRY_RELEASE", "SENTRY_ORG", "SENTRY_PROJECT", "SENTRY_AUTH_TOKEN"),
    *("NEXT_PUBLIC_SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_JWT_SECRET", "SUPABASE_PUBLISHABLE_KEY"),
    *("POSTGRES_URL", "POSTGRES_PRISMA_URL", "POSTGRES_URL_NON_POOLING", "DATABASE_URL_UNPOOLED", "REDIS_URL"),
    *("SMTP_USER", "SMTP_PASSWORD", "FLASK_APP", "WIRE", "GIFTCARD_URL", "SUPABASE_ACCESS_TOKEN"),
)


def test_the_variables_of_others_are_no_mistake(make_world: Make, examined: Examine) -> None:
    assert examined(make_world(**dict.fromkeys(FOREIGN, "x")))["variables"]["message"] == "no unknown variables"


def test_another_name_for_what_is_set_is_no_mistake(make_world: Make, examined: Examine) -> None:
    both = {"SMTP_HOST": "mail.example", "SMTP_URL": "smtp://mail.example", "ENCRYPTION_KEY": "x"}
    assert examined(make_world(**both))["variables"]["level"] == "green"
