"""What only watches never stops what works: a Sentry SDK that raises, a DSN that is none, a log handler that fails."""

import logging
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lib.job import Complete, Outcome
from lib.monitoring.alert_channels import Alert, Notification, senders
from lib.telemetry import events, sentry
from tests.support.world import ADMIN, World, an_order, bearer, settings_of

Make = Callable[..., World]


class Raising:
    """Everything of it raises when it is called; `is_active` answers first."""

    def __init__(self, error: type[Exception], calls: list[str]) -> None:
        self._error, self._calls = error, calls

    def get_client(self) -> Any:
        return SimpleNamespace(is_active=lambda: True)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            self._calls.append(name)
            raise self._error(name)

        return call


@pytest.fixture(params=[RuntimeError, KeyError, OSError])
def sdk_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An SDK that is set up, and raises. The names that were called."""
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "sentry_sdk", Raising(request.param, calls))  # type: ignore[arg-type]
    monkeypatch.setitem(
        sys.modules,
        "sentry_sdk.crons",
        SimpleNamespace(capture_checkin=Raising(request.param, calls).capture_checkin),  # type: ignore[arg-type]
    )
    return calls


@pytest.fixture
def forwarding() -> Iterator[None]:
    """The log goes to Sentry, too."""
    handler, level = sentry._Handler(), events.LOG.level
    events.LOG.addHandler(handler)
    events.LOG.setLevel(logging.INFO)
    yield
    events.LOG.setLevel(level)
    events.LOG.removeHandler(handler)


def test_no_request_tick_or_run_fails_with_the_sdk(make_world: Make, sdk_calls: list[str], forwarding: None) -> None:
    def work(payload: Any, context: Any) -> Outcome:
        return Complete()

    def fail(payload: Any, context: Any) -> Outcome:
        raise ValueError("no")

    world = make_world(handlers={"work": work, "fail": fail, "customer_ingest": work})
    jobs = [{"stage": stage, "correlation_id": "one", "payload": {}} for stage in ("work", "fail")]
    made = world.client.post("/api/v1/jobs", json={"jobs": jobs}, headers=bearer(ADMIN))
    assert made.status_code == 202, made.text
    report = world.tick()
    assert (report["completed"], report["retried"]) == (1, 1)
    assert world.submit(an_order()).status_code == 202
    assert {"start_span", "isolation_scope", "capture_checkin", "flush", "add_breadcrumb"} <= set(sdk_calls)


def test_what_a_run_raises_goes_through_and_nothing_else(sdk_calls: list[str]) -> None:
    job: Any = SimpleNamespace(context={}, stage="work")
    with pytest.raises(ZeroDivisionError), sentry.processed(job):
        raise ZeroDivisionError
    with pytest.raises(SystemExit), sentry.checked_in(settings_of(), longest=60):
        raise SystemExit
    assert sentry.with_trace([{"stage": "x"}]) == [{"stage": "x"}]
    assert sentry.message("text", level="error", group="g") is False
    sentry.flush()


def test_an_sdk_that_fails_at_the_end_of_a_run_leaves_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    class Span:
        def __enter__(self) -> Any:
            return SimpleNamespace(set_data=lambda *args: None)

        def __exit__(self, *error: object) -> None:
            raise RuntimeError("the span does not end")

    whole = SimpleNamespace(
        get_client=lambda: SimpleNamespace(is_active=lambda: True),
        isolation_scope=Span,
        continue_trace=lambda *args, **more: None,
        start_transaction=lambda transaction: Span(),
    )
    monkeypatch.setitem(sys.modules, "sentry_sdk", whole)
    job: Any = SimpleNamespace(context={}, stage="work", id=1, attempts=1, locked_at=_Zero(), scheduled_at=_Zero())
    with sentry.processed(job):
        done = "the work"
    assert done
    with pytest.raises(ZeroDivisionError), sentry.processed(job):
        raise ZeroDivisionError


class _Zero:
    def __sub__(self, other: object) -> Any:
        return SimpleNamespace(total_seconds=lambda: 0.0)


def test_an_sdk_that_cannot_tell_whether_it_is_set_up_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentry_sdk", SimpleNamespace())  # type: ignore[arg-type]
    job: Any = SimpleNamespace(context={}, stage="work")
    with sentry.processed(job), sentry.checked_in(settings_of(), longest=60):
        sentry.flush()
        assert sentry.with_trace([{"stage": "x"}]) == [{"stage": "x"}]
    sentry._Handler().emit(logging.LogRecord("giftcards", logging.ERROR, "", 0, "tick_failed", (), None))


def test_an_alert_that_sentry_does_not_take_is_a_failed_channel(sdk_calls: list[str]) -> None:
    ((send, (channel,)),) = senders(settings_of(SENTRY_DSN="http://key@localhost/1"))
    assert channel.name == "sentry"
    alert = Alert({"condition": "c", "kind": "raised"}, "text")
    with pytest.raises(Exception, match="Sentry"):
        send([Notification(channel, [alert])], 10.0, lambda channel, alert, error: None)


def test_a_log_handler_that_raises_fails_nothing(world: World) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the log is full")

    handler = Broken()
    events.LOG.addHandler(handler)
    try:
        world.submit()
        assert world.tick()["completed"] > 0
    finally:
        events.LOG.removeHandler(handler)
