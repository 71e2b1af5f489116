"""Tables of the whole state: status, doctor, circuits, each with the next command to use."""

import shlex
from collections.abc import Iterator
from typing import Any

from lib.cli.books import money
from lib.cli.group import command_line, with_url
from lib.cli.limits import limit_table
from lib.cli.messages import stage_label
from lib.cli.stages import start_delays
from lib.cli.tables import Part, Table, count, moment
from lib.jobs.schemas import CircuitPage
from lib.jobs.shown import to_unpark

Json = dict[str, Any]

STATUSES = ("queued", "running", "completed", "error", "cancelled")
# Counts of the status end here.
_STATUS_LIMIT = 1000


def status(status: Json) -> Iterator[Part]:
    """Render the body of `GET /api/status`. Each problem has the command that fixes it."""
    yield _counts(status["counts"]) if status["counts"] else "No job yet."
    if status["paused_by_setting"]:
        yield "Everything is paused by GIFTCARD_PAUSED: unset it to resume."
    for paused in status["paused"]:
        reason = paused["reason"] or "no reason given"
        yield f"{stage_label(paused['stage'])} is paused by {paused['by']} since {moment(paused['since'])}: {reason}"
        yield f"  to resume: flask jobs resume '{paused['stage']}'"
    # Older deployments have none.
    if own := [limit for limit in status.get("limits", ()) if limit["state"] == "active"]:
        yield limit_table(own)
    for stage, reason in status["stages_not_configured"].items():
        yield f"stage {stage} is parked: {to_unpark(reason)}"
    yield from _broken(status)
    if status.get("differences"):  # older deployments have none
        yield from differences(status["differences"])
    if status.get("precision"):  # older deployments have none
        yield start_delays(status["precision"], window_seconds=3600)
    yield _ticks(status["ticks"]) if status["ticks"] else "No tick yet."
    if status.get("truncated"):
        yield f"more than shown: {', '.join(status['truncated'])}; --json shows no more either: use the lists"
    failing = [check for check in status["doctor"] if check["level"] != "green"]
    if failing:
        yield _checks("Doctor", failing)


def _broken(status: Json) -> Iterator[Part]:
    """Render circuits that have failed, killed runs and dead letters."""
    if status["circuits"]:
        yield from circuits(status)
    if status.get("killed"):  # older deployments have none
        killed = [(k["id"], k["stage"], k["attempts"], k["waiting_for"]["text"]) for k in status["killed"]]
        yield Table("Runs whose lease has ended", ("job", "stage", "attempts", "waiting for"), killed)
    if status["dead_letters"]:
        rows = [
            (d["id"], d["stage"], d["attempts"], moment(d["revive_at"]) or "never", d["last_error"])
            for d in status["dead_letters"]
        ]
        yield Table("Dead letters, the newest 20", ("job", "stage", "attempts", "revives", "error"), rows)
        yield "to retry one: flask jobs requeue ID; to retry many: flask jobs requeue --stage … --error … --dry-run"


def differences(found: list[Json]) -> Iterator[Part]:
    """Render the first differences between money and cards."""
    rows = [
        (each["kind"], each["correlation_id"], money(each["amount"], each["currency"]), moment(each["since"]))
        for each in found
    ]
    yield Table("Money and cards do not match", ("kind", "order", "amount", "since"), rows)
    yield "what to do about each: flask jobs orders reconcile"


def doctor(found: Json) -> Iterator[Part]:
    """Render the checks, and what to do next."""
    yield _checks("Checks", found["checks"])
    for level in ("red", "yellow"):
        failing = [check for check in found["checks"] if check["level"] == level]
        if failing:
            first = failing[0]
            yield f"{count(len(failing), 'check is', 'checks are')} {level}. Next, {first['check']}: {first['fix']}"
            return
    yield "All is well."


def _checks(title: str, checks: list[Json]) -> Table:
    rows = [(c["level"], c["check"], f"{c['message']}{' → ' if c['fix'] else ''}{with_url(c['fix'])}") for c in checks]
    return Table(title, ("", "check", "message → fix"), rows)


def _counts(counts: dict[str, dict[str, int]]) -> Table:
    def rendered(number: int) -> str:
        return f"{number}+" if number >= _STATUS_LIMIT else str(number or "·")

    rows = [(stage, *(rendered(by.get(status, 0)) for status in STATUSES)) for stage, by in sorted(counts.items())]
    return Table("Jobs", ("stage", *STATUSES), rows)


def _ticks(ticks: list[Json]) -> Table:
    columns = ("tick", "source", "started at", "started", "completed", "retried", "dead", "stopped")
    rows = [
        (
            *(t["id"], t["source"], moment(t["started_at"]), t["started"], t["completed"], t["retried"], t["errored"]),
            t["stopped_because"] or "killed or running",
        )
        for t in ticks
    ]
    return Table("Last ticks", columns, rows)


def circuits(found: Json) -> Iterator[Part]:
    """Render the circuits that are not closed, or have failed lately."""
    if not found["circuits"]:
        yield "All circuits are closed, and none has failed lately."
        return
    rows = [(c["circuit"], c["state"], c["failures"], moment(c["open_until"])) for c in found["circuits"]]
    yield Table("Circuits with failures", ("circuit", "state", "failures", "open until"), rows)
    yield "to close one: flask jobs circuits reset NAME"


def circuit_page(found: Json, page: CircuitPage) -> Iterator[Part]:
    """Render a page of circuits, and the command for the next one."""
    yield from circuits(found)
    if found.get("older"):  # older deployments have none
        words = command_line("circuits", "--limit", str(page.limit), "--older", found["older"])
        yield f"older: {shlex.join(words)}"
