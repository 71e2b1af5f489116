"""Nothing runs: schema and code do not fit, no tick ends well, everything is paused."""

from collections.abc import Iterator

from lib.monitoring.verdict.facts import DOCTOR, SILENCE, Action, Facts, Json, Trouble
from lib.monitoring.verdict.wording import cause, sentence, short, since

# The doctor's checks without which no job is claimed.
_NEEDED = ("schema", "writable")
_TICK = Action("Run a tick now", "tick", "")


def unfit(facts: Facts) -> Iterator[Trouble]:
    """The database cannot be used: schema and code do not fit, it accepts no writes, or its rows are hidden."""
    for check in red_checks(facts):
        if check["check"] in _NEEDED or (check["check"] == "grants" and hides_rows(facts)):
            then = f"Jobs wait and lose no attempt until this is done: {short(check.get('fix'), 140)}"
            yield Trouble("unfit", "error", finding(check), sentence(then), DOCTOR)


def red_checks(facts: Facts) -> list[Json]:
    """Return the doctor's red lines."""
    return [check for check in facts.overview.get("checks") or () if check["level"] == "red"]


def finding(check: Json) -> str:
    """Return what a check found, as a sentence."""
    return sentence(short(check.get("message"), 190)) or f"The check {short(check['check'], 40)} is red."


def hides_rows(facts: Facts) -> bool:
    """Return whether row level security hides every row, so that all counts are 0."""
    return bool((facts.overview.get("doctor") or {}).get("hides_rows"))


def silent(facts: Facts) -> Iterator[Trouble]:
    """No tick has ended well for three minutes: none ever came, the clock is silent, or ticks fail or are killed."""
    if not facts.is_silent:
        return
    newest, waiting = facts.ticks.get("newest"), facts.all_wait()
    if facts.overview.get("runs_ticks", True) is False:
        then = f"{waiting}. If it is to run ticks, set GIFTCARD_ALLOW_PREVIEW=1 and deploy again"
        yield Trouble("no_tick", "warning", "This preview deployment runs no tick.", sentence(then), DOCTOR)
    elif not newest:
        then = f"{waiting}; the first tick starts what is due. Let a clock call once a minute"
        yield Trouble("no_tick", "error", "No tick has run yet: no clock calls.", sentence(then), _TICK)
    elif facts.age(newest.get("started_at")) > SILENCE:
        text = f"No tick has begun{since(newest.get('started_at'))}: the clock does not call."
        then = f"{waiting}; the next tick starts what is due. See the doctor"
        yield Trouble("no_tick", "error", text, sentence(then), _TICK)
    else:
        last_good = facts.ticks.get("last_good") or {}
        began = since(facts.ticks.get("silence_began") or last_good.get("ended_at"))
        error = newest.get("error")
        why = f"the newest failed: {cause(error, 100)}" if error else "they begin, and are killed before their end"
        look = "the function's log has the reason" if error else "check memory and duration in the function's log"
        then = f"{waiting}. The clock calls again within a minute; {look}"
        yield Trouble("no_tick", "error", f"No tick has ended well{began}: {why}.", sentence(then), DOCTOR)


def everything_paused(facts: Facts) -> Iterator[Trouble]:
    """Everything is paused, by the setting or by a person."""
    pause = facts.all_paused
    if not pause:
        return
    if facts.paused_by_setting:
        text = "Everything is paused by the setting GIFTCARD_PAUSED."
        then = f"{facts.all_wait()}. Nothing starts until you unset it and deploy again"
        yield Trouble("all_paused", "error", text, sentence(then), DOCTOR)
        return
    then = f"{facts.all_wait()}. Nothing starts until you resume it"
    action = Action("Resume everything", "resume", "*")
    yield Trouble("all_paused", "error", f"Everything is {paused(pause)}.", sentence(then), action)


def paused(pause: Json) -> str:
    """Return who has paused it, since when and why."""
    reason = short(pause.get("reason"), 70).rstrip(". ")
    who = short(pause.get("by"), 40) or "somebody"
    return f"paused by {who}{since(pause.get('since'))}{f': {reason}' if reason else ''}"
