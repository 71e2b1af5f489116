"""Sentry, if SENTRY_DSN is set: events only, never local variables, bodies or personal data.

Errors are sent as events, grouped by stage and kind of error; other log events become their breadcrumbs. A failed run
whose code is at fault is an exception with its frames, from its first attempt on. With a sample rate, a run is a
transaction in the trace that began when its flow was enqueued.

Sentry only watches: whatever the SDK raises is dropped, and never fails a start, a request, a tick or a run.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from lib.config.settings import Settings
from lib.job import Job
from lib.telemetry import events
from lib.telemetry.events import LOG
from lib.telemetry.frames import Fault
from lib.telemetry.redact import clean
from lib.telemetry.sentry_faults import capture

Json = dict[str, Any]

# How long a request waits for its events to be sent: afterwards the platform may freeze the process.
_FLUSH_SECONDS = 2.0
_MAX_TEXT_LENGTH = 2_000
# The fields of a request that are sent: nothing about the client.
_REQUEST_FIELDS = ("method",)


def configure(settings: Settings) -> None:
    """Set up the SDK and forward log events to it. Call this once per process, and only with a DSN.

    If that fails, nothing is sent.
    """
    try:
        _set_up(settings)
    except Exception as error:  # noqa: BLE001
        events.emit("sentry_failed", error=f"SENTRY_DSN: {type(error).__name__}")
    else:
        LOG.addHandler(_Handler())


def _set_up(settings: Settings) -> None:
    import sentry_sdk
    from sentry_sdk.integrations.dedupe import DedupeIntegration
    from sentry_sdk.integrations.flask import FlaskIntegration
    from sentry_sdk.integrations.threading import ThreadingIntegration

    secrets = settings.secrets()

    def scrub(event: Any, _hint: Any) -> Any:
        if "request" in event:
            event["request"] = {name: event["request"][name] for name in _REQUEST_FIELDS if name in event["request"]}
        return _scrubbed(event, secrets)

    assert settings.sentry_dsn is not None  # noqa: S101 - the caller has checked
    sentry_sdk.init(
        dsn=settings.sentry_dsn.get_secret_value(),
        environment=settings.environment,
        # Other integrations add half a second to a cold start, or send private data.
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[FlaskIntegration(transaction_style="url"), DedupeIntegration(), ThreadingIntegration()],
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        traces_sample_rate=settings.sentry_traces_sample_rate,
        before_send=scrub,
        before_send_transaction=scrub,
        before_breadcrumb=lambda crumb, hint: _scrubbed(crumb, secrets),
    )


def flush() -> None:
    """Send pending events. Does nothing without Sentry."""
    with contextlib.suppress(Exception):
        if sdk := _active():
            sdk.flush(timeout=_FLUSH_SECONDS)


def message(text: str, *, level: str, group: str) -> bool:
    """Send an alert; return False without Sentry, or if the SDK fails."""
    with contextlib.suppress(Exception):
        if sdk := _active():
            with sdk.new_scope() as scope:
                scope.fingerprint = ["alert", group]
                sdk.capture_message(text, level=level)
            return True
    return False


def checked_in(settings: Settings, *, longest: float) -> contextlib.AbstractContextManager[None]:
    """Check in the tick of the minute: in progress, then ok or error. `longest`: its time limit in seconds."""
    return _Watched(lambda sdk: _check_in(settings, longest=longest))


def with_trace(rows: list[Json]) -> list[Json]:
    """Return jobs that are about to be enqueued with their trace in `context`. Without Sentry, as they are."""
    with contextlib.suppress(Exception):
        sdk = _active()
        if sdk is not None and rows:
            return _traced(sdk, rows)
    return rows


def processed(job: Job) -> contextlib.AbstractContextManager[None]:
    """Return a transaction around a run, in its job's trace. Without Sentry, it does nothing."""
    return _Watched(lambda sdk: _transaction(sdk, job))


class _Watched(contextlib.AbstractContextManager[None]):
    """A context of the SDK around work of ours: what it raises is dropped, and what the work raises goes through."""

    def __init__(self, make: Callable[[Any], contextlib.AbstractContextManager[None]]) -> None:
        self._make = make
        self._context: contextlib.AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        with contextlib.suppress(Exception):
            if sdk := _active():
                context = self._make(sdk)
                context.__enter__()
                self._context = context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._context is not None:
            with contextlib.suppress(Exception):
                self._context.__exit__(kind, error, traceback)


@contextlib.contextmanager
def _check_in(settings: Settings, *, longest: float) -> Iterator[None]:
    from sentry_sdk.crons import capture_checkin

    slug = settings.sentry_monitor_slug
    monitor: Any = {
        "schedule": {"type": "crontab", "value": "* * * * *"},
        "timezone": "UTC",
        "checkin_margin": 2,
        "max_runtime": max(1, round(longest / 60 + 0.5)),
        "failure_issue_threshold": 2,
        "recovery_threshold": 1,
    }
    check_in_id = capture_checkin(monitor_slug=slug, status="in_progress", monitor_config=monitor)
    status = "error"
    try:
        yield
        status = "ok"
    finally:
        capture_checkin(monitor_slug=slug, check_in_id=check_in_id, status=status, monitor_config=monitor)


def _traced(sdk: Any, rows: list[Json]) -> list[Json]:
    stage = str(rows[0].get("stage"))
    with sdk.start_span(op="queue.publish", name=stage) as span:
        span.set_data("messaging.system", "giftcard_jobs")
        span.set_data("messaging.destination.name", stage)
        span.set_data("messaging.message.id", str(rows[0].get("correlation_id")))
        trace = {"sentry-trace": sdk.get_traceparent(), "baggage": sdk.get_baggage()}
        return [row | {"context": (row.get("context") or {}) | {"trace": trace}} for row in rows]


@contextlib.contextmanager
def _transaction(sdk: Any, job: Job) -> Iterator[None]:
    trace = job.context.get("trace")
    with sdk.isolation_scope():
        transaction = sdk.continue_trace(trace if isinstance(trace, dict) else {}, op="queue.process", name=job.stage)
        with sdk.start_transaction(transaction) as span:
            span.set_data("messaging.system", "giftcard_jobs")
            span.set_data("messaging.destination.name", job.stage)
            span.set_data("messaging.message.id", str(job.id))
            span.set_data("messaging.message.retry.count", job.attempts - 1)
            delay = (job.locked_at - job.scheduled_at).total_seconds() * 1000
            span.set_data("messaging.message.receive.latency", delay)
            yield


class _Handler(logging.Handler):
    """Forwards log events to Sentry: errors as events, the others as breadcrumbs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a record. Never raises: reporting an error must not cause another."""
        with contextlib.suppress(Exception):
            if sdk := _active():
                _forward(sdk, record)


def _forward(sdk: Any, record: logging.LogRecord) -> None:
    fields: Json = getattr(record, "fields", {})
    text = str(fields.get("error") or fields.get("text") or "")
    fault: Fault | None = getattr(record, "fault", None)
    if fault is not None and fault.is_bug:
        capture(sdk, record.getMessage(), _plain(fields), fault)
    elif record.levelno < logging.ERROR:
        level = record.levelname.lower()
        sdk.add_breadcrumb(category=record.getMessage(), level=level, message=text, data=_plain(fields))
    else:
        _send_message(sdk, record, fields, text)


def _send_message(sdk: Any, record: logging.LogRecord, fields: Json, text: str) -> None:
    group, kind = str(fields.get("stage") or record.getMessage()), text.partition(":")[0]
    with sdk.new_scope() as scope:
        scope.fingerprint = [group, kind]
        scope.set_tag("event", record.getMessage())
        if "stage" in fields:
            scope.set_tag("stage", fields["stage"])
        scope.set_context("fields", _plain(fields))
        sdk.capture_message(f"{group}: {text}" if text else group, level="error")


def _plain(fields: Json) -> Json:
    return {name: value if isinstance(value, int | float | None) else str(value) for name, value in fields.items()}


def _active() -> Any:
    """Return the SDK if it is set up in this process."""
    sdk = sys.modules.get("sentry_sdk")
    return sdk if sdk is not None and sdk.get_client().is_active() else None


def _scrubbed(value: Any, secrets: list[str]) -> Any:
    """Return a value with all its texts redacted."""
    if isinstance(value, dict):
        return {name: _scrubbed(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(inner, secrets) for inner in value]
    return clean(value, secrets=secrets, limit=_MAX_TEXT_LENGTH) if isinstance(value, str) else value
