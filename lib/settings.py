"""Every setting, from the environment: the one list. `docs/settings.md` explains each."""

import os
import re
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_STAGE_VARIABLE = re.compile(
    r"GIFTCARD_STAGE_([A-Z][A-Z0-9_]*?)_(MAX_ATTEMPTS|BASE_SECONDS|CAP_SECONDS|JITTER|DELAYS|TTR_SECONDS)"
)


class SettingsError(Exception):
    """A variable is wrong: the message names it, what it holds (unless secret) and what is allowed."""


def _seconds_list(value: Any) -> Any:
    return [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class StageRules(BaseModel):
    """What `GIFTCARD_STAGE_<NAME>_*` say of one stage; None: not said. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    max_attempts: int | None = Field(default=None, ge=1, le=25)
    base_seconds: float | None = Field(default=None, gt=0, le=86_400)
    cap_seconds: float | None = Field(default=None, gt=0, le=86_400)
    jitter: float | None = Field(default=None, ge=0, le=1)
    delays: tuple[Annotated[float, Field(ge=0, le=86_400)], ...] | None = None
    ttr_seconds: int | None = Field(default=None, ge=1, le=3_600)

    _split_delays = field_validator("delays", mode="before")(_seconds_list)


class Settings(BaseSettings):
    """Read once a start, by `load`; frozen. Empty secrets count as unset."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    # Who we are
    giftcard_env: Literal["production", "preview", "development", "test"] | None = None
    vercel_env: str | None = None
    # Doors: an unset secret shuts its door
    cron_secret: SecretStr | None = None
    giftcard_admin_token: SecretStr | None = None
    giftcard_api_token: SecretStr | None = None
    # The database
    database_url: SecretStr | None = None
    # The tick
    giftcard_jobs_per_cron_run: int = Field(default=10, ge=1, le=100_000)
    giftcard_concurrency: int = Field(default=5, ge=1, le=100)
    giftcard_tick_budget_seconds: float = Field(default=50, gt=0, le=780)
    giftcard_tick_linger: bool = True
    giftcard_paused: bool = False
    giftcard_allow_preview: bool = False
    # Failure policy
    giftcard_max_attempts: int = Field(default=5, ge=1, le=25)
    giftcard_backoff_base_seconds: float = Field(default=5, gt=0, le=86_400)
    giftcard_backoff_cap_seconds: float = Field(default=300, gt=0, le=86_400)
    max_email_retry_attempts: int = Field(default=5, ge=1, le=25)
    max_payment_retry_attempts: int = Field(default=5, ge=1, le=25)
    max_report_retry_attempts: int = Field(default=3, ge=1, le=25)
    giftcard_webhook_retry_seconds: Annotated[tuple[Annotated[float, Field(ge=0, le=86_400)], ...], NoDecode] = (
        30,
        60,
        120,
    )
    giftcard_failed_job_retry_hours: float = Field(default=24, ge=0, le=8_760)
    giftcard_max_revivals: int = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_threshold: int = Field(default=3, ge=0, le=1_000)
    giftcard_circuit_cooldown_seconds: float = Field(default=60, gt=0, le=86_400)
    giftcard_vendor_key_hours: float = Field(default=20, gt=0, le=8_760)
    # Vendors
    giftcard_payment_provider: Literal["ledger", "http"] = "ledger"
    giftcard_payment_url: str | None = Field(default=None, repr=False)  # it may hold a password
    giftcard_payment_token: SecretStr | None = None
    giftcard_payment_lookup: bool = True
    giftcard_card_provider: Literal["ledger", "http"] = "ledger"
    giftcard_card_url: str | None = Field(default=None, repr=False)
    giftcard_card_token: SecretStr | None = None
    giftcard_card_lookup: bool = True
    giftcard_encryption_keys: SecretStr | None = None
    giftcard_lookup_key: SecretStr | None = None
    smtp_url: SecretStr | None = None
    mail_from: str = "Gift cards <giftcards@localhost>"
    giftcard_mail_dir: str | None = None
    # `GIFTCARD_STAGE_<NAME>_*`, by stage
    stage_rules: dict[str, StageRules] = Field(default_factory=dict, exclude=True)

    _split_delays = field_validator("giftcard_webhook_retry_seconds", mode="before")(_seconds_list)

    @property
    def environment(self) -> str:
        """`GIFTCARD_ENV`, else Vercel's word, else production: what is unknown is treated with most care."""
        if self.giftcard_env:
            return self.giftcard_env
        return self.vercel_env if self.vercel_env in ("production", "preview", "development") else "production"

    @property
    def is_production(self) -> bool:
        """Preview counts: it may hold real data."""
        return self.environment in ("production", "preview")

    def secrets(self) -> list[str]:
        """The values that must never be shown, the longest first."""
        values = (getattr(self, name) for name in type(self).model_fields)
        wholes = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        parts = {part for whole in wholes for part in _parts(whole) if len(part) >= 8}
        return sorted(parts, key=len, reverse=True)


def _parts(secret: str) -> list[str]:
    """What of a secret is secret by itself: the items of a list; a URL's password, as it stands there and in clear."""
    try:
        password = urlsplit(secret).password or ""
    except ValueError:
        password = ""
    return [secret, *secret.split(","), password, unquote(password)]


def _stage_rules(environ: dict[str, str]) -> dict[str, StageRules]:
    found: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        match = _STAGE_VARIABLE.fullmatch(name)
        if match and value:
            found.setdefault(match[1].lower(), {})[match[2].lower()] = value
    rules = {}
    for stage, values in found.items():
        try:
            rules[stage] = StageRules.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            variable = f"GIFTCARD_STAGE_{stage}_{first['loc'][0]}".upper()
            raise SettingsError(f"{variable}={first['input']!r}: {first['msg']}") from None
    return rules


def load() -> Settings:
    """Settings from the process's environment.

    Raises:
        SettingsError: one sentence that names the variable, for the first that is wrong.
    """
    try:
        return Settings(stage_rules=_stage_rules(dict(os.environ)))
    except ValidationError as error:
        first = error.errors()[0]
        variable = str(first["loc"][0]).upper()
        secret = variable.endswith(("_SECRET", "_TOKEN", "_KEY", "_KEYS", "_URL"))
        value = "" if secret else f"={os.environ.get(variable, '')!r}"
        raise SettingsError(f"{variable}{value}: {first['msg']}") from None
