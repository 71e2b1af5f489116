"""Work that does not go on: killed runs, stages that wait, overdue jobs, dead letters, red lines, late starts."""

from collections.abc import Iterator
from urllib.parse import urlencode

from lib.jobs.shown import is_setting
from lib.monitoring.verdict.facts import DOCTOR, Action, Facts, Json, Trouble, is_one, number, waiting
from lib.monitoring.verdict.standstill import finding, hides_rows, paused, red_checks
from lib.monitoring.verdict.wording import at, cause, many, sentence, short, since

# Seconds that a killed run, a due job and the start of a run may take before they are a trouble.
_TAKEN_OVER, _OVERDUE, _LATE = 120, 300, 120
_MINUTES = 10
# Reasons why the oldest due job waits that are troubles themselves.
_LISTED = {
    *("all_paused", "no_tick", "circuit_open", "circuit_half_open"),
    *("stage_paused", "stage_not_configured", "stage_unknown", "due_at"),
}
# Limits other than that of runs of a stage.
_LIMITED = {"circuit_full", "tenant_full", "key_busy", "rate_limited"}
# How the text of a limit of 0 runs reads: no end of a run helps.
_STARTS_NOTHING = "starts nothing"


def killed(facts: Facts) -> Iterator[Trouble]:
    """Killed runs that no tick has taken over."""
    found = facts.overview.get("killed") or {}
    count, capped = number(found, "count"), bool(found.get("capped"))
    if not count or facts.age(found.get("since")) <= _TAKEN_OVER:
        return
    one = is_one(count, capped=capped)
    text = f"{many(count, 'run', capped=capped)} {'was' if one else 'were'} killed and not taken over"
    stage = f" (job {found['job_id']} of {short(found.get('stage'), 40)})" if found.get("job_id") else ""
    then = f"the next tick takes {'it' if one else 'them'} over, within a minute"
    if facts.stands:
        then = f"a tick takes {'it' if one else 'them'} over once ticks start jobs again"
    elif found.get("until"):
        then = f"ticks fail on it and pass over it until {at(found['until'])}: open the job to see why"
    yield Trouble(
        "killed",
        "error",
        f"{text}{since(found.get('since'))}{stage}.",
        sentence(then),
        Action("Run a tick now", "tick", ""),
    )


def waiting_stages(facts: Facts) -> Iterator[Trouble]:
    """Stages that are paused, and those that cannot run while jobs wait for them."""
    missing: Json = facts.overview.get("missing") or {}
    for name, stage in facts.stages.items():
        count, capped = facts.queued(stage)
        held, shown = waiting(count, facts.noun(name), capped=capped), short(name, 60)
        if stage.get("paused"):
            action = Action(f"Resume {shown}", "resume", name)
            then = f"{held}. None starts until you resume {shown}"
            yield Trouble("stage_paused", "warning", f"{shown} is {paused(stage['paused'])}.", sentence(then), action)
        elif count and name in missing:
            reason = str(missing[name])
            why = f"the setting {reason} is missing" if is_setting(reason) else short(reason, 100).rstrip(". ")
            done = "you set it and deploy again" if is_setting(reason) else "it is corrected and deployed again"
            then = f"{held}. {'It starts' if is_one(count, capped=capped) else 'They start'} once {done}"
            yield Trouble("stage_parked", "error", f"{shown} cannot run: {why}.", sentence(then), DOCTOR)
        elif count and stage.get("availability") == "parked" and not facts.all_paused:
            then = f"{held}. Deploy the code that has {shown}, or cancel its jobs"
            action = Action("See its jobs", "open", _jobs(stage=name, status="queued"))
            text = f"This code does not have the stage {shown}, and jobs wait for it."
            yield Trouble("stage_unknown", "error", text, sentence(then), action)


def _jobs(**filters: str) -> str:
    return f"/jobs?{urlencode(filters)}"


def overdue(facts: Facts) -> Iterator[Trouble]:
    """The oldest due job, if it waits for a reason that is no trouble by itself: its stage's limit, or its turn."""
    due = facts.overview.get("oldest_due") or {}
    if not due or due.get("reason") in _LISTED or facts.age(due.get("since")) <= _OVERDUE or facts.stands:
        return
    name = short(due.get("stage"), 40)
    if due.get("reason") in _LIMITED or _STARTS_NOTHING in str(due.get("text")):
        text = f"The oldest due job of {name} waits for a limit{since(due.get('since'))}."
        action = Action("See the limits", "open", "/limits")
        yield Trouble("overdue", "warning", text, sentence(short(due.get("text"), 200).rstrip(". ")), action)
        return
    if due.get("reason") == "stage_full":
        text = f"{name} runs as many jobs as its limit allows; its oldest waits{since(due.get('since'))}."
        then = "It starts as soon as one of them ends. If they take too long, look at what runs."
        action = Action("See what runs", "open", _jobs(stage=str(due.get("stage")), status="running"))
        yield Trouble("overdue", "warning", text, then, action)
        return
    then = f"{short(due.get('text'), 120).rstrip('. ') or 'ticks take the oldest jobs first'}"
    action = Action("Open the job", "open", f"/jobs/{due.get('job_id')}")
    text = f"Job {due.get('job_id')} of {name} is due{since(due.get('since'))}, and no tick has taken it."
    yield Trouble("overdue", "warning", text, sentence(then), action)


def dead_letters(facts: Facts) -> Iterator[Trouble]:
    """Dead letters, by stage and kind of error."""
    for group in facts.overview.get("dead") or ():
        count, capped = number(group, "count"), bool(group.get("capped"))
        one, name = is_one(count, capped=capped), short(group["stage"], 40)
        when = f" at {at(group.get('since'))}" if one else since(group.get("since"))
        text = f"{many(count, 'job', capped=capped)} of {name} failed for good{when}: {cause(group.get('kind'), 90)}."
        revives = group.get("revive_at")
        if revives and facts.stands:
            then = f"{'it is' if one else 'they are'} tried again once ticks start jobs again"
        elif revives:
            then = f"{'it' if one else 'the next one'} is tried again by itself at {at(revives)}"
        else:
            subject, those = ("it waits", "it") if one else ("they wait", "them")
            then = f"{subject} for you: correct the cause, then requeue or cancel {those}"
        label = "Requeue this job" if one else f"Requeue these {many(count, 'job', capped=capped)}"
        action = Action(label, "requeue", str(group.get("kind")), stage=str(group["stage"]))
        yield Trouble("dead_letters", "warning" if revives else "error", text, sentence(then), action)
    if facts.overview.get("dead_more"):
        text = "More kinds of errors have dead letters than are listed here."
        yield Trouble("dead_letters", "error", text, "They wait for you.", Action("See all errors", "open", "/errors"))


def red_lines(facts: Facts) -> Iterator[Trouble]:
    """The doctor's red lines that are no trouble above."""
    listed = {"schema", "writable"} | ({"ticks"} if facts.is_silent else set())
    if any(trouble.kind in ("stage_parked", "stage_unknown") for trouble in waiting_stages(facts)):
        listed.add("stages")
    if hides_rows(facts):
        listed.add("grants")
    for check in red_checks(facts):
        if check["check"] in listed:
            continue
        then = f"nothing fixes this by itself: {short(check.get('fix'), 150)}"
        yield Trouble("red_line", "error", finding(check), sentence(then), DOCTOR)


def late_starts(facts: Facts) -> Iterator[Trouble]:
    """Starts of the last minutes that were more than two minutes late."""
    starts = [minute for minute in (facts.overview.get("starts") or ())[-_MINUTES:] if minute.get("p95_ms") is not None]
    late = max((minute["p95_ms"] / 1000 for minute in starts), default=0)
    if late <= _LATE or facts.stands:
        return
    at_limit = sum(number(minute, "limit") for minute in (facts.ticks.get("minutes") or ())[-_MINUTES:])
    then = "ticks catch up by themselves: they take the oldest jobs first"
    if at_limit:
        then = f"{many(at_limit, 'tick')} stopped at the limit with jobs left; the doctor names the setting to raise"
    text = f"Jobs start late: in the last {_MINUTES} minutes up to {late / 60:,.0f} minutes after their time."
    yield Trouble("late_starts", "warning", text, sentence(then), DOCTOR)
