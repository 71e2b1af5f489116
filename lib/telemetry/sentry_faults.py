"""Failed runs whose code is at fault, as exceptions for Sentry: types and frames, no variables."""

import time
from typing import Any

from lib.telemetry.frames import Fault

Json = dict[str, Any]

# A bug is sent once in so many seconds, as long as ticks come each minute; so many kinds are remembered.
_QUIET_SECONDS = 50.0
_MOST_KINDS = 1_000
_SENT: dict[tuple[str, ...], float] = {}


def capture(sdk: Any, name: str, fields: Json, fault: Fault) -> None:
    """Send a failed run, unless its kind was sent within this minute: all jobs of a kind fail alike.

    A kind is one type of exception in one function of a stage. `name`: of the log event that has these `fields`.
    """
    own = fault.innermost
    kind = (str(fields["stage"]), str(fault.frames[-1].raised), f"{own.file} {own.function}")
    now = time.monotonic()
    if now - _SENT.get(kind, -_QUIET_SECONDS) < _QUIET_SECONDS:
        return
    if len(_SENT) >= _MOST_KINDS:
        _SENT.clear()
    _SENT[kind] = now
    event = {
        "level": "error",
        "fingerprint": list(kind),
        "exception": {"values": _exceptions(fault, fields["error"])},
        "contexts": {"fields": fields},
        "tags": {"event": name} | {tag: str(fields[tag]) for tag in ("stage", "job_id", "attempt", "run_no")},
    }
    sdk.capture_event(event)


def _exceptions(fault: Fault, error: str) -> list[Json]:
    """Return the exceptions of a fault as Sentry takes them, the causes first. Of causes, only the type is known."""
    values: list[Json] = [{"stacktrace": {"frames": []}}]
    for frame in fault.frames:
        place = {"filename": frame.file, "lineno": frame.line, "function": frame.function, "in_app": frame.own}
        values[-1]["stacktrace"]["frames"].append(place)
        if frame.raised:
            values[-1] |= {"type": frame.raised, "value": "", "mechanism": {"type": "run", "handled": True}}
            values.append({"stacktrace": {"frames": []}})
    values.pop()
    values[-1]["value"] = error.partition(": ")[2] or error
    return values
