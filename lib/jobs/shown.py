"""Jobs as operators see them."""

import re
from typing import Any

from lib.telemetry.redact import covered

Json = dict[str, Any]

# Columns that may hold personal data.
_COLUMNS = ("payload", "context", "last_error", "error_kind", "error", "concurrency_key")
_NAMES = ("given_name", "family_name")
# How the error of a run begins whose stage refuses the payload.
PAYLOAD_REFUSED = "payload: "


def is_setting(reason: str) -> bool:
    """Return whether a stage is parked because of a setting that is missing; `reason` is its name then."""
    return re.fullmatch(r"[A-Z][A-Z0-9_]*", reason) is not None


def to_unpark(reason: str) -> str:
    """Return what a parked stage waits for, in words: `reason` is the name of a setting, or a sentence."""
    return f"set {reason}" if is_setting(reason) else reason


def paused_by_setting(job: Json) -> Json:
    """Replace the reason why a job waits: the database does not know GIFTCARD_PAUSED."""
    waiting = job["waiting_for"]
    if waiting and waiting["reason"] == "killed":
        killed = waiting["text"].partition("; ")[0]
        text = f"{killed}; no tick takes it over while everything is paused by GIFTCARD_PAUSED"
        return job | {"waiting_for": waiting | {"by": "GIFTCARD_PAUSED", "text": text}}
    if job["status"] != "queued":
        return job
    text = "everything is paused by GIFTCARD_PAUSED"
    return job | {"waiting_for": {"reason": "all_paused", "by": "GIFTCARD_PAUSED", "text": text}}


def masked(row: Json) -> Json:
    """Return a job or a run with its personal data masked."""
    found = {name: covered(value) if name in _COLUMNS else value for name, value in row.items()}
    waiting = row.get("waiting_for")
    if waiting:  # its text may name the concurrency key, and has the reason that a person gave
        found["waiting_for"] = waiting | {"text": covered(waiting["text"])}
    return found


def masked_limit(limit: Json) -> Json:
    """Return a limit with what may repeat personal data masked: anyone may write the row by SQL."""
    return limit | {"reason": covered(limit["reason"]), "set_by": covered(limit["set_by"])}


def initials(value: Any) -> Any:
    """Return a JSON value with the names of persons in it shortened to their initials, at any depth."""
    if isinstance(value, list):
        return [initials(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"{inner[0]}…" if name in _NAMES and isinstance(inner, str) and inner else initials(inner)
        for name, inner in value.items()
    }


def payload_is_refused(job: Json) -> bool:
    """Return whether a job has failed because its stage refuses its payload."""
    return job["status"] == "error" and (job["last_error"] or "").startswith(f"PermanentError: {PAYLOAD_REFUSED}")
