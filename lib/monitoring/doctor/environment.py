"""Checks of the platform: the function's time, its clock, its way to the database.

They need no database; two of them are more precise with its facts.
"""

from lib.config.settings import MARGIN_SECONDS, Settings
from lib.monitoring.doctor.finding import Deployment, Finding, VercelFile, green, red, yellow
from lib.monitoring.doctor.variables import supabase_key

_CRON_PATH = "/api/cron/giftcard-jobs"


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
    """Check that functions share connections through a pooler, and leave nothing on them."""
    url = deployment.settings.database
    if url is None or over_supabase(deployment.settings):
        return green("not in use: no call goes through DATABASE_URL")
    host, port = url.host, url.port
    prepared = deployment.facts.get("prepared_statements")
    if prepared and port == 6543:
        return red(
            f"this connection has {prepared} prepared statements: a pooler in transaction mode gives them to others",
            fix="restart the pooler's connections, and correct where lib/store/exchange.py sets `prepares`",
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
    return green("transaction mode, no prepared statements" if port == 6543 else "no pooler of Supabase")


def over_supabase(settings: Settings) -> bool:
    """Return whether calls go through PostgREST, as `lib.store.connect` decides."""
    return bool(settings.supabase_url and supabase_key(settings))
