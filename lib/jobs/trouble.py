"""What operators look for at night: what is stuck, and which errors there are. Each with the command that helps."""

import shlex
from typing import Any

from lib.jobs.shown import masked
from lib.telemetry.redact import covered

Json = dict[str, Any]

# By the reason why a queue waits.
_FIXES = {
    "all_paused": "flask jobs resume '*'",
    "passed_over": "flask jobs show {job_id}",
    "killed": "flask jobs tick",
    "stage_paused": "flask jobs resume {stage}",
    "stage_unknown": "flask jobs list --status queued --stage {stage}",
    "circuit_open": "flask jobs circuits reset {name}",
    "circuit_half_open": "flask jobs circuits reset {name}",
    "stage_full": "flask jobs limits list --kind stage",
    "circuit_full": "flask jobs limits list",
    "tenant_full": "flask jobs limits list",
    "key_busy": "flask jobs list --status running --stage {stage}",
    "rate_limited": "flask jobs limits list",
    "no_job": "flask jobs orders show {name} --tenant {tenant_id}",
    "dead": "flask jobs errors --stage {stage}",
    "snoozed": "flask jobs show {job_id}",
    "schedule_paused": "flask jobs schedules resume {name}",
}


def stuck_thing(thing: Json, *, paused: bool) -> Json:
    """Return a row of giftcard_stuck with `fix`, the command that helps. `paused`: GIFTCARD_PAUSED is set."""
    fix = _FIXES.get(thing["reason"], "flask jobs doctor")
    if thing["kind"] == "faulty":
        fix = _fix_of_faulty(thing)
    if paused and thing["kind"] in ("killed", "due"):
        why = "everything is paused by GIFTCARD_PAUSED"
        thing, fix = thing | {"reason": "all_paused", "why": why}, "unset GIFTCARD_PAUSED and deploy again"
    words = {name: shlex.quote(str(value)) for name, value in thing.items()}
    return thing | {"why": covered(thing["why"]), "fix": fix.format_map(words)}


def _fix_of_faulty(thing: Json) -> str:
    if thing["job_id"] is not None:
        return "flask jobs show {job_id}"
    return "flask jobs schedules show {name}" if thing["subject"].startswith("schedule ") else "flask jobs doctor"


def error_group(group: Json) -> Json:
    """Return a row of giftcard_errors, masked, with `next`: the commands that show one of its jobs and requeue them."""
    shown = masked(group)
    commands = [["flask", "jobs", "show", str(group["job_id"])]]
    if group["dead"] and shown["error"] == group["error"]:  # no filter finds a kind that is masked
        only = ["--stage", group["stage"], "--error-kind", group["error"]]
        commands.append(["flask", "jobs", "requeue", *only, "--dry-run"])
    return shown | {"next": [shlex.join(words) for words in commands]}
