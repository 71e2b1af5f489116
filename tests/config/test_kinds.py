"""Each setting, as people type it: it works as it is meant, or is refused in one sentence without its value."""

import re
from typing import Any

import pytest
from pydantic import BeforeValidator

from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides, variable
from lib.errors import SettingsError
from tests.support.world import ENCRYPTION_KEY, LOOKUP_KEY, settings_of

pytestmark = pytest.mark.slow

# A good value of each kind, and those that are of another kind. A new field needs its line here.
NUMBERS = "nan inf -inf 1e999 1_0 １２ ten 0x10 1,5 -1 10%"
SWITCHES = "maybe 2 １ enabled yes,no"
URLS = "example.com //example.com https:/example.com https:// https://:443 https://h:0 https://h:99999 https://a..b \
    ftp://example.com https://u:p@u:p@example.com https://u:p#x@example.com https://587 https://u:[PASSWORD]@h.example \
    https://u:changeme@h.example a@b.example https://bücher.example"
DATABASES = URLS.replace("https:", "postgresql:")
MAIL_SERVERS = " ".join(
    """smtp.example.com:587 user:pw@smtp.example.com:587 smtp.example.com localhost smtp:// smtp:///x smtp://:587
    smtp://user:pw@ smtp://587 http://smtp.example.com smtp://smtp.example.com:0 smtp://smtp.example.com:99999
    smtp://u:p@u:p@smtp.example.com smtp://u:p#w@smtp.example.com smtp://u:xxx@smtp.example.com mailto:a@b.example
    """.split()
)
TOKENS = 'two\u00a0words Bearer\u2003token-of-mine to\u200bken "half half”'
KINDS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        """giftcard_jobs_per_cron_run giftcard_concurrency giftcard_tick_budget_seconds giftcard_max_attempts
        giftcard_backoff_base_seconds giftcard_backoff_cap_seconds max_email_retry_attempts max_payment_retry_attempts
        max_report_retry_attempts giftcard_failed_job_retry_hours giftcard_max_revivals giftcard_circuit_threshold
        giftcard_circuit_cooldown_seconds giftcard_vendor_key_hours giftcard_alert_repeat_hours giftcard_retention_days
        giftcard_dead_letter_days giftcard_archive_days giftcard_history_days giftcard_tick_days
        giftcard_circuit_change_days giftcard_fleet_ticks""".split(),
        ("5", NUMBERS),
    ),
    "giftcard_alert_late_seconds": ("60", NUMBERS),
    "sentry_traces_sample_rate": ("0.5", NUMBERS),
    "giftcard_webhook_retry_seconds": ("30, 60,,60", "nan inf 1e999 1_0 １２ ten -1 , 30;60 30\n60 30,nan"),
    **dict.fromkeys(
        """giftcard_tick_linger giftcard_paused giftcard_allow_preview giftcard_inline giftcard_payment_lookup
        giftcard_card_lookup giftcard_ledger_is_meant giftcard_page_open""".split(),
        ("Yes", SWITCHES),
    ),
    "giftcard_customer_page": ("No", SWITCHES),
    "giftcard_env": ("Test", "prod staging production,test"),
    "vercel_env": ("preview", "pre\u200bview a/b https://x.example"),
    "vercel_project_production_url": ("Shop.vercel.app", "shop https://shop.example shop.example/x a..b -a.example"),
    "giftcard_payment_provider": ("HTTP", "stripe ledger,http"),
    "giftcard_card_provider": ("Ledger", "square"),
    "giftcard_wake": ("URL", "on 1 pg-net url,pg_net"),
    "giftcard_log_level": ("Debug", "warn 10 trace info,error"),
    **dict.fromkeys(
        "cron_secret giftcard_admin_token giftcard_api_token giftcard_metrics_token".split(),
        ("clock-8kq2Zr7wLx4Vn9Ty3Hs6", "two\u00a0words to\u200bken"),
    ),
    **dict.fromkeys("giftcard_payment_token giftcard_card_token".split(), ("sk_live_8kq2Zr7w", f"{TOKENS} schlüssel")),
    **dict.fromkeys(
        "supabase_secret_key supabase_service_role_key".split(),
        ("sb_secret_0123456789", f"{TOKENS} sb_publishable_0123456789 sb_secret_ short https://x.supabase.co eyJ.x"),
    ),
    "giftcard_encryption_keys": (ENCRYPTION_KEY, f"{ENCRYPTION_KEY[:-1]} short {ENCRYPTION_KEY};{'B' * 44} ,"),
    "giftcard_lookup_key": (LOOKUP_KEY, "short to\u200bken-of-more-than-32-characters-x"),
    "square_webhook_signature_key": ("5taRrLl8JBTL9nBsGQ2xXA", f"{TOKENS} short https://example.com/hook"),
    **dict.fromkeys("database_url postgres_url".split(), ("postgresql://u:p@h.example/x", DATABASES)),
    **dict.fromkeys(
        "giftcard_payment_url giftcard_card_url giftcard_alert_url square_webhook_url".split(),
        ("https://example.com/x", URLS),
    ),
    "supabase_url": ("https://abcdefghijklm.supabase.co", f"{URLS} https://x.supabase.co/rest/v1"),
    "giftcard_public_url": ("https://cards.example.com", f"{URLS} https://x.example/cards https://x.example/?a=b"),
    "smtp_url": ("smtp://u:p@smtp.example.com:587", MAIL_SERVERS),
    "sentry_dsn": ("https://key@o1.ingest.sentry.io/2", f"{URLS} https://o1.sentry.io/1 https://key@sentry.io/shop"),
    "mail_from": ("Käte <cards@example.com>", "Shop a@b.example,c@d.example example.com <> a@b..c a@-b.c a@127.0.0.1"),
    "giftcard_stages": ("shop.stages,shop.more", "shop/stages lib.stages a..b"),
    "giftcard_templates": ("docs", "no/such/folder README.md"),
    "giftcard_order_flow": (
        "customer_ingest,points,personal_code,payment,issue_card,email",
        "email customer_ingest,payment customer_ingest,personal_code,payment,issue_card,email,Points",
    ),
    "giftcard_locale": ("de-AT", "german de_AT de- ../de"),
    "giftcard_mail_dir": (".local/mails", "https://x.example/y $HOME/mails README.md C:\\mails"),
    "report_recipients": ("ann@x.example, Ann@x.example,,b@y.example", "ann ann@x.example;ben@x.example <a@b.c> a@b@c"),
    "giftcard_alert_recipients": ("ann@x.example,nobody", ""),
    "giftcard_pgmq_queues": ("mails:email", "mails mails:email;x:email mails:E-Mail mails:webhook a:email,A:email"),
    "giftcard_tenant_weights": (
        "acme=3,, Beta GmbH=100,a=b=1",
        "acme acme:3 acme=0 acme=101 acme=1.5 =3 acme=3;b=2 a=1,a=2 acme=３ acme=+3",
    ),
    "giftcard_least_amounts": ("USD:500,,EUR:500", "500 USD:5.00 usd:5 USD:0 USD:5;EUR:5 USD:5,USD:6 USD:1_0 USD:５"),
    "giftcard_allowed_networks": ("10.0.0.0/8,,::1,10.0.0.0/8", "10.0.0.1/8 localhost 10.0.0.0/33 * 10.0.0.0/8;::1"),
    "giftcard_execution_id_header": ("X-Request-Id", "x_id a:b Authorization cookie"),
    "sentry_monitor_slug": ("gift-cards", "Gift-Cards a/b a.b"),
    "square_tenant_id": ("Acme GmbH", f"a\u200bb a\u202eb {'a' * 201} \"half"),
    "square_merchant_id": ("6SSW7HV8K2ST5", "6SSW;7HV a@b.example https://x.example"),
    "square_location_id": ("S8GWD5R9QB376,,L2,L2", "S8GWD5R9QB376;L2 a@b.example"),
    "square_reference_prefix": ("shop-7/", f"gc\u00a0: {'a' * 21} gi\u200bft"),
}  # fmt: skip
PLACEHOLDERS = ["<your key>", "changeme", "CHANGE-ME", "xxx", "xxxxxxxxxxxx", "your-key-here", "YOUR_TOKEN",
                "${SECRET}", "$SECRET", "[YOUR-PASSWORD]", "{{ key }}", "********", "...", "…", "TODO", "none",
                "replace_me"]  # fmt: skip
AROUND = ['"{}"', "'{}'", "“{}”", "„{}“", "‘{}’", "`{}`", " {} ", "{}\n", "\r\n{}\r\n", "\ufeff{}", "\u00a0{}\u00a0",
          "\u200b{}\u200b", " '{}'\n", '"\n{}\n"']  # fmt: skip


def refusal(**environ: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_of(**environ)
    return str(caught.value)


def test_every_field_has_a_kind_and_a_line_here() -> None:
    assert set(KINDS) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        is_validated = any(isinstance(one, BeforeValidator) for one in field.metadata)
        assert is_validated or field.annotation is bool, f"{name} has no kind of lib.config.kinds"


@pytest.mark.parametrize("name", KINDS)
def test_what_is_around_a_value_is_removed_and_named(name: str) -> None:
    variable, good = name.upper(), KINDS[name][0]
    plain = getattr(settings_of(**{variable: good}), name)
    assert variable not in settings_of(**{variable: good}).stripped
    for form in AROUND:
        if name == "cron_secret" and form.strip() != "{}":
            continue  # Vercel sends it with its quotes
        settings = settings_of(**{variable: form.format(good)})
        assert getattr(settings, name) == plain, form
        assert settings.stripped == (variable,), form


@pytest.mark.parametrize("name", KINDS)
def test_value_of_another_kind_is_refused_in_one_sentence(name: str) -> None:
    for bad in filter(None, KINDS[name][1].split(" ")):
        said = refusal(**{"GIFTCARD_ENV": "production", name.upper(): bad})
        assert said.startswith(f"{name.upper()}: "), (bad, said)
        assert "\n" not in said
        assert re.search("like|must|placeholder|twice|only the database|Fernet key", said)
        assert len(bad) < 15 or bad not in said


@pytest.mark.parametrize("name", [name for name in KINDS if name != "giftcard_alert_recipients"])
def test_placeholder_is_no_value(name: str) -> None:
    for placeholder in PLACEHOLDERS:
        assert refusal(**{name.upper(): placeholder}).startswith(f"{name.upper()}: ")
    assert (
        refusal(**{name.upper(): "a\udcff"}).startswith(f"{name.upper()}: must be UTF-8") or name == "report_recipients"
    )
    for text in ("a\udcff", "a\x01b", "a\nb"):
        assert refusal(**{name.upper(): text}).startswith(f"{name.upper()}: ")


def test_wrong_recipient_of_alerts_stops_nothing() -> None:
    for text in (*PLACEHOLDERS, "a\nb", "a\udcff", "a;b"):
        assert settings_of(GIFTCARD_ALERT_RECIPIENTS=text).giftcard_alert_recipients == (text,)
    assert settings_of(GIFTCARD_ALERT_RECIPIENTS="'ann@bücher.example', ").giftcard_alert_recipients == (
        "ann@xn--bcher-kva.example",
    )


# The collected ones


STAGE_KINDS = dict.fromkeys(StageOverrides.model_fields, ("1", NUMBERS)) | {
    "delays": ("30, 60", "nan inf 1e999 1_0 ten -1 , 30;60 30;nan"),
    "semantics": ("At_Least_Once", "once at_most_once,at_least_once"),
    "rate": ("10 per second, burst 20", "10 10/ 10/x /s -1/s 0/s 1e3/s nan/s 10001/s 10/sburst 10/s,20 １/s 1_0/s"),
}


@pytest.mark.parametrize("setting", StageOverrides.model_fields)
def test_override_of_a_stage_is_cleaned_or_refused(setting: str) -> None:
    name, (good, bad) = variable("email", setting), STAGE_KINDS[setting]
    plain = settings_of(**{name: good}).stage_overrides
    for form in AROUND:
        settings = settings_of(**{name: form.format(good)})
        assert (settings.stage_overrides, settings.stripped) == (plain, (name,))
    for value in [*filter(None, bad.split(" ")), *PLACEHOLDERS]:
        said = refusal(**{name: value})
        assert said.startswith(f"{name}: ")
        assert "\n" not in said


def test_secret_of_a_job_is_cleaned_or_refused() -> None:
    for form in AROUND:
        given = {"GIFTCARD_SECRET_CRM": "key-of-a-crm", "GIFTCARD_SECRET_CRM_HOSTS": "api.example.com,,b.example"}
        given |= {"GIFTCARD_SECRET_CRM_SOURCES": "PGMQ,sql"}
        settings = settings_of(**{name: form.format(value) for name, value in given.items()})
        assert settings.job_secrets["CRM"].value.get_secret_value() == "key-of-a-crm"
        assert [host.name for host in settings.job_secrets["CRM"].hosts] == ["api.example.com", "b.example"]
        assert settings.job_secrets["CRM"].sources == {"app", "pgmq", "sql"}
        assert settings.stripped == tuple(sorted(given))
    for wrong in ("xxxxxxxxxx", "<your secret>", '"half-of-it', "to\u200bken-of-a-crm", "short"):
        assert refusal(GIFTCARD_SECRET_CRM=wrong).startswith("GIFTCARD_SECRET_CRM: ")
    for wrong in ("https://a.example", "a.example;b.example", "a@b.example", "a.example:0", "a.example:99999"):
        said = refusal(GIFTCARD_SECRET_CRM="key-of-a-crm", GIFTCARD_SECRET_CRM_HOSTS=wrong)
        assert said.startswith("GIFTCARD_SECRET_CRM_HOSTS: item 1 must be a host like")


# Together


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"GIFTCARD_INLINE": 1, "GIFTCARD_ENV": "production"}, "GIFTCARD_INLINE GIFTCARD_ENV"),
        ({"GIFTCARD_PAGE_OPEN": 1, "GIFTCARD_ENV": "production"}, "GIFTCARD_PAGE_OPEN GIFTCARD_ENV"),
        ({"GIFTCARD_BACKOFF_BASE_SECONDS": 600}, "GIFTCARD_BACKOFF_BASE_SECONDS GIFTCARD_BACKOFF_CAP_SECONDS"),
        ({"GIFTCARD_STAGE_EMAIL_BASE_SECONDS": 9, "GIFTCARD_STAGE_EMAIL_CAP_SECONDS": 8},
         "GIFTCARD_STAGE_EMAIL_BASE_SECONDS GIFTCARD_STAGE_EMAIL_CAP_SECONDS"),
        ({"GIFTCARD_STAGE_EMAIL_TTR_SECONDS": 9, "GIFTCARD_STAGE_EMAIL_LONGEST_SECONDS": 8},
         "GIFTCARD_STAGE_EMAIL_TTR_SECONDS GIFTCARD_STAGE_EMAIL_LONGEST_SECONDS"),
        ({"GIFTCARD_STAGE_EMAIL_SEMANTICS": "at_most_once", "GIFTCARD_STAGE_EMAIL_MAX_ATTEMPTS": 2},
         "GIFTCARD_STAGE_EMAIL_MAX_ATTEMPTS GIFTCARD_STAGE_EMAIL_SEMANTICS"),
        ({"GIFTCARD_CUSTOMER_PAGE": "on"}, "GIFTCARD_CUSTOMER_PAGE GIFTCARD_PUBLIC_URL"),
        ({"GIFTCARD_CUSTOMER_PAGE": 1, "GIFTCARD_PUBLIC_URL": "https://x.example", "GIFTCARD_ENCRYPTION_KEYS": None},
         "GIFTCARD_CUSTOMER_PAGE GIFTCARD_ENCRYPTION_KEYS"),
        ({"GIFTCARD_CUSTOMER_PAGE": 1, "GIFTCARD_PUBLIC_URL": "https://x.example", "GIFTCARD_LOOKUP_KEY": None},
         "GIFTCARD_CUSTOMER_PAGE GIFTCARD_LOOKUP_KEY"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_named(environ: dict[str, Any], names: str) -> None:
    said = refusal(**environ)
    assert all(name in said for name in names.split())


def test_all_invalid_settings_are_found_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(
            GIFTCARD_CONCURRENCY=0, SMTP_URL="smtp.example.com", GIFTCARD_STAGE_EMAIL_JITTER=2, GIFTCARD_SECRET_A="x"
        )
    assert [text.partition(":")[0] for text in caught.value.sentences] == [
        "GIFTCARD_STAGE_EMAIL_JITTER", "GIFTCARD_SECRET_A", "GIFTCARD_CONCURRENCY", "SMTP_URL",
    ]  # fmt: skip
    assert str(caught.value).endswith("(3 more; for all of them: flask jobs doctor)")


def test_dsn_is_refused_exactly_if_the_sdk_refuses_it() -> None:
    from sentry_sdk.utils import BadDsn, Dsn

    for text in KINDS["sentry_dsn"][1].split():
        try:
            Dsn(text)
        except (BadDsn, ValueError):
            assert refusal(SENTRY_DSN=text).startswith("SENTRY_DSN: ")
    assert settings_of(SENTRY_DSN="https://k:s@h.example:9000/a/b/3").sentry_dsn is not None
