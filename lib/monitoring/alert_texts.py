"""The texts of alerts: what is wrong and what to do."""

from collections import defaultdict
from typing import Any

Json = dict[str, Any]

_KINDS = {"raised": "", "repeated": "Still: ", "resolved": "Resolved: "}
# The message while a condition holds, with what to do, and the one when it is resolved.
_MESSAGES = {
    "dead_letters": (
        "dead letters: {jobs}{or_more}, of {stages}. See why: flask jobs list --status error",
        "no dead letters are left",
    ),
    "circuit": (
        "circuit {subject} is open: {cause}. Its jobs wait; see flask jobs circuits",
        "circuit {subject} is closed",
    ),
    "no_tick": ("no tick has ended well for {minutes} minutes: see why with flask jobs doctor", "ticks run again"),
    "late": (
        "the oldest due job of stage {subject} has waited for {minutes} minutes. See flask jobs status",
        "jobs of stage {subject} start on time",
    ),
    "books": (
        "money and cards do not match: {label}: {items}{or_more}{spent_text}, the first is order {first}. "
        "See flask jobs orders reconcile",
        "money and cards match again: {label}",
    ),
    "limit": (
        "the last ten ticks all stopped at the {stopped_because} with due jobs left: raise GIFTCARD_JOBS_PER_CRON_RUN "
        "(limit) or GIFTCARD_CONCURRENCY (budget)",
        "ticks run all due jobs again",
    ),
    "denied_requests": (
        "{requests} requests with a wrong token or signature within ten minutes: see which paths in the log, event "
        "request_denied",
        "few requests have a wrong token or signature now",
    ),
    "check_failed": (
        "the check of {subject} fails, so its alerts are not known: {sqlstate} {error}. See flask jobs doctor",
        "the check of {subject} works again",
    ),
    "more": (
        "{more} more alerts of the kind {subject} are not listed. See flask jobs status",
        "no more alerts of the kind {subject} are left out",
    ),
}
_MAX_STAGES = 20


def text(alert: Json) -> str:
    """Return the whole text of an alert, whatever its row holds: at worst, the name of its condition."""
    try:
        return f"{_KINDS[alert['kind']]}{message(alert)}"
    except Exception:  # noqa: BLE001 - one row that cannot be formatted stops no other alert
        return f"{alert.get('kind')}: {alert.get('condition')}"


def message(alert: Json) -> str:
    """Return what is wrong and what to do; of a resolved alert, that it is over."""
    condition, _, subject = alert["condition"].partition(":")
    if condition not in _MESSAGES:  # a newer schema may have other conditions
        return str(alert["condition"])
    holds, resolved = _MESSAGES[condition]
    # A fact that is missing is a question mark.
    facts = defaultdict(lambda: "?", _facts(alert["detail"]), subject=subject, label=subject.replace("_", " "))
    return (resolved if alert["kind"] == "resolved" else holds).format_map(facts)


def _facts(detail: Any) -> Json:
    """Return the facts of a condition, of any detail that its row can hold."""
    facts: Json = {str(name): value for name, value in detail.items()} if isinstance(detail, dict) else {}
    facts["or_more"] = " or more" if facts.get("at_least") is True else ""
    spent = facts.get("spent")
    # A card that was spent: its money is gone.
    facts["spent_text"] = f" (cards already spent: {spent})" if isinstance(spent, int) and spent > 0 else ""
    if isinstance(facts.get("seconds"), int | float):
        facts["minutes"] = round(facts["seconds"] / 60)
    if isinstance(stages := facts.get("stages"), list):
        names = [str(stage) for stage in stages]
        more = f" and {len(names) - _MAX_STAGES} more stages" if len(names) > _MAX_STAGES else ""
        facts["stages"] = ", ".join(names[:_MAX_STAGES]) + more
    return facts
