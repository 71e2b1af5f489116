"""What schedules look like, and what was done to them."""

import json
from collections.abc import Iterator
from typing import Any

from lib.cli.tables import Part, Table, duration, moment

Json = dict[str, Any]

_SHOWN = (
    "name tenant_id status schedule timezone is_recurring stage type max_retry_count retry_delays ttr_seconds "
    "missed_policy catch_up_seconds missed_cap overlap_policy pause_after_failures next_at last_at unfinished failures "
    "missed last_missed_at skipped last_skipped_at paused_at paused_by pause_reason created_at updated_at"
).split()


def schedules(page: Json) -> Iterator[Part]:
    """A page of them."""
    if not page["schedules"]:
        yield "No schedule fits."
        return
    columns = ("schedule", "name", "tenant", "runs", "when", "next", "last", "failures", "missed", "skipped", "paused")
    rows = [
        (
            *(s["id"], s["name"], s["tenant_id"], s["stage"], _when(s), moment(s["next_at"]), moment(s["last_at"])),
            *(s["failures"], s["missed"], s["skipped"], s["pause_reason"] or s["paused_by"]),
        )
        for s in page["schedules"]
    ]
    yield Table(f"Schedules, the newest first ({len(rows)})", columns, rows)
    if page["older"]:
        yield f"older: flask jobs schedules list --older {page['older']}"


def _when(schedule: Json) -> str:
    zone = "" if schedule["timezone"] == "UTC" else f" {schedule['timezone']}"
    return f"{schedule['schedule']}{zone}{'' if schedule['is_recurring'] else ', once'}"


def schedule(found: Json) -> Iterator[Part]:
    """One, with its occurrences."""
    rows = [
        (name, moment(found[name]) if name.endswith("At") else found[name])
        for name in _SHOWN
        if found[name] not in (None, "")
    ]
    rows.append(("payload", json.dumps(found["payload"], ensure_ascii=False)))
    yield Table(f"Schedule {found['id']}", ("", ""), rows)
    yield from _next(found)
    if found["occurrences"]:
        columns = ("job", "time", "status", "attempts", "ended", "error")
        jobs = [
            (o["id"], moment(o["time"]), o["status"], o["attempts"], moment(o["finished_at"]), o["last_error"])
            for o in found["occurrences"]
        ]
        yield Table("Its latest occurrences", columns, jobs)
        yield "to see a job: flask jobs show ID"


def scheduled(done: Json) -> Iterator[Part]:
    """One that was made, changed or resumed."""
    yield f"schedule {done['id']} runs {done['stage']}: {_when(done)}"
    yield from _next(done)


def _next(found: Json) -> Iterator[Part]:
    if found["status"] == "paused":
        why = f": {found['pause_reason']}" if found["pause_reason"] else ""
        yield f"It is paused by {found['paused_by']}{why}; flask jobs schedules resume {found['id']} ends it"
    elif found["next_times"]:
        yield f"next: {', '.join(map(moment, found['next_times']))}"
    elif not found["is_recurring"]:
        yield "Its one job is there; it goes when that has ended."


def schedule_deleted(done: Json) -> Iterator[Part]:
    """One that is gone."""
    yield f"schedule {done['id']} is deleted; its jobs go on: flask jobs list shows them"


def schedule_paused(done: Json) -> Iterator[Part]:
    """One without occurrences."""
    yield f"schedule {done['id']} is paused by {done['paused_by']}; flask jobs schedules resume {done['id']} ends it"


def schedule_run(done: Json) -> Iterator[Part]:
    """One occurrence."""
    yield f"job {done['job_id']} is queued: the next tick runs it"


def precision(found: Json) -> Iterator[Part]:
    """How late runs began."""
    if found["precision"]:
        yield punctuality(found["precision"], within=found["window_seconds"])
    else:
        yield f"No run has ended within {duration(found['window_seconds'] * 1000)}."


def punctuality(stages: list[Json], *, within: float) -> Table:
    """Promised against actual starts. `within` in seconds."""
    rows = [
        (p["stage"], p["runs"], duration(p["p50_ms"]), duration(p["p95_ms"]), duration(p["max_ms"])) for p in stages
    ]
    title = f"How long after its time each run of the last {duration(within * 1000)} began"
    return Table(title, ("stage", "runs", "half within", "95 % within", "all within"), rows)
