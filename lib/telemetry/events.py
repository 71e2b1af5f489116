"""Facts and their wording are apart: code emits an event with its fields, this module makes the log line of it."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

LOG = logging.getLogger("giftcards")

# Every event, with how grave it is. Errors are events for Sentry too, the others lead up to them. docs/events.md
# tells the fields of each.
LEVELS = {
    "run_failed": logging.WARNING,
    "run_dead_lettered": logging.ERROR,
    "lease_lost": logging.WARNING,
    "circuit_opened": logging.WARNING,
    "hook_failed": logging.WARNING,
    "maintenance_failed": logging.WARNING,
    "schedule_paused": logging.WARNING,
    "pgmq_import_failed": logging.WARNING,
    "messages_refused": logging.WARNING,
    "result_refused": logging.ERROR,
    "tick_failed": logging.ERROR,
    "request_failed": logging.ERROR,
    "alert": logging.WARNING,
    "alert_failed": logging.ERROR,
    "run_started": logging.INFO,
    "run_completed": logging.INFO,
    "run_snoozed": logging.INFO,
    "run_released": logging.INFO,
    "tick_ended": logging.INFO,
    "circuit_closed": logging.INFO,
    "webhook_received": logging.INFO,
}


def emit(event: str, **fields: Any) -> None:
    """Tells that something happened. Fields are plain values, already free of secrets and personal data."""
    if heard(event):
        # Not through log(): it looks for file and line of its caller, which no line of ours shows.
        level = LEVELS[event]
        LOG.handle(LOG.makeRecord(LOG.name, level, "", 0, event, (), None, extra={"fields": fields}))


def heard(event: str) -> bool:
    """Whether anybody listens: what it costs to gather an event's fields is spared if not."""
    return LOG.isEnabledFor(LEVELS[event])


class _Json(JsonFormatter):
    """One JSON object a line, for machines."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Ours alone: time (UTC), level, event, and the event's fields."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data.update(time=time, level=record.levelname.lower(), event=record.getMessage())
        log_data.update(getattr(record, "fields", {}))


class _Terminal(logging.Formatter):
    """One readable line, for people: `attempt 3/5`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "fields", {}))
        attempt, most = fields.pop("attempt", None), fields.pop("max_attempts", None)
        shown = [f"attempt {attempt}/{most}"] if attempt is not None else []
        shown += [f"{name}={value}" for name, value in fields.items() if value not in (None, "", [])]
        time = self.formatTime(record, "%H:%M:%S")
        return f"{time} {record.levelname[:4]:4} {record.getMessage():18} {'  '.join(shown)}"


def configure(*, readable: bool) -> None:
    """Sends events to standard error: JSON, or readable on a terminal. Call it once a process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Terminal() if readable else _Json())
    LOG.handlers = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
