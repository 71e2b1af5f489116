"""docs/events.md tells the fields of each event: compared with what is logged on a day on which everything happens."""

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from lib.errors import PermanentError, TransientError, Unavailable
from lib.job import Complete, Outcome, Snooze
from lib.jobs.context import Context
from lib.jobs.hooks import after_error
from lib.store.postgres import PostgresWire
from lib.telemetry import events, sentry
from lib.tick import maintenance
from lib.tick.report import TickReport
from tests.support.pages import TEXTS, named, rows
from tests.support.square import SETTINGS, money, payment, refund, taken
from tests.support.world import CRON, World, a_world, bearer, settings_of

Log = Callable[[], list[dict[str, Any]]]
ALWAYS = {"time", "level", "event"}
# These need pgmq: the tests of the inlets see them happen.
ELSEWHERE = {
    "pgmq_import_failed",
    "messages_imported",
    "messages_refused",
    "planning_failed",
    "job_unreadable",
    "stage_broken",
    "wake_failed",
}


class _Wire:
    """Postgres, until the test has it away; `between` is called when a tick has begun."""

    def __init__(self, url: str) -> None:
        self._real = PostgresWire(url)
        self.away = False
        self.between: Callable[[], object] = lambda: None

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if self.away:
            raise Unavailable("the database is away")
        answer = self._real.call(function, repeat=repeat, **arguments)
        if function == "giftcard_begin_tick":
            self.between()
        return answer

    def close(self) -> None:
        self._real.close()


def _handlers() -> dict[str, Callable[[Any, Context], Outcome]]:
    def fails_first(payload: Any, context: Context) -> Outcome:
        if context.job.attempts == 1:
            raise TransientError("not now")
        return Complete()

    def dies(payload: Any, context: Context) -> Outcome:
        raise PermanentError("never")

    return {
        "done": lambda payload, context: Complete(),
        "fails_first": fails_first,
        "dies": dies,
        "waits": lambda payload, context: Snooze(delay=3600, waiting_for="the night"),
        "unstorable": lambda payload, context: Complete(context={"text": "\x00"}),
    }


@pytest.fixture
def logged(database_url: str, log: Log) -> dict[str, list[dict[str, Any]]]:
    """The lines of such a day, by event."""
    wire = _Wire(database_url)
    # An alert that no channel takes, a maintenance task and a hook that fail.
    tasks = mock.patch.dict(maintenance.TASKS, {"prune": maintenance.MaintenanceTask(_fails)})
    settings = SETTINGS | {"GIFTCARD_ALERT_URL": "http://127.0.0.1:9/nobody"}
    events.set_level("debug")
    with (
        tasks,
        after_error.connected_to(_fails),
        a_world(database_url, handlers=_handlers(), wire=wire, **settings) as world,
    ):
        _live_through(world, wire)
    found: dict[str, list[dict[str, Any]]] = {}
    for line in log():
        found.setdefault(line["event"], []).append(line)
    return found


def _fails(*_: object) -> Any:
    raise RuntimeError("no")


def _live_through(world: World, wire: _Wire) -> None:
    with mock.patch("lib.telemetry.sentry._set_up", _fails):
        sentry.configure(settings_of(SENTRY_DSN="https://key@o1.ingest.sentry.io/2"))
    for stage in ("done", "dies", "waits", "unstorable"):
        world.enqueue(stage)
    world.enqueue("fails_first", count=3)
    world.sql("insert into giftcard_schedules (schedule, stage) values ('now and then', 'done')")
    world.run()
    world.move(3600)
    world.run(only_stage="fails_first")
    (job_id,) = world.enqueue("done")
    # Somebody is quicker than the worker that has just claimed it.
    by_hand = "update giftcard_jobs set status = 'queued', scheduled_at = now() + interval '1 hour' where id = %s"
    wire.between = lambda: world.sql(by_hand, job_id)
    world.run(only_stage="done")
    world.enqueue("done")
    wire.between = world.stop.set
    world.run(only_stage="done")
    taken(world, payment())
    taken(world, refund(amount_money=money(1, "EUR")))
    world.stop.clear()
    wire.between = lambda: None
    world.sql("update giftcard_ticks set started_at = started_at - interval '10 minutes'")
    world.sql("update giftcard_maintenance_tasks set last_at = '-infinity'")
    world.run()
    world.client.get("/api/status", headers=bearer("wrong"))
    wire.away = True
    world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))


def _shared(of: str, *, until: str) -> set[str]:
    """The names in the sentence that tells what the page calls *run* or *end*."""
    return set(named(TEXTS["events"].split(f"*{of}*")[1].split(until)[0]))


def _told() -> dict[str, set[str]]:
    shared = {
        "run": _shared("run", until="The line of the end"),
        "end": _shared("end", until="| event"),
        "report": set(TickReport().as_json()),
    }
    told = {}
    for event, _, fields, _ in rows("events", columns=4):
        if named(event):
            parts = [word for word in ("run", "end", "report") if re.search(rf"\b{word}\b", fields)]
            told[named(event)[0]] = set(named(fields)).union(*(shared[part] for part in parts))
    return told


def test_every_event_that_is_told_happens_and_has_the_fields_that_are_told(
    logged: dict[str, list[dict[str, Any]]],
) -> None:
    told = _told()
    assert set(logged) <= set(told) == set(events.LEVELS)
    assert set(told) - set(logged) == ELSEWHERE
    for event, lines in logged.items():
        sometimes = {"sqlstate"} if event == "request_failed" else set()
        for line in lines:
            assert set(line) - ALWAYS - sometimes == told[event] - sometimes, event
            assert set(line) >= ALWAYS, event
