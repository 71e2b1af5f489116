"""What failed: if a test fails, its report lists the runs of jobs that failed meanwhile, with the lines of code."""

import logging
from collections.abc import Generator
from typing import Any

import pytest

from lib.cli import frames
from lib.telemetry.events import LOG

_EVENTS = ("run_failed", "run_dead_lettered", "hook_failed")
_MOST = 50


class _Failures(logging.Handler):
    """Collects the runs and hooks that fail, from the log of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in _EVENTS and len(self.texts) < _MOST:
            self.texts.append(_text(record))


def _text(record: logging.LogRecord) -> str:
    fields: dict[str, Any] = getattr(record, "fields", {})
    if "hook" in fields:
        return f"{fields['hook']}: {fields['error']} at {fields['at']}"
    attempt = f"attempt {fields['attempt']} of {fields['max_attempts']}"
    text = f"job {fields['job_id']} of stage {fields['stage']}, {attempt}: {fields['error']}"
    fault = getattr(record, "fault", None)
    return "\n".join([text, *(frames.line(frame.as_json()) for frame in fault.frames)]) if fault else text


_FAILURES = _Failures()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin anew for each test."""
    _FAILURES.texts.clear()
    LOG.addHandler(_FAILURES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what failed to the report of a test that failed."""
    report = yield
    if report.failed and _FAILURES.texts:
        report.sections.append(("Jobs that failed", "\n".join(_FAILURES.texts)))
    return report
