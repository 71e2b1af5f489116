"""Checks of what was configured. They need no database, though two of them know more with its answer."""

from itertools import combinations
from urllib.parse import urlsplit

from pydantic import SecretStr

from lib.config.settings import MARGIN_SECONDS, Settings
from lib.monitoring.doctor.finding import Finding, Patient, VercelFile, green, red, yellow

# Fewer characters than this can be tried out.
_SHORTEST_SECRET = 16
_CRON_PATH = "/api/cron/giftcard-jobs"

_DOORS = {
    "cron_secret": "no clock can call",
    "giftcard_admin_token": "no operator can come in over HTTP",
    "giftcard_api_token": "orders need the admin token",
}


def secrets(patient: Patient) -> Finding:
    """Each door has a secret of its own, which is long enough and can travel in a header."""
    named = {name: getattr(patient.settings, name) for name in (*_DOORS, "giftcard_lookup_key")}
    values = {name.upper(): secret.get_secret_value() for name, secret in named.items() if secret is not None}
    values = {name: value for name, value in values.items() if value.strip()}
    missing = [name.upper() for name in _DOORS if name.upper() not in values]
    wrong = [f"{name} is not set: {_DOORS[name.lower()]}" for name in missing]
    for name, value in values.items():
        if value != value.strip():
            wrong.append(f"{name} begins or ends with a space or a line break")
        elif not (value.isascii() and value.isprintable()):
            wrong.append(f"{name} holds characters that no header can carry")
        elif len(value) < _SHORTEST_SECRET:
            wrong.append(f"{name} is shorter than {_SHORTEST_SECRET} characters")
    wrong += [f"{a} and {b} are the same" for a, b in combinations(values, 2) if values[a] == values[b]]
    if not wrong:
        return green("each door has a secret of its own")
    mend = (
        "set each to a value of its own and deploy again; "
        "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    )
    if wrong == [f"GIFTCARD_API_TOKEN is not set: {_DOORS['giftcard_api_token']}"]:
        return yellow(wrong[0], mend=mend)
    return red("; ".join(wrong), mend=mend)


def variables(patient: Patient) -> Finding:
    """No variable looks like ours without being read."""
    strangers = sorted(set(patient.settings.stage_rules) - set(patient.registry.stages))
    unknown = [f"GIFTCARD_STAGE_{stage.upper()}_… (there is no stage {stage})" for stage in strangers]
    unknown += patient.settings.unknown
    if bool(patient.settings.supabase_url) != bool(_supabase_key(patient.settings)):
        return yellow(
            "SUPABASE_URL and SUPABASE_SECRET_KEY need each other: one of them is not set, so the other is not used",
            mend="set both, or neither",
        )
    if not unknown:
        return green("every variable that looks like ours is read")
    return yellow(f"nobody reads {', '.join(unknown)}", mend="look the name up in docs/settings.md, or take it away")


def time(patient: Patient) -> Finding:
    """A run that begins at the last moment still ends before the platform kills the function."""
    found = _vercel(patient)
    if isinstance(found, Finding):
        return found
    function = found.functions.get("api/index.py")
    most = function and function.maxDuration
    if not most:
        return yellow(
            "vercel.json gives api/index.py no maxDuration: the platform's default may be too short",
            mend='set "maxDuration" under "functions" in vercel.json and deploy again',
        )
    longest = max(patient.registry.stages.values(), key=lambda one: one.effective(patient.settings, "longest_seconds"))
    budget, ttr = patient.settings.giftcard_tick_budget_seconds, longest.effective(patient.settings, "longest_seconds")
    sum_ = f"budget {budget:g} s + ttr {ttr} s of stage {longest.name} + {MARGIN_SECONDS} s"
    if budget + ttr + MARGIN_SECONDS <= most:
        return green(f"{sum_} is within maxDuration, {most} s")
    return red(
        f"{sum_} is more than maxDuration, {most} s: runs that begin late will be killed",
        mend="raise maxDuration in vercel.json, or lower GIFTCARD_TICK_BUDGET_SECONDS or the ttr; deploy again",
    )


def cron(patient: Patient) -> Finding:
    """vercel.json has the minute's call, or another clock calls."""
    found = _vercel(patient)
    if isinstance(found, Finding):
        return found
    clocks = [*found.crons, *found.schedules.values()]
    schedules = [clock.schedule for clock in clocks if clock.path == _CRON_PATH]
    if "* * * * *" in schedules:
        return green(f"vercel.json has {_CRON_PATH} called each minute")
    what = f"calls {_CRON_PATH} at {schedules[0]}, not each minute" if schedules else f"has no cron for {_CRON_PATH}"
    mend = f'add {{"path": "{_CRON_PATH}", "schedule": "* * * * *"}} under "crons", or set up another clock'
    if "ticks" not in patient.facts:
        return yellow(f"vercel.json {what}; whether another clock calls is not known", mend=mend)
    if any(tick["age"] <= 180 for tick in patient.facts["ticks"]):
        return green(f"vercel.json {what}; another clock calls")
    return red(f"vercel.json {what}, and no other clock calls", mend=mend)


def _vercel(patient: Patient) -> VercelFile | Finding:
    try:
        found = patient.vercel
    except ValueError:
        return red("vercel.json is not as it should be", mend="mend it: nothing can be deployed with it")
    return green("not looked at: vercel.json is not here") if found is None else found


def pooler(patient: Patient) -> Finding:
    """Many functions share few connections, and no prepared statement is left in one."""
    url = patient.settings.database_url
    if url is None or over_supabase(patient.settings):
        return green("not in use: no call goes over DATABASE_URL")
    host, port = _host_and_port(url.get_secret_value())
    prepared = patient.facts.get("prepared_statements")
    if prepared:
        return (red if port == 6543 else yellow)(
            f"this connection has {prepared} prepared statements: a pooler in transaction mode gives them to others",
            mend="keep prepare_threshold at None in lib/store/postgres.py",
        )
    if host.endswith(".pooler.supabase.com") and port == 5432:
        return yellow(
            "DATABASE_URL goes to the pooler in session mode (port 5432), where each function holds a connection",
            mend="take the transaction pooler's string: port 6543",
        )
    if host.startswith("db.") and host.endswith(".supabase.co"):
        return yellow(
            "DATABASE_URL goes straight to the database, which has few connections and, without an add-on, IPv6 only",
            mend="take the transaction pooler's string: host …pooler.supabase.com, port 6543",
        )
    return green("transaction mode, no prepared statements" if port == 6543 else "no prepared statements")


def over_supabase(settings: Settings) -> bool:
    """Whether calls go through PostgREST (`lib.store.connect` decides so)."""
    return bool(settings.supabase_url and _supabase_key(settings))


def _supabase_key(settings: Settings) -> SecretStr | None:
    return settings.supabase_secret_key or settings.supabase_service_role_key


def _host_and_port(url: str) -> tuple[str, int]:
    """Of an address like postgresql://…; of what libpq understands besides, nothing."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or 5432
    except ValueError:
        return "", 5432
