"""The story of an order as a time line: pure functions over what `giftcard_order_story` returns."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from lib.giftcards.money import format_money
from lib.jobs.shown import masked
from lib.telemetry.redact import covered

Json = dict[str, Any]
Kind = Literal["order", "job", "run", "wait", "payment", "card", "mail", "webhook", "act", "difference"]
Level = Literal["info", "warning", "error"]

_RESULTS = {"SUCCESS": "completed"}
# Waits that end by themselves, and those that need a person; any other is worth a look.
_USUAL_WAITS = {
    *("due_at", "next_tick", "behind", "circuit_half_open"),
    *("stage_full", "circuit_full", "tenant_full", "key_busy", "rate_limited"),
}
_ENDLESS_WAITS = ("dead", "stage_unknown")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an order, or that it waits for: then `at` is when that ends, or now."""

    at: str
    kind: Kind
    text: str
    job_id: int | None = None
    run_no: int | None = None
    level: Level = "info"


def story_of(found: Json, *, reveal: bool) -> Json:
    """Return the story: order, recipient, card, payments, jobs and differences, and the `events` of all by time.

    Personal data is covered unless `reveal`.
    """
    order = found["order"]
    recipient = order and order["recipient"]
    story = {name: found[name] for name in ("now", "tenant_id", "correlation_id", "more", "card", "payments")}
    story["order"] = order and {name: value for name, value in order.items() if name != "recipient"}
    events = [asdict(event) for event in timeline(found)]
    if reveal:
        return story | {"recipient": recipient, "events": events} | {n: found[n] for n in ("jobs", "differences")}
    return story | {
        "recipient": covered_recipient(recipient),
        "events": [event | {"text": covered(event["text"])} for event in events],
        "jobs": [masked(job) for job in found["jobs"]],
        "differences": [line | {"detail": covered(line["detail"])} for line in found["differences"]],
    }


def timeline(found: Json) -> list[Event]:
    """Return the events of a story, the oldest first; what it waits for comes last."""
    jobs = {job["id"]: job for job in found["jobs"]}
    events = [*_of_order(found), *_of_payments(found), *_of_card(found), *_of_effects(found)]
    events += [*_of_runs(found, jobs), *_of_jobs(found), *_of_acts(found), *_of_differences(found)]
    waits = sorted(_waits(found), key=_time)
    return sorted(events, key=_time) + waits


def covered_recipient(recipient: Json | None) -> Json | None:
    """Return a recipient with the address covered and the initials of the names; None: their customer is erased."""
    if recipient is None:
        return None
    names = {name: _initial(recipient[name]) for name in ("given_name", "family_name")}
    return {"email": recipient["email"] and "[email]"} | names


def _initial(name: str | None) -> str | None:
    return f"{name[0]}…" if name else name


def _time(event: Event) -> datetime:
    try:
        return datetime.fromisoformat(event.at)
    except ValueError:  # infinity, and years that Python does not have
        return _FIRST if event.at.startswith("-") or event.at.endswith("BC") else _LAST


def _money(amount: int, currency: str | None) -> str:
    return format_money(amount, currency) if currency else str(amount)


def _moment(time: str) -> str:
    return time.replace("T", " ").partition(".")[0].removesuffix("+00:00") + "Z" if "T" in time else time


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _of_order(found: Json) -> Iterator[Event]:
    order = found["order"]
    if order is None:
        return
    first = min(found["jobs"], key=lambda job: int(job["id"]), default=None)
    source = f", by {first['trigger_type']}" if first and first.get("trigger_type") and not found["more"] else ""
    free = ", free of charge" if order["free_of_charge"] else ""
    yield Event(order["created_at"], "order", f"order over {_money(order['amount'], order['currency'])}{free}{source}")
    if order["cancelled_at"]:
        yield Event(order["cancelled_at"], "order", "order cancelled", level="warning")


def _of_payments(found: Json) -> Iterator[Event]:
    for payment in found["payments"]:
        name = f"payment {payment['reference']} at {payment['provider']}"
        if not payment["accepted"]:
            yield Event(payment["created_at"], "payment", f"{name} is not accepted by the order", level="warning")
        for event in payment["events"]:
            total = " in total" if event["is_total"] and event["kind"] != "captured" else ""
            text = f"{name}: {_money(event['amount'], payment['currency'])} {event['kind']}{total}"
            level: Level = "info" if event["kind"] == "captured" or not event["amount"] else "warning"
            yield Event(event["recorded_at"], "payment", text, level=level)


def _of_card(found: Json) -> Iterator[Event]:
    card = found["card"]
    if card is None:
        return
    name = f"card …{card['last4']}"
    amount = _money(card["amount"], card["currency"])
    yield Event(card["issued_at"], "card", f"{name} over {amount} issued at {card['provider']}")
    if card["state"] != "active":
        left = _money(card["balance"], card["currency"])
        level: Level = "warning" if card["state"] == "blocked" else "info"
        at = card["state_as_of"] or card["issued_at"]
        yield Event(at, "card", f"{name} {card['state']}, {left} left", level=level)


def _of_effects(found: Json) -> Iterator[Event]:
    for effect in found["effects"]:
        name = _name(effect)
        if effect["name"] == "send" and effect["finished_at"]:
            identity = f", Message-ID {effect['message_id']}" if effect["message_id"] else ""
            yield Event(effect["finished_at"], "mail", f"{name}: the mail server has accepted the mail{identity}")
        elif effect["started_at"] and not effect["finished_at"]:
            text = f"{name}: {effect['name']} began and has no result yet"
            yield Event(effect["started_at"], "mail" if effect["name"] == "send" else "run", text, level="warning")


def _of_runs(found: Json, jobs: dict[int, Json]) -> Iterator[Event]:
    for run in found["runs"]:
        result = _RESULTS.get(run["status"], run["status"].lower())
        seconds = f" after {_duration(run['duration_ms'])}" if run["duration_ms"] is not None else ""
        attempt = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
        error = f": {run['error']}" if run["error"] else ""
        again = f"; again at {_moment(run['next_run_at'])}" if run["next_run_at"] else ""
        name = _name(jobs.get(run["job_id"], run))
        kind: Kind = "webhook" if run["stage"] == "webhook" else "run"
        yield Event(
            run["finished_at"], kind, f"{name}: {result}{seconds}{attempt}{error}{again}", run["job_id"], run["run_no"],
            _level_of(run),
        )  # fmt: skip


def _level_of(run: Json) -> Level:
    if run["status"] in ("FAILED", "INTERRUPTED"):
        return "warning" if run["next_run_at"] else "error"
    return "info"


def _of_jobs(found: Json) -> Iterator[Event]:
    """Yield how jobs ended that never ran, or were cancelled: their runs do not show it."""
    ran = {run["job_id"] for run in found["runs"]}
    for job in found["jobs"]:
        if job["finished_at"] and (job["status"] == "cancelled" or (job["id"] not in ran and job["status"] == "error")):
            error = f": {job['last_error']}" if job["last_error"] else ""
            ended = "dead letter" if job["status"] == "error" else job["status"]
            level: Level = "error" if job["status"] == "error" else "warning"
            yield Event(job["finished_at"], "job", f"{_name(job)}: {ended}{error}", job["id"], level=level)


def _of_acts(found: Json) -> Iterator[Event]:
    for act in found["acts"]:
        details = act["details"] if isinstance(act["details"], dict) else {}
        reason = f": {details['reason']}" if details.get("reason") else ""
        kind, _, number = act["subject"].partition(" ")
        job_id = int(number) if kind == "job" and number.isdecimal() else details.get("job_id")
        text = f"{act['by']}: {act['action'].replace('_', ' ')}, {act['subject']}{reason}"
        yield Event(act["at"], "act", text, job_id if isinstance(job_id, int) else None)


def _of_differences(found: Json) -> Iterator[Event]:
    for line in found["differences"]:
        amount, detail = _money(line["amount"], line["currency"]), f": {line['detail']}" if line["detail"] else ""
        text = f"{line['kind'].replace('_', ' ')}, {amount}{detail}. {line['action']}"
        yield Event(line["since"], "difference", text, level="error")


def _waits(found: Json) -> Iterator[Event]:
    for job in found["jobs"]:
        waiting = job.get("waiting_for")
        if waiting:
            reason = waiting["reason"]
            level: Level = (
                "error" if reason in _ENDLESS_WAITS else "info" if reason in _USUAL_WAITS else "warning"
            )  # fmt: skip
            at = waiting.get("until") or found["now"]
            yield Event(at, "wait", f"{_name(job)}: {waiting['text']}", job["id"], level=level)
        elif job["status"] == "running":
            yield Event(job.get("locked_at") or found["now"], "wait", f"{_name(job)}: running", job["id"])


def _name(job: Json) -> str:
    """Return the stage of a job, with its key if it has one. Keys of webhooks are random."""
    key = job.get("dedup_key") or ""
    return f"{job['stage']} ({key})" if key and job["stage"] != "webhook" else str(job["stage"])
