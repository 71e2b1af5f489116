"""What must travel encrypted, and how each kind of URL follows that rule."""

import json

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from lib.config import database_url
from lib.config.database_url import DatabaseUrl
from lib.config.transport import environment_in, is_loopback, must_encrypt
from lib.config.urls import HttpUrl, SmtpUrl
from lib.errors import SettingsError
from tests.support.world import settings_of

LOOPBACK = [
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "::ffff:127.0.0.1",
    "localhost",
    "LOCALHOST",
    "a.localhost",
    "/run/x",
    "@x",
]
ELSEWHERE = ["example.com", "10.0.0.1", "::", "fe80::1", "localhost.example.com", "127.0.0.1.nip.io", "mail"]
PLAIN = "postgresql://kim:sesame-open@db.example.com/shop"
READY = "sslmode=require&require_auth=scram-sha-256"


def ready(text: str, environment: str = "production") -> str:
    """The URL as libpq gets it."""
    return DatabaseUrl(text, environment=environment).get_secret_value()


def test_only_this_machine_and_development_may_be_in_clear() -> None:
    assert all(map(is_loopback, LOOPBACK))
    assert not any(map(is_loopback, ELSEWHERE))
    for environment, encrypts in (("production", True), ("preview", True), ("development", False), ("test", False)):
        assert must_encrypt("example.com", environment) is encrypts
        assert not must_encrypt("127.0.0.1", environment)


@pytest.mark.parametrize(
    ("environ", "environment"),
    [
        ({}, "production"),
        ({"GIFTCARD_ENV": "development"}, "development"),
        ({"GIFTCARD_ENV": "dev"}, "production"),
        ({"VERCEL_ENV": "development"}, "development"),
        ({"VERCEL_ENV": "staging"}, "production"),
        ({"GIFTCARD_ENV": "", "VERCEL_ENV": "preview"}, "preview"),
    ],
)
def test_environment_in_doubt_is_production(environ: dict[str, str], environment: str) -> None:
    assert environment_in(environ) == environment


# HTTP and mail


@pytest.mark.parametrize(
    "name",
    ["SUPABASE_URL", "GIFTCARD_PAYMENT_URL", "GIFTCARD_CARD_URL", "GIFTCARD_ALERT_URL", "SQUARE_WEBHOOK_URL"],
)
def test_urls_of_services_are_https(name: str) -> None:
    for environment in ({"GIFTCARD_ENV": "production"}, {"GIFTCARD_ENV": None}, {"VERCEL_ENV": "preview"}):
        with pytest.raises(SettingsError, match=f"^{name}: must begin with https://"):
            settings_of(**({"GIFTCARD_ENV": None} | environment | {name: "http://vendor.example.com"}))
    settings_of(GIFTCARD_ENV="production", **{name: "https://vendor.example.com"})
    settings_of(GIFTCARD_ENV="production", **{name: "http://127.0.0.1:8000"})
    settings_of(GIFTCARD_ENV="development", **{name: "http://vendor.example.com"})


@pytest.mark.parametrize(
    ("url", "security", "port", "environment"),
    [
        ("smtps://kim:pw@mail.example.com", "tls", 465, "production"),
        ("smtp://kim:pw@mail.example.com", "starttls", 587, "production"),
        ("smtp://mail.example.com", "starttls", 25, "test"),
        ("smtp://mail.example.com:2525/", "starttls", 2525, "development"),
        ("smtp://localhost", "offered", 25, "production"),
        ("SMTP+INSECURE://localhost", "none", 25, "production"),
        ("smtp+insecure://mail.example.com", "none", 25, "development"),
    ],
)
def test_mail_urls_say_how_they_encrypt(url: str, security: str, port: int, environment: str) -> None:
    found = SmtpUrl(url, environment=environment)
    assert (found.security, found.port) == (security, port)


def test_mail_in_clear_is_refused_in_production() -> None:
    with pytest.raises(SettingsError, match=r"^SMTP_URL: must begin with smtp:// or smtps://"):
        settings_of(GIFTCARD_ENV="production", SMTP_URL="smtp+insecure://kim:sesame@mail.example.com")


def test_user_and_password_are_decoded() -> None:
    found = SmtpUrl("smtp://kim%40example.com:p%40s%2Fs:w%25@mail.example.com")
    assert (found.user, found.password) == ("kim@example.com", "p@s/s:w%")


def test_path_and_query_are_added_where_they_belong() -> None:
    url = HttpUrl("https://u:p@vendor.example.com:8443/v1/?a=b")
    assert url.with_query(key="x y") == "https://u:p@vendor.example.com:8443/v1/?a=b&key=x+y"
    assert url.with_path("a/b", "block") == "https://u:p@vendor.example.com:8443/v1/a%2Fb/block?a=b"
    assert HttpUrl("https://vendor.example.com").with_query(key="1") == "https://vendor.example.com?key=1"


# The database


@pytest.mark.parametrize(
    ("given", "parameters"),
    [
        (PLAIN, READY),
        (f"{PLAIN}?sslmode=require", READY),
        (f"{PLAIN}?sslmode=verify-full", "sslmode=verify-full&require_auth=scram-sha-256"),
        (f"{PLAIN}?sslrootcert=system", "sslrootcert=system&sslmode=verify-full&require_auth=scram-sha-256"),
        (f"{PLAIN}?require_auth=gss", "require_auth=gss&sslmode=require"),
        (f"{PLAIN}?pgbouncer=true&connection_limit=1", READY),
        (f"{PLAIN}?sslmode=require&supa=base-pooler.x", READY),
        (f"{PLAIN}?pgbouncer=true&workaround=supabase-pooler.vercel", READY),
        (f"{PLAIN}?schema=public&sslmode=require&sslaccept=strict&connection_limit=1", READY),
        (f"{PLAIN}?pool_timeout=20&schema=public&ssl=true", READY),
        (PLAIN.replace("postgresql", "postgres"), READY),
    ],
)
def test_connections_are_encrypted_with_scram(given: str, parameters: str) -> None:
    assert ready(given) == f"{PLAIN}?{parameters}"


@pytest.mark.parametrize(
    "weak",
    [
        *("sslmode=disable", "sslmode=allow", "sslmode=prefer", "sslmode=off", "require_auth=password"),
        *("require_auth=scram-sha-256,md5", "require_auth=!md5", "require_auth=none"),
    ],
)
def test_weaker_is_refused(weak: str) -> None:
    with pytest.raises(SettingsError, match=r"^DATABASE_URL: must have (sslmode|require_auth|one of these)"):
        settings_of(GIFTCARD_ENV="production", DATABASE_URL=f"{PLAIN}?{weak}")


@pytest.mark.parametrize(
    "local",
    ["postgresql://postgres@/shop?host=%2Ftmp%2Fx", "postgresql://a:b@localhost/x", "postgresql://a@[::1]:5433/x"],
)
def test_this_machine_is_left_as_it_is(local: str) -> None:
    assert ready(local) == local
    assert not DatabaseUrl(local).is_remote


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://a:b@localhost,db.example.com/x",
        "postgresql://a:b@localhost/x?host=db.example.com",
        "postgresql://a:b@localhost/x?hostaddr=192.0.2.1",
    ],
)
def test_one_server_elsewhere_is_enough(given: str) -> None:
    assert ready(given).endswith(READY)
    assert ready(given, "development") == given


def test_host_of_production_is_named() -> None:
    # libpq would take it from PGHOST.
    with pytest.raises(SettingsError, match=r"^DATABASE_URL: must have a host"):
        settings_of(GIFTCARD_ENV="production", DATABASE_URL="postgresql:///shop")
    assert ready("postgresql:///shop", "development") == "postgresql:///shop"


def test_libpq_reads_what_was_written() -> None:
    text = "postgres://k%40m:p%25%2F%3A@a.example.com:6543,[2001:db8::1]:5432/sh%6Fp?options=-c%20x%3D1&supa=x"
    assert conninfo_to_dict(ready(text)) == {
        "user": "k@m",
        "password": "p%/:",
        "host": "a.example.com,2001:db8::1",
        "port": "6543,5432",
        "dbname": "shop",
        "options": "-c x=1",
        "sslmode": "require",
        "require_auth": "scram-sha-256",
    }
    assert ready(ready(text)) == ready(text)


def test_parameters_are_those_of_libpq() -> None:
    own = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    assert own >= database_url._ALLOWED
    assert not own & database_url._DROPPED
    # They would lead elsewhere, or write the keys of the encryption into a file.
    assert not database_url._ALLOWED & {"service", "servicefile", "sslkeylogfile", "requiressl"}


def test_integration_of_vercel_is_enough() -> None:
    given = "postgres://postgres.abc:pw@aws-0-x.pooler.supabase.com:6543/postgres?sslmode=require&supa=base-pooler.x"
    settings = settings_of(GIFTCARD_ENV="production", POSTGRES_URL=given)
    assert settings.database
    assert settings.database.get_secret_value().endswith(f"@aws-0-x.pooler.supabase.com:6543/postgres?{READY}")
    both = settings_of(POSTGRES_URL="not a URL", DATABASE_URL=PLAIN)
    assert both.database
    assert both.database.host == "db.example.com"
    with pytest.raises(SettingsError, match=r"^POSTGRES_URL: must be a URL like postgresql://"):
        settings_of(POSTGRES_URL="not a URL", DATABASE_URL="")


# What is around a value


@pytest.mark.parametrize("around", ["{}\n", '"{}"', "'{}'", ' "{}" \r\n'])
def test_quotes_and_line_breaks_are_removed_and_remembered(around: str) -> None:
    environ = {"DATABASE_URL": PLAIN, "GIFTCARD_API_TOKEN": "a-token-of-sixteen", "GIFTCARD_CONCURRENCY": "7"}
    settings = settings_of(**{name: around.format(value) for name, value in environ.items()})
    assert settings.database_url
    assert settings.database_url.get_secret_value() == PLAIN
    assert settings.giftcard_api_token
    assert settings.giftcard_api_token.get_secret_value() == "a-token-of-sixteen"
    assert (settings.giftcard_concurrency, settings.stripped) == (7, tuple(sorted(environ)))


def test_quotes_that_vercel_sends_are_kept() -> None:
    settings = settings_of(CRON_SECRET='"quoted-secret"\n', MAIL_FROM='"Gift cards" <a@example.com>')
    assert settings.cron_secret
    assert settings.cron_secret.get_secret_value() == '"quoted-secret"'
    assert settings.mail_from == '"Gift cards" <a@example.com>'


@pytest.mark.parametrize("password", ["abc", "p%40ss%2Fword", 'a"b<c>&long', "sesame%20open"])
@pytest.mark.parametrize("name", ["DATABASE_URL", "POSTGRES_URL", "SMTP_URL", "GIFTCARD_ALERT_URL"])
def test_password_is_covered_in_all_its_forms(name: str, password: str) -> None:
    scheme = {"SMTP_URL": "smtp", "GIFTCARD_ALERT_URL": "https"}.get(name, "postgresql")
    secrets = settings_of(**{name: f"{scheme}://kim:{password}@h.example.com/"}).secrets()
    plain = {"p%40ss%2Fword": "p@ss/word", "sesame%20open": "sesame open"}.get(password, password)
    expected = {f":{password}@", f":{plain}@"}
    if len(plain) > 5:
        expected |= {password, plain, json.dumps(plain)[1:-1]}
    assert expected <= set(secrets)
    assert all(len(secret) > 4 for secret in secrets), "a short password alone would cover other text"
