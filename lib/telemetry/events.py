"""Log events: code emits an event with its fields, this module formats the log line."""

import contextlib
import io
import json
import logging
import select
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

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
    "run_started": logging.DEBUG,
    "run_completed": logging.INFO,
    "run_snoozed": logging.INFO,
    "run_released": logging.INFO,
    "tick_ended": logging.INFO,
    "circuit_closed": logging.INFO,
    "messages_imported": logging.INFO,
    "webhook_received": logging.INFO,
}

# Bytes that one write to a pipe keeps together, whatever other processes write to it.
_WHOLE: int = getattr(select, "PIPE_BUF", 512)


def emit(event: str, *, fault: Fault | None = None, **fields: Any) -> None:
    """Log an event. Fields are plain values without secrets and personal data. `fault`: where a run failed, for Sentry.

    A handler that raises fails nothing else: a log only watches.
    """
    log(event, fields, fault=fault)


def log(event: str, fields: dict[str, Any], *, fault: Fault | None = None) -> None:
    """Log an event like `emit`, with its fields in a dictionary, which is not changed."""
    level = LEVELS[event]
    if not LOG.isEnabledFor(level):
        return
    with contextlib.suppress(Exception):
        if lines := _only_listener(level):
            lines.take(lines.written.line(time.time(), logging.getLevelName(level), event, fields))
        else:
            # Not through LOG.log(): it searches the caller's file and line, which no formatter here uses.
            LOG.handle(
                LOG.makeRecord(LOG.name, level, "", 0, event, (), None, extra={"fields": fields, "fault": fault})
            )


def is_enabled(event: str) -> bool:
    """Return whether an event is logged, to skip collecting its fields otherwise."""
    return LOG.isEnabledFor(LEVELS[event])


@contextlib.contextmanager
def batch() -> Iterator[None]:
    """Write the lines of this thread together when the block ends, however it ends. Other handlers get each at once."""
    if _held() is not None:
        yield
        return
    lines: dict[_Lines, list[str]] = {}
    _BATCH.lines = lines
    try:
        yield
    finally:
        _BATCH.lines = None
        for handler, held in lines.items():
            with contextlib.suppress(Exception):
                handler.write(held)


def configure(*, readable: bool, level: str = "info") -> None:
    """Log events to standard error, as JSON or `readable` lines. Call this once per process."""
    LOG.handlers = [_Lines(sys.stderr, _Terminal() if readable else _Json())]
    LOG.propagate = False
    set_level(level)


def set_level(level: str) -> None:
    """Log the events of this level and above: debug, info, warning or error."""
    LOG.setLevel(level.upper())


class _Written(logging.Formatter, ABC):
    """Formats an event, or a record of a logger below this one, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self.line(record.created, record.levelname, record.getMessage(), getattr(record, "fields", {}))

    @abstractmethod
    def line(self, created: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Return the line of an event of this moment, in seconds since 1970."""


class _Json(_Written):
    """Formats an event as a line of JSON."""

    def line(self, created: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Write exactly these: time (UTC), level, event, and the event's fields."""
        moment = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
        return _ENCODER.encode({"time": moment, "level": level.lower(), "event": event, **fields})


class _Terminal(_Written):
    """Formats an event as a readable line: `attempt 3/5`."""

    def line(self, created: float, level: str, event: str, fields: dict[str, Any]) -> str:
        """Write the time of this machine, the level, the event, and the fields that have a value."""
        fields = dict(fields)
        attempt, max_attempts = fields.pop("attempt", None), fields.pop("max_attempts", None)
        parts = [f"attempt {attempt}/{max_attempts}"] if attempt is not None else []
        parts += [f"{name}={value}" for name, value in fields.items() if value not in (None, "", [])]
        moment = time.strftime("%H:%M:%S", time.localtime(created))
        return f"{moment} {level[:4]:4} {event:18} {'  '.join(parts)}"


class _Lines(logging.StreamHandler[TextIO]):
    """Writes lines to a stream: each whole, and those of a batch together."""

    def __init__(self, stream: TextIO, written: _Written) -> None:
        super().__init__(stream)
        self.written = written
        self.setFormatter(written)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record, which other handlers get as well."""
        try:
            self.take(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of the standard library
            self.handleError(record)

    def take(self, line: str) -> None:
        """Write a line, at the end of the batch if this thread has begun one."""
        held = _held()
        if held is None:
            self.write([f"{line}\n"])
        else:
            held.setdefault(self, []).append(f"{line}\n")

    def write(self, lines: list[str]) -> None:
        """Write lines, as many at once as a pipe keeps together.

        Only to a file of the system. Anything else takes one line a time: Vercel puts an object of its own in the place
        of standard error, and each write to it is one entry of the log.
        """
        together = isinstance(self.stream, io.TextIOWrapper)
        self.acquire()
        try:
            for text in _together(lines) if together else lines:
                self.stream.write(text)
                self.flush()
        finally:
            self.release()


_ENCODER = json.JSONEncoder(default=lambda value: value.isoformat() if hasattr(value, "isoformat") else str(value))

_BATCH = threading.local()


def _held() -> dict[_Lines, list[str]] | None:
    """Return the lines of this thread's batch, by handler; None: it has begun none."""
    return getattr(_BATCH, "lines", None)


def _only_listener(level: int) -> _Lines | None:
    """Return the handler that writes the lines, if no other wants a record of an event of this level."""
    if LOG.propagate or LOG.filters or len(LOG.handlers) != 1:
        return None
    handler = LOG.handlers[0]
    return handler if type(handler) is _Lines and level >= handler.level and not handler.filters else None


def _together(lines: list[str]) -> Iterator[str]:
    """Join lines to texts of at most `_WHOLE` bytes. A longer line stays alone."""
    text, size = "", 0
    for line in lines:
        length = len(line) if line.isascii() else len(line.encode(errors="backslashreplace"))
        if text and size + length > _WHOLE:
            yield text
            text, size = "", 0
        text, size = text + line, size + length
    if text:
        yield text
