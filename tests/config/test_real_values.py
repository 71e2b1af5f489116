"""Values that people really have are accepted, although they look like placeholders, quotes or credentials."""

import pytest

from lib.config.database_url import DatabaseUrl
from lib.config.urls import HttpUrl, SmtpUrl
from lib.errors import SettingsError
from tests.support.world import settings_of

TEAMS = "https://shop.webhook.office.com/webhookb2/6f1a@9c2b/IncomingWebhook/0123456789abcdef/5e7d"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAIL_FROM", "Your Shop <cards@shop.example>"),
        ("MAIL_FROM", "Fill your cup <cards@shop.example>"),
        ("MAIL_FROM", "your-gifts@shop.de"),
        ("GIFTCARD_ADMIN_TOKEN", "$ecret-8kq2Zr7w"),
        ("GIFTCARD_ADMIN_TOKEN", "$ecret"),
        ("GIFTCARD_ALERT_URL", TEAMS),
        ("GIFTCARD_PAYMENT_URL", "https://user:pa55word@pay.example.com/v1/@shop?by=a@b"),
        ("SENTRY_DSN", "https://abc@o1.ingest.de.sentry.io/2"),
        ("SENTRY_DSN", "https://abc:def@sentry.shop.example:9000/errors/3"),
        ("DATABASE_URL", "postgresql://postgres.abcdefghij:p$w!*@aws-0-eu-central-1.pooler.supabase.com:6543/postgres"),
        ("DATABASE_URL", "postgresql://u:pw@[2001:db8::1]:5432/shop"),
        ("SMTP_URL", "smtps://u:$ecret@smtp.example.com"),
        ("SMTP_URL", "smtp://u:xxx@localhost:1025"),
        ("DATABASE_URL", "postgresql://postgres:changeme@localhost:5432/shop"),
        ("DATABASE_URL", "postgresql://postgres:your-super-secret-and-long-postgres-password@127.0.0.1/postgres"),
        ("SQUARE_TENANT_ID", "株式会社"),
        ("SQUARE_TENANT_ID", "O'Brien"),
    ],
)
def test_real_value_is_accepted(variable: str, value: str) -> None:
    settings = settings_of(**{"GIFTCARD_ENV": "production", variable: value})
    assert getattr(settings, variable.lower()) is not None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAIL_FROM", "your-name@example.com"),
        ("MAIL_FROM", "Shop <your-name@your-domain.com>"),
        ("SMTP_URL", "smtp://u:[YOUR-PASSWORD]@localhost"),
        ("SMTP_URL", "smtp://u:$PASSWORD@smtp.example.com"),
        ("SMTP_URL", "smtp://u:${password}@smtp.example.com"),
        ("GIFTCARD_ALERT_URL", "https://user:pa/ss@hooks.example.com/x"),
        ("GIFTCARD_ALERT_URL", "https://token?x@hooks.example.com/x"),
    ],
)
def test_placeholder_and_unwritten_characters_are_still_refused(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable}: ") as caught:
        settings_of(**{variable: value})
    assert value not in str(caught.value)


def test_an_at_in_a_path_does_not_move_the_host() -> None:
    url = HttpUrl(TEAMS)
    assert (url.host, url.has_credentials) == ("shop.webhook.office.com", False)
    assert HttpUrl("https://u:p%40ss@a.example/x@b.example").host == "a.example"
    assert SmtpUrl("smtp://u:pw@mail.example.com").host == "mail.example.com"


@pytest.mark.parametrize("authority", ["%2Frun%2Fpostgresql", "u@%2frun%2Fpostgresql:5433", "u:pw@%2Frun%2Fpostgresql"])
def test_folder_of_a_socket_is_a_host(authority: str) -> None:
    url = DatabaseUrl(f"postgresql://{authority}/shop", environment="production")
    assert (url.host, url.is_remote, url.place) == ("/run/postgresql", False, "database shop on /run/postgresql")
    assert url.port == (5433 if "5433" in authority else 5432)


@pytest.mark.parametrize(("given", "secret"), [("\"it's my crm'\"", "it's my crm'"), ("'\"half-of-it'", '"half-of-it')])
def test_secret_with_a_quote_at_one_end_is_put_in_quotes(given: str, secret: str) -> None:
    assert settings_of(GIFTCARD_SECRET_CRM=given).job_secrets["CRM"].value.get_secret_value() == secret
    with pytest.raises(SettingsError, match="put other quotes around the whole"):
        settings_of(GIFTCARD_SECRET_CRM=secret)


@pytest.mark.parametrize(
    ("given", "tag"), [("DE", "de"), ("en-gb", "en-GB"), ("ZH-hant-tw", "zh-Hant-TW"), ("es-419", "es-419")]
)
def test_language_is_written_in_any_case(given: str, tag: str) -> None:
    assert settings_of(GIFTCARD_LOCALE=given).giftcard_locale == tag
