"""Defines all environment variables with a fixed name: the one list. `docs/settings.md` explains each."""

import math
import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lib.config import job_secrets, parsers, stage_overrides, vercel
from lib.config.stage_overrides import StageOverrides, seconds_list
from lib.errors import SettingsError

# What a function needs beyond budget and ttr, to settle and respond.
MARGIN_SECONDS = 20

_OWN_NAMES = re.compile(r"GIFTCARD_\w+|MAX_\w+_RETRY_ATTEMPTS")
# Read only by `flask jobs`.
_CLI_VARIABLES = frozenset({"GIFTCARD_URL"})
# Former names, which are no longer read, and what each is called now.
RENAMED: Mapping[str, str] = {
    "GIFTCARD_QUEUE_INLETS": "GIFTCARD_PGMQ_QUEUES",
    "GIFTCARD_SYNC": "GIFTCARD_INLINE",
}


class Settings(BaseSettings):
    """All settings, read once at start by `load`; frozen. Empty values count as unset."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        enable_decoding=False,  # lists are comma-separated, not JSON
    )

    # Environment
    giftcard_env: Literal["production", "preview", "development", "test"] | None = None
    vercel_env: str | None = None
    # Endpoints: each is disabled while its secret is unset
    cron_secret: SecretStr | None = None
    giftcard_admin_token: SecretStr | None = None
    giftcard_api_token: SecretStr | None = None
    # The database
    database_url: SecretStr | None = None
    supabase_url: str | None = None
    supabase_secret_key: SecretStr | None = None
    supabase_service_role_key: SecretStr | None = None
    # The tick
    giftcard_jobs_per_cron_run: int = Field(default=10, ge=1, le=100_000)
    giftcard_concurrency: int = Field(default=5, ge=1, le=100)
    giftcard_tick_budget_seconds: float = Field(default=50, gt=0, le=780)
    giftcard_tick_linger: bool = True
    giftcard_paused: bool = False
    giftcard_allow_preview: bool = False
    giftcard_execution_id_header: str = Field(default="x-vercel-execution-id", pattern=r"^[A-Za-z0-9-]{1,100}$")
    giftcard_inline: bool = False
    # Failure policy
    giftcard_max_attempts: int = Field(default=5, ge=1, le=25)
    giftcard_backoff_base_seconds: float = Field(default=5, gt=0, le=86_400)
    giftcard_backoff_cap_seconds: float = Field(default=300, gt=0, le=86_400)
    max_email_retry_attempts: int = Field(default=5, ge=1, le=25)
    max_payment_retry_attempts: int = Field(default=5, ge=1, le=25)
    max_report_retry_attempts: int = Field(default=3, ge=1, le=25)
    giftcard_webhook_retry_seconds: tuple[Annotated[float, Field(ge=0, le=86_400)], ...] = (30, 60, 120)
    giftcard_failed_job_retry_hours: float = Field(default=24, ge=0, le=8_760)
    giftcard_max_revivals: int = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_threshold: int = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_cooldown_seconds: float = Field(default=60, gt=0, le=86_400)
    giftcard_vendor_key_hours: float = Field(default=20, gt=0, le=8_760)
    # Providers and mail
    giftcard_payment_provider: Literal["ledger", "http", "square"] = "ledger"
    giftcard_payment_url: str | None = Field(default=None, repr=False)  # it may hold a password
    giftcard_payment_token: SecretStr | None = None
    giftcard_payment_lookup: bool = True
    giftcard_card_provider: Literal["ledger", "http"] = "ledger"
    giftcard_card_url: str | None = Field(default=None, repr=False)
    giftcard_card_token: SecretStr | None = None
    giftcard_card_lookup: bool = True
    giftcard_ledger_is_meant: bool = False
    # Minor units by currency
    giftcard_least_amounts: tuple[tuple[str, int], ...] = ()
    giftcard_encryption_keys: SecretStr | None = None
    giftcard_lookup_key: SecretStr | None = None
    smtp_url: SecretStr | None = None
    mail_from: str = "Gift cards <giftcards@localhost>"
    giftcard_mail_dir: str | None = None
    # Reports by mail; pgmq imports: queues and the stage of each
    report_recipients: tuple[str, ...] = Field(default=(), repr=False)
    giftcard_pgmq_queues: tuple[tuple[str, str], ...] = ()
    # Monitoring: alerts, metrics, Sentry
    giftcard_alert_recipients: tuple[str, ...] = Field(default=(), repr=False)
    giftcard_alert_url: SecretStr | None = None
    giftcard_alert_late_seconds: float = Field(default=900, ge=60, le=86_400)
    giftcard_alert_repeat_hours: float = Field(default=24, gt=0, le=8_760)
    giftcard_metrics_token: SecretStr | None = None
    sentry_dsn: SecretStr | None = None
    sentry_traces_sample_rate: float = Field(default=0, ge=0, le=1)
    sentry_monitor_slug: str = Field(default="giftcard-jobs", pattern=r"^[a-z0-9_-]{1,50}$")
    # Square's webhooks: the key that signs them, the URL that receives them, the tenant they belong to, the merchant
    # and the locations whose events count, and what the references of our orders begin with
    square_webhook_signature_key: SecretStr | None = None
    square_webhook_url: str | None = Field(default=None, repr=False)
    square_tenant_id: str = Field(default="default", min_length=1, max_length=200)
    square_merchant_id: str | None = None
    square_location_id: tuple[str, ...] = ()
    square_reference_prefix: str = Field(default="gc:", pattern=r"^[!-~]{1,20}$")
    # Networks that http_call jobs and webhooks may reach besides public addresses
    giftcard_allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    # Retention in days; 0: forever
    giftcard_retention_days: int = Field(default=30, ge=0, le=36_500)
    giftcard_dead_letter_days: int = Field(default=90, ge=0, le=36_500)
    giftcard_archive_days: int = Field(default=365, ge=0, le=36_500)
    giftcard_history_days: int = Field(default=90, ge=0, le=36_500)
    giftcard_tick_days: int = Field(default=30, ge=0, le=36_500)
    giftcard_circuit_change_days: int = Field(default=90, ge=0, le=36_500)
    # Collected by `load` from many variables.
    _stage_overrides: Mapping[str, StageOverrides] = PrivateAttr(default_factory=dict)
    _job_secrets: Mapping[str, SecretStr] = PrivateAttr(default_factory=dict)
    _unknown: tuple[str, ...] = PrivateAttr(default=())
    _foreign: tuple[str, ...] = PrivateAttr(default=())
    # Read by `load` from vercel.json.
    _max_duration: int = PrivateAttr(default=vercel.LONGEST_DURATION)

    _split_delays = field_validator("giftcard_webhook_retry_seconds", mode="before")(seconds_list)
    _split_networks = field_validator("giftcard_allowed_networks", mode="before")(parsers.networks)
    _split_recipients = field_validator("report_recipients", mode="before")(parsers.recipients)
    _split_alert_recipients = field_validator("giftcard_alert_recipients", mode="before")(parsers.alert_recipients)
    _split_least_amounts = field_validator("giftcard_least_amounts", mode="before")(parsers.least_amounts)
    _split_pgmq_queues = field_validator("giftcard_pgmq_queues", mode="before")(parsers.pgmq_queues)
    _check_merchant = field_validator("square_merchant_id", mode="before")(parsers.square_id)
    _split_locations = field_validator("square_location_id", mode="before")(parsers.square_ids)
    _check_address = field_validator("supabase_url", mode="before")(parsers.address)
    _check_key = field_validator("supabase_secret_key", "supabase_service_role_key", mode="before")(parsers.key)

    @property
    def stage_overrides(self) -> Mapping[str, StageOverrides]:
        """The overrides `GIFTCARD_STAGE_<STAGE>_*` by stage, including names that no stage has."""
        return self._stage_overrides

    @property
    def job_secrets(self) -> Mapping[str, SecretStr]:
        """The secrets `GIFTCARD_SECRET_<NAME>` by name."""
        return self._job_secrets

    @property
    def unknown(self) -> tuple[str, ...]:
        """Variables that look like ours but are unknown: most are typing errors."""
        return self._unknown

    @property
    def foreign(self) -> tuple[str, ...]:
        """The names of all other variables, some of which may be ours misspelt."""
        return self._foreign

    @property
    def max_duration(self) -> int:
        """The seconds that a function may run: `maxDuration` of vercel.json, else the longest that Vercel has."""
        return self._max_duration

    @property
    def longest_ttr(self) -> int:
        """The longest ttr in seconds with which a run that begins at the end of the budget still ends in time."""
        return max(0, math.floor(self._max_duration - self.giftcard_tick_budget_seconds - MARGIN_SECONDS))

    @property
    def revives(self) -> bool:
        """Whether dead letters revive, also those that wait already: `GIFTCARD_FAILED_JOB_RETRY_HOURS` and
        `GIFTCARD_MAX_REVIVALS` are both above 0."""
        return self.giftcard_failed_job_retry_hours > 0 and self.giftcard_max_revivals > 0

    @property
    def environment(self) -> str:
        """`GIFTCARD_ENV`, else `VERCEL_ENV`, else production, the safest choice."""
        if self.giftcard_env:
            return self.giftcard_env
        return self.vercel_env if self.vercel_env in ("production", "preview", "development") else "production"

    @property
    def is_production(self) -> bool:
        """Whether this is production or preview, which may hold real data."""
        return self.environment in ("production", "preview")

    @property
    def runs_ticks(self) -> bool:
        """Whether ticks run here: in a preview deployment only with `GIFTCARD_ALLOW_PREVIEW`."""
        return self.vercel_env != "preview" or self.giftcard_allow_preview

    def secrets(self) -> list[str]:
        """Return the values that must never appear in output, longest first."""
        values = (getattr(self, name) for name in type(self).model_fields)
        wholes = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        parts = {part for whole in wholes for part in _parts(whole) if len(part) >= 8}
        parts |= {form for value in self._job_secrets.values() for form in job_secrets.forms(value.get_secret_value())}
        return sorted(parts, key=len, reverse=True)


def _parts(secret: str) -> list[str]:
    """Return the secret and its parts: items of a list; the password of a URL, encoded and decoded."""
    try:
        password = urlsplit(secret).password or ""
    except ValueError:
        password = ""
    return [secret, *secret.split(","), password, unquote(password)]


def _is_unknown(name: str) -> bool:
    looks_ours = _OWN_NAMES.fullmatch(name) is not None and name not in _CLI_VARIABLES
    is_pattern = stage_overrides.VARIABLE.fullmatch(name) or job_secrets.VARIABLE.fullmatch(name)
    return looks_ours and name.lower() not in Settings.model_fields and not is_pattern


def _is_foreign(name: str) -> bool:
    return not _OWN_NAMES.fullmatch(name) and name.lower() not in Settings.model_fields


def load() -> Settings:
    """Return the settings of the process's environment.

    Raises:
        SettingsError: the first invalid variable, named in one sentence.
    """
    overrides, secrets_of_jobs = stage_overrides.read(os.environ), job_secrets.read(os.environ)
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors()[0]
        variable = str(first["loc"][0]).upper()
        secret = variable.endswith(("_SECRET", "_TOKEN", "_KEY", "_KEYS", "_URL", "_RECIPIENTS", "_DSN"))
        value = "" if secret else f"={os.environ.get(variable, '')!r}"
        raise SettingsError(f"{variable}{value}: {first['msg'].removeprefix('Value error, ')}") from None
    if settings.giftcard_inline and settings.is_production:
        raise SettingsError(
            f"GIFTCARD_INLINE requires GIFTCARD_ENV=development or test, but this is {settings.environment}"
        )
    settings._stage_overrides = overrides
    settings._job_secrets = secrets_of_jobs
    settings._max_duration = vercel.max_duration()
    settings._unknown = tuple(sorted(filter(_is_unknown, os.environ)))
    settings._foreign = tuple(sorted(filter(_is_foreign, os.environ)))
    return settings
