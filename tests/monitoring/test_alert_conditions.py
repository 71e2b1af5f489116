"""Each condition is raised, repeated and resolved in its own words, and no row of any table stops the others."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.alerts import Make, texts
from tests.support.raw_server import Server
from tests.support.working import works
from tests.support.world import ADMIN, World, bearer


@pytest.fixture
def world(make_world: Make, receiver: Server) -> World:
    return make_world(handlers={"work": works}, GIFTCARD_ALERT_URL=receiver.url, GIFTCARD_JOBS_PER_CRON_RUN=1)


def tick(world: World, *, after: float = 60) -> dict[str, Any]:
    """The clock's next call."""
    world.move(after)
    return world.tick()


@dataclass(frozen=True, slots=True)
class Condition:
    begin: Callable[[World], object]
    end: Callable[[World], object]
    raised: str
    resolved: str


def dead_letters(world: World) -> None:
    for stage in ("work", "other"):
        world.enqueue(stage, count=2)
    world.sql("update giftcard_jobs set status = 'error', finished_at = now() - interval '6 minutes'")


def a_circuit(world: World) -> None:
    world.sql(
        """insert into giftcard_circuits (circuit, state, changed_at, open_until)
             values ('webhook:7', 'open', now(), 'infinity')"""
    )
    world.sql(
        """insert into giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause)
             values ('webhook:7', 'closed', 'open', now(), '10 failures in a row, the last: no')"""
    )


def late(world: World) -> None:
    world.sql("insert into giftcard_stages (stage, paused_at, paused_by) values ('*', now(), 'kim')")
    world.enqueue("work")
    world.sql("update giftcard_jobs set scheduled_at = scheduled_at - interval '20 minutes'")


def paid(world: World) -> None:
    world.sql(
        """insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at)
           select 'order-' || n, 'hash', 1, 'EUR', now() from generate_series(1, 2) n"""
    )
    world.sql(
        """insert into giftcard_payments (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount,
                                          currency, worth, created_at)
           select 'default', 'order-' || n, n, 'ledger', n, 1, 'EUR', 1, now() - interval '6 minutes'
             from generate_series(1, 2) n"""
    )


def limit(world: World) -> None:
    world.enqueue("work", count=30)
    world.sql("update giftcard_maintenance_tasks set last_at = now() + interval '1 hour' where task = 'alerts'")
    for _ in range(9):
        tick(world, after=10)
    world.sql("update giftcard_maintenance_tasks set last_at = '-infinity' where task = 'alerts'")


def denied(world: World) -> None:
    world.sql(
        """insert into giftcard_denied_requests (bucket, window_at, requests, former_requests)
             values (1, now() + interval '1 minute', 60, 0), (2, now() + interval '1 minute', 1, 59)"""
    )


def cancel(world: World) -> None:
    world.sql("update giftcard_jobs set status = 'cancelled' where status in ('queued', 'error')")


CONDITIONS = {
    "dead_letters": Condition(
        dead_letters,
        cancel,
        "dead letters: 4, of other, work. See why: flask jobs list --status error",
        "no dead letters are left",
    ),
    "circuit:webhook:7": Condition(
        a_circuit,
        lambda world: world.sql("update giftcard_circuits set state = 'closed'"),
        "circuit webhook:7 is open: 10 failures in a row, the last: no. Its jobs wait; see flask jobs circuits",
        "circuit webhook:7 is closed",
    ),
    "late:work": Condition(
        late,
        cancel,
        "the oldest due job of stage work has waited for 21 minutes. See flask jobs status",
        "jobs of stage work start on time",
    ),
    "books:paid_without_card": Condition(
        paid,
        lambda world: world.sql("delete from giftcard_payments"),
        "money and cards do not match: paid without card: 2, the first is order order-1. "
        "See flask jobs orders reconcile",
        "money and cards match again: paid without card",
    ),
    "limit": Condition(
        limit,
        cancel,
        "the last ten ticks all stopped at the limit with due jobs left: raise GIFTCARD_JOBS_PER_CRON_RUN (limit) or "
        "GIFTCARD_CONCURRENCY (budget)",
        "ticks run all due jobs again",
    ),
    "denied_requests": Condition(
        denied,
        lambda world: world.sql("delete from giftcard_denied_requests"),
        "120 requests with a wrong token or signature within ten minutes: see which paths in the log, event "
        "request_denied",
        "few requests have a wrong token or signature now",
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_raised_repeated_and_resolved_once_each(world: World, receiver: Server, name: str) -> None:
    condition = CONDITIONS[name]
    condition.begin(world)
    tick(world)
    assert receiver.asked, "the first tick after it began sends the alert"
    body = json.loads(receiver.asked[0].body)
    assert (body["condition"], body["kind"]) == (name, "raised")
    assert texts(receiver) == [condition.raised]
    tick(world)
    assert texts(receiver) == []
    world.sql("update giftcard_alert_notifications set notified_at = notified_at - interval '24 hours'")
    tick(world)
    (repeated,) = texts(receiver)
    assert repeated.replace("23 minutes", "21 minutes") == f"Still: {condition.raised}"
    condition.end(world)
    tick(world)
    tick(world)
    assert texts(receiver) == [f"Resolved: {condition.resolved}"]


def test_condition_that_was_over_before_its_alert_sends_none(world: World, receiver: Server) -> None:
    receiver.answer = lambda asked: asked.answer(500)
    a_circuit(world)
    tick(world)
    world.sql("update giftcard_circuits set state = 'closed'")
    receiver.answer = lambda asked: asked.answer(204)
    receiver.asked.clear()
    tick(world)
    assert texts(receiver) == []


def test_condition_that_comes_and_goes_sends_one_alert_an_hour(world: World, receiver: Server) -> None:
    a_circuit(world)
    for minute in range(90):
        world.sql("update giftcard_circuits set state = %s", "closed" if minute % 2 else "open")
        tick(world)
    assert len(texts(receiver)) == 4


def test_alerts_are_checked_after_the_clock_went_back(world: World, receiver: Server) -> None:
    tick(world)
    a_circuit(world)
    world.sql("update giftcard_maintenance_tasks set last_at = last_at + interval '1 day'")
    tick(world)
    assert len(texts(receiver)) == 1


# Rows that no code of ours writes


HOSTILE = [
    "update giftcard_alerts set since = 'infinity'",
    "update giftcard_alerts set since = '-infinity'",
    "update giftcard_alert_notifications set notified_at = 'infinity', sending_until = 'infinity'",
    "update giftcard_alert_notifications set notified_at = '-infinity', failed_at = 'infinity'",
    "update giftcard_alerts set detail = '[]'",
    'update giftcard_alerts set detail = \'{"seconds": 1e308, "stages": 7, "subject": {}, "self": []}\'',
    "update giftcard_alerts set detail = jsonb_build_object('cause', repeat('x', 5000000))",
    "update giftcard_ticks set started_at = 'infinity'",
    "update giftcard_ticks set started_at = '-infinity'",
    "update giftcard_jobs set scheduled_at = '-infinity'",
    "update giftcard_jobs set status = 'error', finished_at = '-infinity'",
    "update giftcard_jobs set status = 'error', finished_at = 'infinity'",
    "update giftcard_circuits set open_until = '-infinity', changed_at = '-infinity'",
    "update giftcard_circuit_changes set cause = repeat('{a}', 100000)",
    "update giftcard_circuits set circuit = 'webhook:' || repeat('{x!r}' || chr(7), 40)",
    "update giftcard_payments set created_at = '-infinity'",
    "update giftcard_payments set created_at = 'infinity'",
    "update giftcard_maintenance_tasks set last_at = 'infinity'",
    "update giftcard_maintenance_tasks set last_at = '294276-12-31 23:59:59'",
]


@pytest.mark.parametrize("statement", HOSTILE, ids=lambda statement: statement[16:70])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_no_row_stops_the_other_alerts_the_tick_or_the_health(
    world: World, receiver: Server, statement: str, state: str
) -> None:
    a_circuit(world)
    paid(world)
    world.enqueue("work", {"fails": "ever"}, scheduled_at="infinity")
    tick(world)
    assert len(texts(receiver)) == 2
    world.sql("update giftcard_circuits set state = %s", state)
    world.sql(statement)
    world.sql("insert into giftcard_circuits (circuit, state, open_until) values ('other', 'open', 'infinity')")
    world.sql("update giftcard_maintenance_tasks set last_at = '-infinity' where last_at < now()")
    report = world.tick()
    assert report["maintenance"]["alerts"]["failed"] == 0
    sent = texts(receiver)
    assert [text for text in sent if text.startswith("circuit other is open")]
    response = world.client.get("/api/health/deep", headers=bearer(ADMIN))
    assert response.status_code == 503
    assert "circuit:other" in [alert["condition"] for alert in response.json["alerts"]]
    assert max(map(len, sent)) <= 1000
