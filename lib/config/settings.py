"""Defines all environment variables with a fixed name: the one list. `docs/settings.md` explains each."""

import math
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lib.config import parsers, project, vercel
from lib.config.covered import covered_texts
from lib.config.database_url import DatabaseUrl
from lib.config.job_secrets import JobSecret
from lib.config.stage_overrides import StageOverrides, seconds_list
from lib.config.stage_settings import OfStage, OfStages
from lib.config.transport import environment_of
from lib.config.urls import HttpUrl, SmtpUrl, SupabaseUrl

# What a function needs beyond budget and ttr, to settle and respond.
MARGIN_SECONDS = 20

# Former names, which are no longer read, and what each is called now.
RENAMED: Mapping[str, str] = {
    "GIFTCARD_QUEUE_INLETS": "GIFTCARD_PGMQ_QUEUES",
    "GIFTCARD_SYNC": "GIFTCARD_INLINE",
}


class Settings(BaseSettings):
    """All settings, read once at start by `lib.config.load`; frozen. Empty values count as unset.

    The environment comes first: the rule of transport, by which each URL is parsed, depends on it.
    """

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
    database_url: DatabaseUrl | None = None
    postgres_url: DatabaseUrl | None = None
    supabase_url: SupabaseUrl | None = None
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
    giftcard_payment_url: HttpUrl | None = None
    giftcard_payment_token: SecretStr | None = None
    giftcard_payment_lookup: bool = True
    giftcard_card_provider: Literal["ledger", "http"] = "ledger"
    giftcard_card_url: HttpUrl | None = None
    giftcard_card_token: SecretStr | None = None
    giftcard_card_lookup: bool = True
    giftcard_ledger_is_meant: bool = False
    # Minor units by currency
    giftcard_least_amounts: tuple[tuple[str, int], ...] = ()
    giftcard_encryption_keys: SecretStr | None = None
    giftcard_lookup_key: SecretStr | None = None
    smtp_url: SmtpUrl | None = None
    mail_from: str = "Gift cards <giftcards@localhost>"
    giftcard_mail_dir: str | None = None
    # Reports by mail; pgmq imports: queues, each with its stage and tenant
    report_recipients: tuple[str, ...] = Field(default=(), repr=False)
    giftcard_pgmq_queues: tuple[parsers.PgmqQueue, ...] = ()
    # Monitoring: alerts, metrics, Sentry
    giftcard_alert_recipients: tuple[str, ...] = Field(default=(), repr=False)
    giftcard_alert_url: HttpUrl | None = None
    giftcard_alert_late_seconds: float = Field(default=900, ge=60, le=86_400)
    giftcard_alert_repeat_hours: float = Field(default=24, gt=0, le=8_760)
    giftcard_metrics_token: SecretStr | None = None
    sentry_dsn: SecretStr | None = None
    sentry_traces_sample_rate: float = Field(default=0, ge=0, le=1)
    sentry_monitor_slug: str = Field(default="giftcard-jobs", pattern=r"^[a-z0-9_-]{1,50}$")
    # Square's webhooks: the key that signs them, the URL that receives them, the tenant they belong to, the merchant
    # and the locations whose events count, and what the references of our orders begin with
    square_webhook_signature_key: SecretStr | None = None
    square_webhook_url: HttpUrl | None = None
    square_tenant_id: str = Field(default="default", min_length=1, max_length=200)
    square_merchant_id: str | None = None
    square_location_id: tuple[str, ...] = ()
    square_reference_prefix: str = Field(default="gc:", pattern=r"^[!-~]{1,20}$")
    # Networks that http_call jobs and webhooks may reach besides public addresses
    giftcard_allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    # What a project adds: packages of stages, templates that come first, the steps of an order's flow
    giftcard_stages: tuple[str, ...] = ()
    giftcard_templates: Path | None = None
    giftcard_order_flow: tuple[str, ...] = project.ORDER_FLOW
    # Retention in days; 0: forever
    giftcard_retention_days: int = Field(default=30, ge=0, le=36_500)
    giftcard_dead_letter_days: int = Field(default=90, ge=0, le=36_500)
    giftcard_archive_days: int = Field(default=365, ge=0, le=36_500)
    giftcard_history_days: int = Field(default=90, ge=0, le=36_500)
    giftcard_tick_days: int = Field(default=30, ge=0, le=36_500)
    giftcard_circuit_change_days: int = Field(default=90, ge=0, le=36_500)
    # Collected by `load` from many variables.
    _stage_overrides: Mapping[str, StageOverrides] = PrivateAttr(default_factory=dict)
    _job_secrets: Mapping[str, JobSecret] = PrivateAttr(default_factory=dict)
    _unknown: tuple[str, ...] = PrivateAttr(default=())
    _stripped: tuple[str, ...] = PrivateAttr(default=())
    _foreign: tuple[str, ...] = PrivateAttr(default=())
    # The settings of stages of your own, in the environment as `load` found it.
    _of_stages: OfStages = PrivateAttr(default_factory=OfStages)
    _secrets: list[str] = PrivateAttr(default_factory=list)
    # Read by `load` from vercel.json.
    _max_duration: int = PrivateAttr(default=vercel.LONGEST_DURATION)

    _strip = model_validator(mode="before")(parsers.stripped)
    _split_delays = field_validator("giftcard_webhook_retry_seconds", mode="before")(seconds_list)
    _split_networks = field_validator("giftcard_allowed_networks", mode="before")(parsers.networks)
    _split_recipients = field_validator("report_recipients", mode="before")(parsers.recipients)
    _split_alert_recipients = field_validator("giftcard_alert_recipients", mode="before")(parsers.alert_recipients)
    _split_least_amounts = field_validator("giftcard_least_amounts", mode="before")(parsers.least_amounts)
    _split_packages = field_validator("giftcard_stages", mode="before")(project.packages)
    _find_templates = field_validator("giftcard_templates", mode="before")(project.folder)
    _split_flow = field_validator("giftcard_order_flow", mode="before")(project.order_flow)
    _split_pgmq_queues = field_validator("giftcard_pgmq_queues", mode="before")(parsers.pgmq_queues)
    _check_merchant = field_validator("square_merchant_id", mode="before")(parsers.square_id)
    _split_locations = field_validator("square_location_id", mode="before")(parsers.square_ids)
    _parse_database = field_validator("database_url", "postgres_url", mode="before")(parsers.url_of(DatabaseUrl))
    _parse_mail = field_validator("smtp_url", mode="before")(parsers.url_of(SmtpUrl))
    _parse_address = field_validator("supabase_url", mode="before")(parsers.url_of(SupabaseUrl))
    _parse_urls = field_validator(
        *("giftcard_payment_url", "giftcard_card_url", "giftcard_alert_url", "square_webhook_url"), mode="before"
    )(parsers.url_of(HttpUrl))
    _check_key = field_validator("supabase_secret_key", "supabase_service_role_key", mode="before")(parsers.key)

    @property
    def stage_overrides(self) -> Mapping[str, StageOverrides]:
        """The overrides `GIFTCARD_STAGE_<STAGE>_*` by stage, including names that no stage has."""
        return self._stage_overrides

    @property
    def job_secrets(self) -> Mapping[str, JobSecret]:
        """The secrets `GIFTCARD_SECRET_<NAME>` by name, with their hosts and sources."""
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
    def stripped(self) -> tuple[str, ...]:
        """Variables whose value had quotes, spaces or line breaks around it, which were removed."""
        return self._stripped

    @property
    def database(self) -> DatabaseUrl | None:
        """`DATABASE_URL`, else `POSTGRES_URL`."""
        return self.database_url or self.postgres_url

    @property
    def environment(self) -> str:
        """`GIFTCARD_ENV`, else `VERCEL_ENV`, else production, the safest choice."""
        return environment_of(self.giftcard_env, self.vercel_env)

    @property
    def is_production(self) -> bool:
        """Whether this is production or preview, which may hold real data."""
        return self.environment in ("production", "preview")

    @property
    def runs_ticks(self) -> bool:
        """Whether ticks run here: in a preview deployment only with `GIFTCARD_ALLOW_PREVIEW`."""
        return self.vercel_env != "preview" or self.giftcard_allow_preview

    def of_stage(self, model: type[OfStage]) -> OfStage:
        """Return the settings of a stage. Raises SettingsError, as `StageSettings.read` does."""
        if model not in self._of_stages:
            self._of_stages.read(model)
            self._cover()
        return self._of_stages.get(model)

    def secrets(self) -> list[str]:
        """Return the texts that must never appear in output, longest first: the same list, which `of_stage` extends."""
        if not self._secrets:
            self._cover()
        return self._secrets

    def _cover(self) -> None:
        values = [*(getattr(self, name) for name in type(self).model_fields), *self._of_stages.secrets()]
        self._secrets[:] = covered_texts(values, self._job_secrets)
