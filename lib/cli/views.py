"""Tables of jobs, runs, stages and the status, each with the next command to use."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from lib.cli.books import money
from lib.cli.group import command_line
from lib.cli.messages import stage_label
from lib.cli.tables import Part, Table, count, duration, moment
from lib.jobs.schemas import CircuitPage
from lib.jobs.shown import to_unpark

Json = dict[str, Any]

STATUSES = ("queued", "running", "completed", "error", "cancelled")
# Counts of the status end here.
_STATUS_LIMIT = 1000
_MASKED = "Mail addresses and card numbers are masked: --reveal shows them and records the access in the audit log."


def jobs(page: Json, *, links: dict[str, str]) -> Iterator[Part]:
    """Render a page of jobs. `links`: the commands for the newer and the older page."""
    if not page["jobs"]:
        yield "No job matches."
    else:
        columns = ("job", "stage", "status", "attempts", "flow", "tenant", "next run", "waiting for", "error")
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
    for name, command in links.items():
        yield f"{name}: {command}"


def _attempts(job: Json) -> str:
    return f"{job['attempts']}/{job['max_attempts']}" if job["max_attempts"] else str(job["attempts"])


def job(job: Json, *, reveal: bool, link: str | None = None) -> Iterator[Part]:
    """Render a job and its runs. `link`: the command for older runs."""
    names = (
        "stage status correlation_id tenant_id dedup_key circuit trigger_type source attempts max_attempts run_no "
        "revivals semantics ttr_seconds scheduled_at next_run_at lock_owner lease_expires_at created_at finished_at "
        "archived_at last_error"
    ).split()
    rows = [
        (name, moment(job[name]) if name.endswith("_at") else job[name])
        for name in names
        if job.get(name) not in (None, "")
    ]
    rows += [(name, json.dumps(job[name], ensure_ascii=False)) for name in ("payload", "context") if job[name]]
    yield Table(f"Job {job['id']}", ("", ""), rows)
    if not reveal:
        yield _MASKED
    if job.get("archived_at"):
        yield f"This job is archived: flask jobs restore {job['id']} restores it"
    elif job["waiting_for"]:
        yield f"waiting for: {job['waiting_for']['text']}"
    if job["status"] in ("error", "cancelled") and not job.get("archived_at"):
        yield f"to retry it: flask jobs requeue {job['id']}"
    yield from runs(job["id"], job["history"], link=link)


def runs(job_id: int, runs: list[Json], *, link: str | None = None) -> Iterator[Part]:
    """Render a page of the runs of a job. `link`: the command for the older ones."""
    if not runs:
        yield f"Job {job_id} has not run yet."
        return
    columns = ("run", "attempt", "result", "started", "delay", "duration", "next run", "error")
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
    if link:
        yield f"older: {link}"


def status(status: Json) -> Iterator[Part]:
    """Render the body of `GET /api/status`. Each problem has the command that fixes it."""
    yield _counts(status["counts"])
    if status["paused_by_setting"]:
        yield "Everything is paused by GIFTCARD_PAUSED: unset it to resume."
    for paused in status["paused"]:
        reason = paused["reason"] or "no reason given"
        yield f"{stage_label(paused['stage'])} is paused by {paused['by']} since {moment(paused['since'])}: {reason}"
        yield f"  to resume: flask jobs resume '{paused['stage']}'"
    for stage, reason in status["stages_not_configured"].items():
        yield f"stage {stage} is parked: {to_unpark(reason)}"
    if status["circuits"]:
        yield from circuits(status)
    if status["dead_letters"]:
        rows = [
            (d["id"], d["stage"], d["attempts"], moment(d["revive_at"]) or "never", d["last_error"])
            for d in status["dead_letters"]
        ]
        yield Table("Dead letters, the newest 20", ("job", "stage", "attempts", "revives", "error"), rows)
        yield "to retry one: flask jobs requeue ID; many: flask jobs requeue --stage … --error … --dry-run"
    if status.get("differences"):  # older deployments have none
        yield from differences(status["differences"])
    if status.get("precision"):  # older deployments have none
        yield start_delays(status["precision"], window_seconds=3600)
    yield _ticks(status["ticks"])
    if status.get("truncated"):
        yield f"more than shown: {', '.join(status['truncated'])}; --json shows no more either: use the lists"
    failing = [check for check in status["doctor"] if check["level"] != "green"]
    if failing:
        yield _checks("Doctor", failing)


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
    rows = [(c["level"], c["check"], f"{c['message']}{' → ' if c['fix'] else ''}{c['fix']}") for c in checks]
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


def stages(found: Json) -> Iterator[Part]:
    """Render the stages with their effective settings."""
    if found["all_paused_by"]:
        yield f"Everything is paused by {found['all_paused_by']}: flask jobs resume '*'"
    columns = ("stage", "runs", "attempts", "delays", "ttr", "concurrency", "queued", "dead")
    first = [(s["stage"], _runs(s), s["max_attempts"], _delays(s), f"{s['ttr_seconds']} s") for s in found["stages"]]
    last = [(s["concurrency"] or "any", *map(s["jobs"].get, ("queued", "error"), (0, 0))) for s in found["stages"]]
    yield Table("Stages", columns, [(*one, *other) for one, other in zip(first, last, strict=True)])
    if broken := found.get("broken_stages"):  # older deployments have none
        yield Table("Stages that cannot be loaded: their jobs wait", ("stage", "reason"), list(broken.items()))
    overrides = [
        (stage["stage"], name, stage[name], source)
        for stage in found["stages"]
        for name, source in stage["source"].items()
        if source not in ("default", "code")
    ]
    if overrides:
        yield Table("Stage overrides", ("stage", "setting", "value", "variable"), overrides)


def _runs(stage: Json) -> str:
    if stage["missing_setting"]:
        return f"parked: {to_unpark(stage['missing_setting'])}"
    return f"paused by {stage['paused_by']}" if stage["paused_by"] else "yes"


def _delays(stage: Json) -> str:
    if stage["delays"]:
        return ", ".join(f"{delay:g}" for delay in stage["delays"]) + " s"
    jitter = f" +{stage['jitter']:.0%}" if stage["jitter"] else ""
    return f"{stage['base_seconds']:g} s doubling to {stage['cap_seconds']:g} s{jitter}"


def precision(found: Json) -> Iterator[Part]:
    """Render how long after its time each run began."""
    window = found["window_seconds"]
    if found["precision"]:
        yield start_delays(found["precision"], window_seconds=window)
    else:
        yield f"No run has ended within {duration(window * 1000)}."


def start_delays(stages: list[Json], *, window_seconds: float) -> Table:
    """Return the table of start delays by stage."""
    rows = [
        (p["stage"], p["runs"], duration(p["p50_ms"]), duration(p["p95_ms"]), duration(p["max_ms"])) for p in stages
    ]
    title = f"How long after its time each run of the last {duration(window_seconds * 1000)} began"
    return Table(title, ("stage", "runs", "median", "95 %", "maximum"), rows)
