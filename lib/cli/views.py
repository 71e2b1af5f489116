"""What each answer looks like to a person: what happened, to which job, and what to do next."""

import json
from collections.abc import Iterator
from typing import Any

from lib.cli.schedule_views import punctuality
from lib.cli.tables import Part, Table, count, duration, moment

Json = dict[str, Any]

STATUSES = ("queued", "running", "completed", "error", "cancelled")
# What the database counts to in a status.
_MOST_COUNTED = 1000
_COVERED = "Mail addresses and card numbers are covered: --reveal shows them, and that it did is written down."


def _what(stage: str) -> str:
    return "everything" if stage == "*" else f"stage {stage}"


# Looking


def jobs(page: Json, *, more: dict[str, str]) -> Iterator[Part]:
    """A page of jobs, and how to turn it."""
    if not page["jobs"]:
        yield "No job fits."
    else:
        columns = ("job", "stage", "status", "attempts", "flow", "tenant", "next run", "why it waits", "error")
        rows = [
            (
                job["id"],
                job["stage"],
                job["status"],
                _attempts(job),
                job["correlation_id"],
                job["tenant_id"],
                moment(job["next_run_at"]),
                (job["waiting_for"] or {}).get("text"),
                job["last_error"],
            )
            for job in page["jobs"]
        ]
        yield Table(f"Jobs, the newest first ({len(rows)})", columns, rows)
    for way, command in more.items():
        yield f"{way}: {command}"


def _attempts(job: Json) -> str:
    return f"{job['attempts']}/{job['max_attempts']}" if job["max_attempts"] else str(job["attempts"])


def job(job: Json, *, reveal: bool) -> Iterator[Part]:
    """A job and its runs."""
    names = (
        "stage status correlation_id tenant_id dedup_key circuit trigger_type attempts max_attempts run_no revivals "
        "semantics ttr_seconds scheduled_at next_run_at lock_owner lease_expires_at created_at finished_at archived_at "
        "last_error"
    ).split()
    rows = [
        (name, moment(job[name]) if name.endswith("_at") else job[name])
        for name in names
        if job.get(name) not in (None, "")
    ]
    rows += [(name, json.dumps(job[name], ensure_ascii=False)) for name in ("payload", "context") if job[name]]
    yield Table(f"Job {job['id']}", ("", ""), rows)
    if not reveal:
        yield _COVERED
    if job.get("archived_at"):
        yield f"It is in the archive: flask jobs restore {job['id']} brings it back"
    elif job["waiting_for"]:
        yield f"It waits: {job['waiting_for']['text']}"
    if job["status"] in ("error", "cancelled") and not job.get("archived_at"):
        yield f"To try it again: flask jobs requeue {job['id']}"
    yield from runs(job["id"], job["history"])


def runs(job_id: int, runs: list[Json]) -> Iterator[Part]:
    """One line a run."""
    if not runs:
        yield f"Job {job_id} has not run yet."
        return
    columns = ("run", "attempt", "result", "began", "late by", "took", "next run", "error")
    rows = [
        (
            run["run_no"],
            run["attempt"],
            run["status"],
            moment(run["started_at"]),
            duration(run["start_delay_ms"]),
            duration(run["duration_ms"]),
            moment(run["next_run_at"]),
            run["error"],
        )
        for run in runs
    ]
    yield Table(f"Runs of job {job_id}, the newest first", columns, rows)


def status(status: Json) -> Iterator[Part]:
    """What `GET /api/status` says, for a tired person: what is wrong comes with what to do."""
    yield _counts(status["counts"])
    if status["paused_by_setting"]:
        yield "Everything is paused by GIFTCARD_PAUSED: unset it to go on."
    for paused in status["paused"]:
        why = paused["reason"] or "no reason given"
        yield f"{_what(paused['stage'])} is paused by {paused['by']} since {moment(paused['since'])}: {why}"
        yield f"  to end it: flask jobs resume '{paused['stage']}'"
    for stage, setting in status["stages_not_configured"].items():
        yield f"stage {stage} is parked: set {setting}"
    if status["circuits"]:
        yield from circuits(status)
    if status["dead_letters"]:
        rows = [
            (d["id"], d["stage"], d["attempts"], moment(d["revive_at"]) or "never", d["last_error"])
            for d in status["dead_letters"]
        ]
        yield Table("Dead letters, the newest 20", ("job", "stage", "attempts", "revives", "error"), rows)
        yield "to try one again: flask jobs requeue ID; many: flask jobs requeue --stage … --error … --dry-run"
    if status["paid_without_card"]:
        rows = [
            (p["correlation_id"], p["amount"], p["currency"], p["stage"], p["last_error"])
            for p in status["paid_without_card"]
        ]
        yield Table("Paid, no card", ("flow", "minor units", "currency", "stops at", "error"), rows)
        yield "to see why: flask jobs list --flow FLOW"
    if status.get("precision"):  # older deployments have none
        yield punctuality(status["precision"], within=3600)
    yield _ticks(status["ticks"])
    ill = [check for check in status["doctor"] if check["level"] != "green"]
    if ill:
        yield _checks("What the doctor finds", ill)


def doctor(found: Json) -> Iterator[Part]:
    """One line a check, and what to do next."""
    yield _checks("Checks", found["checks"])
    for level in ("red", "yellow"):
        ill = [check for check in found["checks"] if check["level"] == level]
        if ill:
            yield f"{count(len(ill), 'check is', 'checks are')} {level}. Next, {ill[0]['check']}: {ill[0]['mend']}"
            return
    yield "All is well."


def _checks(title: str, checks: list[Json]) -> Table:
    rows = [(c["level"], c["check"], f"{c['says']}{' → ' if c['mend'] else ''}{c['mend']}") for c in checks]
    return Table(title, ("", "check", "what was found → how to mend it"), rows)


def _counts(counts: dict[str, dict[str, int]]) -> Table:
    def shown(number: int) -> str:
        return f"{number}+" if number >= _MOST_COUNTED else str(number or "·")

    rows = [(stage, *(shown(by.get(status, 0)) for status in STATUSES)) for stage, by in sorted(counts.items())]
    return Table("Jobs", ("stage", *STATUSES), rows)


def _ticks(ticks: list[Json]) -> Table:
    columns = ("tick", "source", "began", "started", "completed", "retried", "dead", "stopped")
    rows = [
        (
            *(t["id"], t["source"], moment(t["started_at"]), t["started"], t["completed"], t["retried"], t["errored"]),
            t["stopped_because"] or "killed or running",
        )
        for t in ticks
    ]
    return Table("Last ticks", columns, rows)


def circuits(found: Json) -> Iterator[Part]:
    """Those that are not well."""
    if not found["circuits"]:
        yield "Every circuit is closed, and none has failed lately."
        return
    rows = [(c["circuit"], c["state"], c["failures"], moment(c["open_until"])) for c in found["circuits"]]
    yield Table("Circuits that are not well", ("circuit", "state", "failures", "open until"), rows)
    yield "to close one by hand: flask jobs circuits reset NAME"


def stages(found: Json) -> Iterator[Part]:
    """The rules in force."""
    if found["all_paused_by"]:
        yield f"Everything is paused by {found['all_paused_by']}: flask jobs resume '*'"
    columns = ("stage", "runs", "attempts", "delays", "ttr", "at once", "queued", "dead")
    rows = [
        (
            *(s["stage"], _runs(s), s["max_attempts"], _delays(s), f"{s['ttr_seconds']} s", s["concurrency"] or "any"),
            *(s["jobs"].get("queued", 0), s["jobs"].get("error", 0)),
        )
        for s in found["stages"]
    ]
    yield Table("Stages", columns, rows)
    said = [(s["stage"], rule, s[rule], by) for s in found["stages"] for rule, by in s["said_by"].items()]
    said = [(stage, rule, value, by) for stage, rule, value, by in said if by not in ("default", "code")]
    if said:
        yield Table("Rules that a setting gives", ("stage", "rule", "value", "setting"), said)


def _runs(stage: Json) -> str:
    if stage["missing_setting"]:
        return f"parked: set {stage['missing_setting']}"
    return f"paused by {stage['paused_by']}" if stage["paused_by"] else "yes"


def _delays(stage: Json) -> str:
    if stage["delays"]:
        return ", ".join(f"{delay:g}" for delay in stage["delays"]) + " s"
    jitter = f" +{stage['jitter']:.0%}" if stage["jitter"] else ""
    return f"{stage['base_seconds']:g} s doubling to {stage['cap_seconds']:g} s{jitter}"
