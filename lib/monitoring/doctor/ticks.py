"""Checks of the clock's last twenty ticks: whether they run, how regularly, and whether they are enough."""

from itertools import pairwise

from lib.monitoring.doctor.finding import Deployment, Finding, green, red, span, yellow

# Seconds. A platform's cron calls at any second of its minute: calls that are on time may be two minutes apart.
_SILENCE = 180
_GAP = 130
# Seconds. Calls closer together than this come from two clocks.
_TWICE = 40
_CALL = (
    'call it: curl -si $URL/api/cron/giftcard-jobs -H "Authorization: Bearer $CRON_SECRET"; '
    "docs/doctor.md#ticks explains each response"
)
# Ticks that are enough for a rhythm, and ticks in a row that make a pattern.
_RHYTHM = 6
_PATTERN = 3


def ticks(deployment: Deployment) -> Finding:
    """Check that the clock has called within three minutes, and that its ticks ended well."""
    found = deployment.facts["ticks"]
    if deployment.settings.giftcard_paused:
        return yellow("GIFTCARD_PAUSED is set: no job starts", fix="unset it to resume")
    if not deployment.settings.runs_ticks:
        return yellow("a preview deployment runs no tick", fix="set GIFTCARD_ALLOW_PREVIEW=1 to allow it")
    if not found:
        first = "deploy, then set URL to the address of the deployment (docs/deploying.md#vercel) and "
        return red("the clock has not called yet", fix=first + _CALL)
    if found[0]["age"] > _SILENCE:
        return red(f"the clock has not called for {span(found[0]['age'])}", fix=_CALL)
    errors = [tick["error"] for tick in found if tick["stopped_because"] == "failed"]
    silence = deployment.facts.get("silence")
    if silence is not None:
        why = f"the last error: {errors[0]}" if errors else "they were killed, or did not end yet"
        return red(
            f"no tick has ended well for {span(silence)}, although the clock calls; {why}",
            fix="read the function's log; docs/doctor.md#ticks",
        )
    if errors:
        return yellow(
            f"{len(errors)} of the last {len(found)} ticks failed, the last with: {errors[0]}",
            fix="read the function's log; docs/doctor.md#ticks",
        )
    killed = sum(tick["killed"] for tick in found)
    if killed:
        return yellow(
            f"{killed} of the last {len(found)} ticks were killed before their end",
            fix="check memory and duration in the function's log",
        )
    return green(f"the clock called {span(found[0]['age'])} ago")


def rhythm(deployment: Deployment) -> Finding:
    """Check for one call a minute, each over before the next."""
    found = deployment.facts["ticks"]
    gaps = [older["age"] - newer["age"] for newer, older in pairwise(found)]
    doubles = sum(tick["stopped_because"] == "duplicate" for tick in found)
    late = [gap for gap in gaps if gap > _GAP]
    overlaps = sum(
        older["ended_age"] is not None and older["ended_age"] < newer["age"] for newer, older in pairwise(found)
    )
    if late:
        return yellow(
            f"calls are missing: up to {span(max(late))} between two of the last {len(found)}",
            fix="if it continues, add a second clock: two at once are safe",
        )
    if doubles or (len(found) >= _RHYTHM and sum(gaps) / len(gaps) < _TWICE):
        what = f"{doubles} calls were delivered twice" if doubles else f"{len(found)} calls within {span(sum(gaps))}"
        return yellow(f"duplicate calls: {what}", fix="this is safe but costs: if there are two clocks, keep one")
    if len(found) >= _RHYTHM and overlaps > len(gaps) / 2:
        return yellow(
            f"ticks overlap: {overlaps} of {len(gaps)} began before the previous one had ended",
            fix="this is safe but costs: keep GIFTCARD_TICK_BUDGET_SECONDS below 60, and find slow handlers",
        )
    return green("one call a minute" if len(found) >= _RHYTHM else "too few calls yet")


def limit(deployment: Deployment) -> Finding:
    """Check that ticks end because no job is due, not because of their limits."""
    last = [tick["stopped_because"] for tick in deployment.facts["ticks"][:_PATTERN]]
    due = any(deployment.facts["queued"].values())
    for reason, setting in (("limit", "GIFTCARD_JOBS_PER_CRON_RUN"), ("budget", "GIFTCARD_CONCURRENCY")):
        if due and last == [reason] * _PATTERN:
            now = getattr(deployment.settings, setting.lower())
            return yellow(
                f"the last {_PATTERN} ticks stopped at the {reason} with due jobs left",
                fix=f"raise {setting}, now {now}, and deploy again",
            )
    return green("ticks run all due jobs")
