"""Whether ticks come, in which rhythm, and whether they suffice: over the clock's last twenty."""

from itertools import pairwise

from lib.monitoring.doctor.finding import Finding, Patient, green, red, span, yellow

# Seconds. A platform's cron calls at any second of its minute: two minutes may lie between two calls that are on time.
_SILENCE = 180
_GAP = 130
# Calls that come more often than this, in seconds from one to the next, are those of two clocks.
_TWICE = 40
# So many ticks tell a rhythm; so many in a row, a habit.
_RHYTHM = 6
_HABIT = 3


def ticks(patient: Patient) -> Finding:
    """The clock has called within three minutes, and what it called came to its end."""
    found = patient.facts["ticks"]
    if patient.settings.giftcard_paused:
        return yellow("GIFTCARD_PAUSED is set: nothing starts, and no tick is written down", mend="unset it to go on")
    if patient.settings.vercel_env == "preview" and not patient.settings.giftcard_allow_preview:
        return yellow("a preview deployment runs no tick", mend="set GIFTCARD_ALLOW_PREVIEW=1 if it shall")
    if not found or found[0]["age"] > _SILENCE:
        when = f"for {span(found[0]['age'])}" if found else "yet"
        return red(
            f"the clock has not called {when}",
            mend='call it: curl -si $URL/api/cron/giftcard-jobs -H "Authorization: Bearer $CRON_SECRET"; '
            "docs/doctor.md#ticks tells what each answer means",
        )
    killed = sum(tick["killed"] for tick in found)
    if killed:
        return yellow(
            f"{killed} of the last {len(found)} ticks were killed before their end",
            mend="look in the function's log for memory and time",
        )
    return green(f"the clock called {span(found[0]['age'])} ago")


def rhythm(patient: Patient) -> Finding:
    """One call a minute, each over before the next."""
    found = patient.facts["ticks"]
    gaps = [older["age"] - newer["age"] for newer, older in pairwise(found)]
    doubles = sum(tick["stopped_because"] == "duplicate" for tick in found)
    late = [gap for gap in gaps if gap > _GAP]
    overlaps = sum(
        older["ended_age"] is not None and older["ended_age"] < newer["age"] for newer, older in pairwise(found)
    )
    if late:
        return yellow(
            f"calls are missing: up to {span(max(late))} lay between two of the last {len(found)}",
            mend="if it goes on, add a second clock: two at once are safe",
        )
    if doubles or (len(found) >= _RHYTHM and sum(gaps) / len(gaps) < _TWICE):
        what = f"{doubles} calls were delivered twice" if doubles else f"{len(found)} calls within {span(sum(gaps))}"
        return yellow(f"calls come doubled: {what}", mend="it is safe but costs: if you have two clocks, leave one")
    if len(found) >= _RHYTHM and overlaps > len(gaps) / 2:
        return yellow(
            f"ticks overlap: {overlaps} of {len(gaps)} began before the one before had ended",
            mend="it is safe but costs: keep GIFTCARD_TICK_BUDGET_SECONDS below 60, and look for slow handlers",
        )
    return green("one call a minute" if len(found) >= _RHYTHM else "too few calls yet to tell")


def limit(patient: Patient) -> Finding:
    """Ticks end because nothing is due, not because they may do no more."""
    last = [tick["stopped_because"] for tick in patient.facts["ticks"][:_HABIT]]
    due = any(patient.facts["queued"].values())
    for reason, setting in (("limit", "GIFTCARD_JOBS_PER_CRON_RUN"), ("budget", "GIFTCARD_CONCURRENCY")):
        if due and last == [reason] * _HABIT:
            now = getattr(patient.settings, setting.lower())
            return yellow(
                f"the last {_HABIT} ticks stopped at the {reason}, with jobs left that are due",
                mend=f"raise {setting}, now {now}, and deploy again",
            )
    return green("ticks do all that is due")
