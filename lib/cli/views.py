"""Tables of jobs and their runs, each with the next command to use."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from lib.cli import frames
from lib.cli.group import command_line
from lib.cli.tables import Part, Table, duration, moment, run_result
from lib.jobs.shown import payload_is_refused

Json = dict[str, Any]

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
        "revivals semantics ttr_seconds priority concurrency_key scheduled_at next_run_at lock_owner lease_expires_at "
        "created_at finished_at archived_at last_error"
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
        yield f"This job is archived; to restore it: flask jobs restore {job['id']}"
    elif job["waiting_for"]:
        yield f"waiting for: {job['waiting_for']['text']}"
    if not job.get("archived_at"):
        yield from _next_commands(job, reveal=reveal)
    if job.get("current_run"):  # older deployments have none
        yield _current_run(job)
        if not job["history"]:
            return
    yield from runs(job["id"], job["history"], link=link)


def _next_commands(job: Json, *, reveal: bool) -> Iterator[str]:
    job_id = str(job["id"])
    if payload_is_refused(job):
        yield "Its payload is at fault: the error names each field."
        if not reveal:
            show = shlex.join(command_line("show", job_id, "--reveal"))
            yield f"to see it in clear (recorded in the audit log): {show}"
        yield f"to correct and retry it: {shlex.join(command_line('requeue', job_id, '--payload', '@FILE'))}"
    elif job["status"] in ("error", "cancelled"):
        yield f"to retry it: flask jobs requeue {job_id}"


def _current_run(job: Json) -> Table:
    run = job["current_run"]
    rows = [
        ("run", run["run_no"]),
        ("attempt", _attempts(job)),
        ("started", moment(run["started_at"])),
        ("runs for", duration(run["duration_ms"])),
        ("deadline", moment(run["deadline_at"])),
        ("lease until", moment(run["lease_expires_at"])),
        ("last heartbeat", moment(run["heartbeat_at"]) or "none"),
        ("tick", f"{run['tick_id'] or 'unknown'}, process {run['lock_owner'] or 'unknown'}"),
        ("cancel requested", moment(run["cancel_requested_at"])),
    ]
    return Table("Current run", ("", ""), [row for row in rows if row[1] != ""])


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
            run_result(run["status"]),
            moment(run["started_at"]),
            duration(run["start_delay_ms"]),
            duration(run["duration_ms"]),
            moment(run["next_run_at"]),
            run["error"],
        )
        for run in runs
    ]
    yield Table(f"Runs of job {job_id}, the newest first", columns, rows)
    yield from frames.failures(runs)
    if link:
        yield f"older: {link}"
