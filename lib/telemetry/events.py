"""Log events: code emits an event with its fields, this module formats the log line."""

import contextlib
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from lib.telemetry.frames import Fault

LOG = logging.getLogger("giftcards")

# All events and their levels. In Sentry, errors become events, others breadcrumbs. docs/events.md lists the fields.
LEVELS = {
    "run_failed": logging.WARNING,
    "run_dead_lettered": logging.ERROR,
    "lease_lost": logging.WARNING,
    "circuit_opened": logging.WARNING,
    "hook_failed": logging.WARNING,
    "stage_broken": logging.ERROR,
    "maintenance_failed": logging.WARNING,
    "schedule_paused": logging.WARNING,
    "pgmq_import_failed": logging.WARNING,
    "messages_refused": logging.WARNING,
    "result_refused": logging.ERROR,
    "one_by_one": logging.WARNING,
    "job_unreadable": logging.ERROR,
    "planning_failed": logging.ERROR,
    "tick_failed": logging.ERROR,
    "wake_failed": logging.WARNING,
    "request_failed": logging.ERROR,
    "request_denied": logging.WARNING,
    "alert": logging.WARNING,
    "alert_failed": logging.ERROR,
    "sentry_failed": logging.WARNING,
    "webhook_refused": logging.WARNING,
    "run_started": logging.INFO,
    "run_completed": logging.INFO,
    "run_snoozed": logging.INFO,
    "run_released": logging.INFO,
    "tick_ended": logging.INFO,
    "circuit_closed": logging.INFO,
    "messages_imported": logging.INFO,
    "webhook_received": logging.INFO,
}


def emit(event: str, *, fault: Fault | None = None, **fields: Any) -> None:
    """Log an event. Fields are plain values without secrets and personal data. `fault`: where a run failed, for Sentry.

    A handler that raises fails nothing else: a log only watches.
    """
    if is_enabled(event):
        # Not through log(): it searches the caller's file and line, which no formatter here uses.
        level = LEVELS[event]
        with contextlib.suppress(Exception):
            LOG.handle(
                LOG.makeRecord(LOG.name, level, "", 0, event, (), None, extra={"fields": fields, "fault": fault})
            )


def is_enabled(event: str) -> bool:
    """Return whether an event is logged, to skip collecting its fields otherwise."""
    return LOG.isEnabledFor(LEVELS[event])


class _Json(JsonFormatter):
    """Formats an event as a line of JSON."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Set exactly these: time (UTC), level, event, and the event's fields."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data.update(time=time, level=record.levelname.lower(), event=record.getMessage())
        log_data.update(getattr(record, "fields", {}))


class _Terminal(logging.Formatter):
    """Formats an event as a readable line: `attempt 3/5`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "fields", {}))
        attempt, max_attempts = fields.pop("attempt", None), fields.pop("max_attempts", None)
        parts = [f"attempt {attempt}/{max_attempts}"] if attempt is not None else []
        parts += [f"{name}={value}" for name, value in fields.items() if value not in (None, "", [])]
        time = self.formatTime(record, "%H:%M:%S")
        return f"{time} {record.levelname[:4]:4} {record.getMessage():18} {'  '.join(parts)}"


def configure(*, readable: bool) -> None:
    """Log events to standard error, as JSON or `readable` lines. Call this once per process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Terminal() if readable else _Json())
    LOG.handlers = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
