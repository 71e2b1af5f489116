"""Defines all environment variables with a fixed name: the one list. `docs/settings.md` explains each."""

import math
from collections.abc import Mapping

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lib.config import kinds, parsers, project, vercel
from lib.config.covered import covered_texts
from lib.config.database_url import DatabaseUrl
from lib.config.job_secrets import JobSecret
from lib.config.stage_overrides import StageOverrides
from lib.config.stage_settings import OfStage, OfStages
from lib.config.transport import environment_of

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
    giftcard_env: kinds.Environment = None
    vercel_env: kinds.Name = None
    vercel_project_production_url: kinds.Host = None
    # Endpoints: each is disabled while its secret is unset
    cron_secret: kinds.OwnToken = None
    giftcard_admin_token: kinds.OwnToken = None
    giftcard_api_token: kinds.OwnToken = None
    # The database
    database_url: kinds.Database = None
    postgres_url: kinds.Database = None
    supabase_url: kinds.Supabase = None
    supabase_secret_key: kinds.SupabaseKey = None
    supabase_service_role_key: kinds.SupabaseKey = None
    # The tick
    giftcard_jobs_per_cron_run: kinds.Whole = Field(default=10, ge=1, le=100_000)
    giftcard_concurrency: kinds.Whole = Field(default=5, ge=1, le=100)
    giftcard_tick_budget_seconds: kinds.Number = Field(default=50, gt=0, le=780)
    # How many jobs of a tenant are taken in its turn; 1 for those that are left out
    giftcard_tenant_weights: kinds.TenantWeights = ()
    giftcard_tick_linger: kinds.Switch = True
    giftcard_paused: kinds.Switch = False
    giftcard_allow_preview: kinds.Switch = False
    giftcard_execution_id_header: kinds.Header = "x-vercel-execution-id"
    giftcard_inline: kinds.Switch = False
    # Whether a tick is woken for jobs between two calls of the clock, and how many run side by side
    giftcard_wake: kinds.Wake = "off"
    giftcard_fleet_ticks: kinds.Whole = Field(default=1, ge=1, le=100)
    # The page of operators lets requests of this machine in without a token
    giftcard_page_open: kinds.Switch = False
    # Failure policy
    giftcard_max_attempts: kinds.Whole = Field(default=5, ge=1, le=25)
    giftcard_backoff_base_seconds: kinds.Number = Field(default=5, gt=0, le=86_400)
    giftcard_backoff_cap_seconds: kinds.Number = Field(default=300, gt=0, le=86_400)
    max_email_retry_attempts: kinds.Whole = Field(default=5, ge=1, le=25)
    max_payment_retry_attempts: kinds.Whole = Field(default=5, ge=1, le=25)
    max_report_retry_attempts: kinds.Whole = Field(default=3, ge=1, le=25)
    giftcard_webhook_retry_seconds: kinds.Delays = (30, 60, 120)
    giftcard_failed_job_retry_hours: kinds.Number = Field(default=24, ge=0, le=8_760)
    giftcard_max_revivals: kinds.Whole = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_threshold: kinds.Whole = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_cooldown_seconds: kinds.Number = Field(default=60, gt=0, le=86_400)
    giftcard_vendor_key_hours: kinds.Number = Field(default=20, gt=0, le=8_760)
    # Providers and mail
    giftcard_payment_provider: kinds.PaymentProvider = "ledger"
    giftcard_payment_url: kinds.Service = None
    giftcard_payment_token: kinds.VendorToken = None
    giftcard_payment_lookup: kinds.Switch = True
    giftcard_card_provider: kinds.CardProvider = "ledger"
    giftcard_card_url: kinds.Service = None
    giftcard_card_token: kinds.VendorToken = None
    giftcard_card_lookup: kinds.Switch = True
    giftcard_ledger_is_meant: kinds.Switch = False
    # Minor units by currency
    giftcard_least_amounts: kinds.LeastAmounts = ()
    giftcard_encryption_keys: kinds.EncryptionKeys = None
    giftcard_lookup_key: kinds.LookupKey = None
    smtp_url: kinds.MailServer = None
    mail_from: kinds.MailSender = "Gift cards <giftcards@localhost>"
    giftcard_mail_dir: kinds.Folder = None
    # The language of mails for orders without one
    giftcard_locale: kinds.Locale = "en"
    # The customer's page, where this application is reached
    giftcard_public_url: kinds.Public = None
    giftcard_customer_page: kinds.Switch = True
    # Reports by mail; pgmq imports: queues, each with its stage and tenant
    report_recipients: kinds.Recipients = ()
    giftcard_pgmq_queues: kinds.PgmqQueues = ()
    # Monitoring: the log, alerts, metrics, Sentry
    giftcard_log_level: kinds.LogLevel = "info"
    giftcard_alert_recipients: kinds.AlertRecipients = ()
    giftcard_alert_url: kinds.Service = None
    giftcard_alert_late_seconds: kinds.Number = Field(default=900, ge=60, le=86_400)
    giftcard_alert_repeat_hours: kinds.Number = Field(default=24, gt=0, le=8_760)
    giftcard_metrics_token: kinds.OwnToken = None
    sentry_dsn: kinds.Dsn = None
    sentry_traces_sample_rate: kinds.Number = Field(default=0, ge=0, le=1)
    sentry_monitor_slug: kinds.Slug = "giftcard-jobs"
    # Square's webhooks: the key that signs them, the URL that receives them, the tenant they belong to, the merchant
    # and the locations whose events count, and what the references of our orders begin with
    square_webhook_signature_key: kinds.SignatureKey = None
    square_webhook_url: kinds.Service = None
    square_tenant_id: kinds.Tenant = "default"
    square_merchant_id: kinds.SquareId = None
    square_location_id: kinds.SquareIds = ()
    square_reference_prefix: kinds.Prefix = "gc:"
    # Networks that http_call jobs and webhooks may reach besides public addresses
    giftcard_allowed_networks: kinds.Networks = ()
    # What a project adds: packages of stages, templates that come first, the steps of an order's flow
    giftcard_stages: kinds.Packages = ()
    giftcard_templates: kinds.Templates = None
    giftcard_order_flow: kinds.OrderFlow = project.ORDER_FLOW
    # Retention in days; 0: forever
    giftcard_retention_days: kinds.Whole = Field(default=30, ge=0, le=36_500)
    giftcard_dead_letter_days: kinds.Whole = Field(default=90, ge=0, le=36_500)
    giftcard_archive_days: kinds.Whole = Field(default=365, ge=0, le=36_500)
    giftcard_history_days: kinds.Whole = Field(default=90, ge=0, le=36_500)
    giftcard_tick_days: kinds.Whole = Field(default=30, ge=0, le=36_500)
    giftcard_circuit_change_days: kinds.Whole = Field(default=90, ge=0, le=36_500)
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
    _check = field_validator("*", mode="before")(parsers.checked)

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
    def public_url(self) -> str | None:
        """The base URL of this application, without a slash at its end: `GIFTCARD_PUBLIC_URL`, else that of the
        platform's production deployment, if this is it."""
        if self.giftcard_public_url is not None:
            return self.giftcard_public_url.get_secret_value().rstrip("/")
        host = self.vercel_project_production_url if self.vercel_env == "production" else None
        return f"https://{host}" if host else None

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
