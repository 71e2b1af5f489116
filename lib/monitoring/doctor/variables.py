"""The check of the names of environment variables."""

import functools
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from pydantic import SecretStr

from lib.config import job_secrets
from lib.config.mail_address import is_mail_address
from lib.config.parsers import MAX_RECIPIENTS
from lib.config.settings import RENAMED, Settings
from lib.mail_address import is_sendable
from lib.monitoring.doctor.finding import Deployment, Finding, green, red, yellow

# How alike two names are that one is taken for the other, of 1: SMPT_URL and SMTP_URL are to 0.875.
_ALIKE = 0.85
# Names that others use for what one of ours means. They matter only if ours is not set.
_ALIASES = {
    **dict.fromkeys(("POSTGRESQL_URL", "PG_URL", "DB_URL", "SUPABASE_DB_URL"), "DATABASE_URL"),
    **dict.fromkeys(("SUPABASE_KEY", "SUPABASE_SECRET", "SUPABASE_SERVICE_KEY"), "SUPABASE_SECRET_KEY"),
    **dict.fromkeys(("SMTP_HOST", "SMTP_SERVER", "MAIL_URL", "MAIL_SERVER", "MAIL_HOST", "EMAIL_HOST"), "SMTP_URL"),
    **dict.fromkeys(("FROM_EMAIL", "MAIL_SENDER", "SMTP_FROM", "DEFAULT_FROM_EMAIL"), "MAIL_FROM"),
    **dict.fromkeys(("CRON_TOKEN", "CRON_KEY", "VERCEL_CRON_SECRET"), "CRON_SECRET"),
    **dict.fromkeys(("ADMIN_TOKEN", "API_ADMIN_TOKEN"), "GIFTCARD_ADMIN_TOKEN"),
    "API_TOKEN": "GIFTCARD_API_TOKEN",
    **dict.fromkeys(("ENCRYPTION_KEY", "ENCRYPTION_KEYS"), "GIFTCARD_ENCRYPTION_KEYS"),
    "SENTRY_URL": "SENTRY_DSN",
}


def variables(deployment: Deployment) -> Finding:
    """Check for unknown variables: misspelt, renamed, or without the one that they need."""
    settings = deployment.settings
    registry = deployment.registry
    unknown = _unknown(settings, stages=sorted({*registry.stages, *registry.broken}), own=registry.own_variables())
    found = {
        f"{name} is now {RENAMED[name]}: rename it": "set the variable under its new name and deploy again"
        for name in settings.unknown
        if name in RENAMED
    }
    if unknown:
        fix = "correct the name as in docs/settings.md, or remove the variable, and deploy again"
        found[f"unknown variables: {', '.join(unknown)}"] = fix
    if bool(settings.supabase_url) != bool(supabase_key(settings)):
        found |= {"only one of SUPABASE_URL and SUPABASE_SECRET_KEY is set, so it is not used": "set both, or neither"}
    found |= dict.fromkeys(_wrong_alert_channels(settings), "correct it: no alert reaches this channel")
    if not found:
        return green("no unknown variables")
    return (red if unknown else yellow)("; ".join(found), fix="; ".join(dict.fromkeys(found.values())))


def supabase_key(settings: Settings) -> SecretStr | None:
    """Return the key of Supabase's API that is used."""
    return settings.supabase_secret_key or settings.supabase_service_role_key


def _unknown(settings: Settings, *, stages: Sequence[str], own: Collection[str]) -> list[str]:
    """Return the variables that are not read although they seem to be meant for us, each with its likely name."""
    found = []
    for stage in sorted(set(settings.stage_overrides) - set(stages)):
        near = get_close_matches(stage, stages, n=1)
        found.append(f"GIFTCARD_STAGE_{stage.upper()}_… (there is no stage {stage}{_did_you_mean(*near)})")
    ours = [name for name in settings.unknown if name not in RENAMED and name not in own]
    found += [f"{name}{_hint(name)}" for name in ours]
    foreign = tuple(name for name in settings.foreign if name not in own)
    found += [f"{name} (did you mean {meant}?)" for name, meant in _misspelt(foreign, tuple(sorted(own)))]
    for name in foreign:
        meant = _ALIASES.get(name.upper(), "")
        is_set = meant.lower() in settings.model_fields_set
        has_database = meant == "DATABASE_URL" and bool(settings.supabase_url and supabase_key(settings))
        has_key = meant == "SUPABASE_SECRET_KEY" and settings.supabase_service_role_key is not None
        if meant and not (is_set or has_database or has_key):
            found.append(f"{name} (did you mean {meant}?)")
    return found


def _did_you_mean(*names: str) -> str:
    return f"; did you mean {names[0]}?" if names else ""


def _hint(name: str) -> str:
    if secret := job_secrets.bounded(name):
        return f" ({secret} is not set)"
    meant = _near(name, 0.6)
    return f" (did you mean {meant}?)" if meant else ""


@functools.lru_cache(maxsize=4)
def _misspelt(foreign: tuple[str, ...], own: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names that are almost ours, each with ours. It takes milliseconds, and names never change."""
    pairs = [(name, _near(name, _ALIKE, own)) for name in foreign if name.upper() not in _ALIASES]
    return [(name, meant) for name, meant in pairs if meant]


def _near(name: str, alike: float, own: Sequence[str] = ()) -> str | None:
    known = [*(field.upper() for field in Settings.model_fields), *own]
    return next(iter(get_close_matches(name.upper(), known, n=1, cutoff=alike)), None)


def _wrong_alert_channels(settings: Settings) -> list[str]:
    """Return what is wrong with the channels of alerts, none of which stops the application."""
    wrong = []
    recipients = settings.giftcard_alert_recipients
    for position, address in enumerate(recipients[:MAX_RECIPIENTS], start=1):
        if not is_mail_address(address) or not is_sendable(address):
            wrong.append(f"address {position} of GIFTCARD_ALERT_RECIPIENTS is not a mail address")
    if len(recipients) > MAX_RECIPIENTS:
        wrong.append(f"GIFTCARD_ALERT_RECIPIENTS has more than {MAX_RECIPIENTS} addresses: use a mailing list")
    return wrong
