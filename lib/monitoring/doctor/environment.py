"""Checks of the configuration. They need no database; two of them are more precise with its facts."""

from collections.abc import Iterator
from itertools import combinations

from pydantic import SecretStr

from lib.config.parsers import MAX_RECIPIENTS, is_mail_address
from lib.config.settings import MARGIN_SECONDS, RENAMED, Settings
from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, VercelFile, green, red, yellow

# Shorter secrets can be guessed.
_SHORTEST_SECRET = 16
_CRON_PATH = "/api/cron/giftcard-jobs"

_RENAME = "set the variable under its new name and deploy again"

_TOKENS = {
    "cron_secret": "the clock cannot call",
    "giftcard_admin_token": "operators cannot use the API",
    "giftcard_api_token": "orders need the admin token",
}


def secrets(deployment: Deployment) -> Finding:
    """Check that each token is set, unique, long enough and valid in a header."""
    named = {name: getattr(deployment.settings, name) for name in (*_TOKENS, "giftcard_lookup_key")}
    values = {name.upper(): secret.get_secret_value() for name, secret in named.items() if secret is not None}
    missing = [name.upper() for name in _TOKENS if name.upper() not in values]
    wrong = [f"{name} is not set: {_TOKENS[name.lower()]}" for name in missing]
    for name, value in values.items():
        if not (value.isascii() and value.isprintable()):
            wrong.append(f"{name} contains characters that a header cannot hold")
        elif len(value) < _SHORTEST_SECRET:
            wrong.append(f"{name} is shorter than {_SHORTEST_SECRET} characters")
    wrong += [f"{a} and {b} are the same" for a, b in combinations(values, 2) if values[a] == values[b]]
    if not wrong:
        return green("every token is set, long enough and unique")
    fix = (
        "set each to its own value and deploy again; "
        "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' generates one"
    )
    if wrong == [f"GIFTCARD_API_TOKEN is not set: {_TOKENS['giftcard_api_token']}"]:
        return yellow(wrong[0], fix=fix)
    return red("; ".join(wrong), fix=fix)


def variables(deployment: Deployment) -> Finding:
    """Check for unknown variables: misspelt, renamed, or without the one that they need."""
    settings = deployment.settings
    no_stages = sorted(set(settings.stage_overrides) - set(deployment.registry.stages))
    unknown = [f"GIFTCARD_STAGE_{stage.upper()}_… (there is no stage {stage})" for stage in no_stages]
    unknown += [name for name in settings.unknown if name not in RENAMED]
    found = {f"{name} is now {RENAMED[name]}: rename it": _RENAME for name in settings.unknown if name in RENAMED}
    if unknown:
        found[f"unknown variables: {', '.join(unknown)}"] = "find the name in docs/settings.md, or remove the variable"
    if bool(settings.supabase_url) != bool(_supabase_key(settings)):
        found |= {"only one of SUPABASE_URL and SUPABASE_SECRET_KEY is set, so it is not used": "set both, or neither"}
    found |= dict.fromkeys(_missing_for_square(settings), "set each, as docs/webhooks.md describes")
    found |= dict.fromkeys(_wrong_alert_channels(settings), "correct it: no alert reaches this channel")
    if not found:
        return green("no unknown variables")
    return yellow("; ".join(found), fix="; ".join(dict.fromkeys(found.values())))


def _missing_for_square(settings: Settings) -> Iterator[str]:
    """Return what is missing to receive Square's events as intended, once one of the settings for it is set."""
    key, url = settings.square_webhook_signature_key, settings.square_webhook_url
    if bool(key) != bool(url):
        yield f"SQUARE_WEBHOOK_{'URL' if key else 'SIGNATURE_KEY'} is not set: events from Square are rejected"
    if key and not settings.square_merchant_id:
        yield "SQUARE_MERCHANT_ID is not set: events of every merchant count"
    if key and not settings.square_location_id:
        yield "SQUARE_LOCATION_ID is not set: payments at every location count"


def _wrong_alert_channels(settings: Settings) -> Iterator[str]:
    """Return what is wrong with the channels of alerts, none of which stops the application."""
    recipients = settings.giftcard_alert_recipients
    for position, address in enumerate(recipients[:MAX_RECIPIENTS], start=1):
        if not is_mail_address(address):
            yield f"address {position} of GIFTCARD_ALERT_RECIPIENTS is not a mail address"
    if len(recipients) > MAX_RECIPIENTS:
        yield f"GIFTCARD_ALERT_RECIPIENTS has more than {MAX_RECIPIENTS} addresses: use a mailing list"


def sentry(deployment: Deployment) -> Finding:
    """Check that SENTRY_DSN is the address of a project. Without one there is no such line."""
    if deployment.settings.sentry_dsn is None:
        raise FactMissing("sentry_dsn")
    from lib.telemetry.sentry import is_dsn

    if is_dsn(deployment.settings):
        return green("SENTRY_DSN is the address of a project")
    return yellow(
        "SENTRY_DSN is not the address of a Sentry project over https: nothing is sent to Sentry",
        fix="copy it again from Sentry (Settings → Client Keys), or remove it; deploy again",
    )


def time(deployment: Deployment) -> Finding:
    """Check that a run that begins at the last moment ends before the platform kills the function."""
    found = _vercel(deployment)
    if isinstance(found, Finding):
        return found
    function = found.functions.get("api/index.py")
    most = function and function.maxDuration
    if not most:
        return yellow(
            "vercel.json sets no maxDuration for api/index.py: the platform's default may be too short",
            fix='set "maxDuration" under "functions" in vercel.json and deploy again',
        )
    settings = deployment.settings
    longest = max(deployment.registry.stages.values(), key=lambda stage: stage.effective(settings, "longest_seconds"))
    budget, ttr = settings.giftcard_tick_budget_seconds, longest.effective(settings, "longest_seconds")
    sum_ = f"budget {budget:g} s + ttr {ttr} s of stage {longest.name} + {MARGIN_SECONDS} s"
    if budget + ttr + MARGIN_SECONDS <= most:
        return green(f"{sum_} is within maxDuration, {most} s")
    return red(
        f"{sum_} is more than maxDuration, {most} s: runs that begin late will be killed",
        fix="raise maxDuration in vercel.json, or lower GIFTCARD_TICK_BUDGET_SECONDS or the ttr; deploy again",
    )


def cron(deployment: Deployment) -> Finding:
    """Check that vercel.json calls each minute, or that another clock does."""
    found = _vercel(deployment)
    if isinstance(found, Finding):
        return found
    clocks = [*found.crons, *found.schedules.values()]
    schedules = [clock.schedule for clock in clocks if clock.path == _CRON_PATH]
    if "* * * * *" in schedules:
        return green(f"vercel.json calls {_CRON_PATH} each minute")
    what = f"calls {_CRON_PATH} at {schedules[0]}, not each minute" if schedules else f"has no cron for {_CRON_PATH}"
    fix = f'add {{"path": "{_CRON_PATH}", "schedule": "* * * * *"}} under "crons", or set up another clock'
    if "ticks" not in deployment.facts:
        return yellow(f"vercel.json {what}; whether another clock calls is unknown", fix=fix)
    if any(tick["age"] <= 180 for tick in deployment.facts["ticks"]):
        return green(f"vercel.json {what}; another clock calls")
    return red(f"vercel.json {what}, and no other clock calls", fix=fix)


def _vercel(deployment: Deployment) -> VercelFile | Finding:
    try:
        found = deployment.vercel
    except ValueError:
        return red("vercel.json is not valid", fix="correct it: Vercel cannot deploy with it")
    return green("not checked: there is no vercel.json") if found is None else found


def pooler(deployment: Deployment) -> Finding:
    """Check that functions share connections through a pooler, without prepared statements."""
    url = deployment.settings.database
    if url is None or over_supabase(deployment.settings):
        return green("not in use: no call goes through DATABASE_URL")
    host, port = url.host, url.port
    prepared = deployment.facts.get("prepared_statements")
    if prepared:
        return (red if port == 6543 else yellow)(
            f"this connection has {prepared} prepared statements: a pooler in transaction mode gives them to others",
            fix="keep prepare_threshold at None in lib/store/connections.py",
        )
    if host.endswith(".pooler.supabase.com") and port == 5432:
        return yellow(
            "DATABASE_URL uses the pooler in session mode (port 5432), where each function holds a connection",
            fix="use the transaction pooler's string: port 6543",
        )
    if host.startswith("db.") and host.endswith(".supabase.co"):
        return yellow(
            "DATABASE_URL connects directly to the database, which has few connections and often only IPv6",
            fix="use the transaction pooler's string: host …pooler.supabase.com, port 6543",
        )
    return green("transaction mode, no prepared statements" if port == 6543 else "no prepared statements")


def over_supabase(settings: Settings) -> bool:
    """Return whether calls go through PostgREST, as `lib.store.connect` decides."""
    return bool(settings.supabase_url and _supabase_key(settings))


def _supabase_key(settings: Settings) -> SecretStr | None:
    return settings.supabase_secret_key or settings.supabase_service_role_key
