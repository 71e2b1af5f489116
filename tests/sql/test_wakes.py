"""When a tick is woken: the row that decides."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.factory import World

WAITS = {"mode": "pg_net", "ticks": 1, "seconds": 50, "limit": 10}


def row(world: World) -> dict[str, Any]:
    (found,) = world.rows("select * from giftcard_wakes")
    return found


def counts(world: World, *names: str) -> list[int]:
    return [row(world)[name] for name in names]


def test_one_wake_a_second_is_taken(world: World) -> None:
    assert [world.call("take_wake") for _ in range(3)] == [True, False, False]
    world.later(0.99)
    assert not world.call("take_wake")
    world.later(0.01)
    assert world.call("take_wake")
    assert counts(world, "sent", "in_minute", "held_back") == [2, 2, 0]


def test_twenty_wakes_a_minute_are_taken_and_the_others_counted(world: World) -> None:
    taken = []
    for _ in range(30):
        taken.append(world.call("take_wake"))
        world.later(1)
    assert taken == [True] * 20 + [False] * 10
    assert world.from_now(row(world)["due_at"]) == 30
    world.later(30)
    assert world.call("take_wake")
    assert counts(world, "sent", "in_minute", "held_back") == [21, 1, 1]


def test_a_tick_that_leaves_work_wakes_without_the_limit_of_a_minute(world: World) -> None:
    for _ in range(20):
        world.call("take_wake")
        world.later(1)
    assert not world.call("take_wake")
    assert world.call("take_wake", catches_up=True)


def test_a_clock_that_was_ahead_holds_no_wake_up(world: World) -> None:
    assert world.call("take_wake")
    world.later(-3600)
    assert world.call("take_wake")


@pytest.mark.parametrize(
    ("begun", "woken"),
    [
        ({"wake": WAITS, "linger_seconds": 50}, False),
        ({"wake": WAITS | {"seconds": 0}, "linger_seconds": 50}, True),
        ({"wake": WAITS | {"limit": 1}, "linger_seconds": 50}, True),
        ({"linger_seconds": 50}, True),
        ({"wake": WAITS, "linger_seconds": 50, "live_seconds": 1}, True),
        ({"wake": WAITS, "linger_seconds": 50, "only_stage": "email"}, True),
        ({"wake": WAITS, "linger_seconds": 50, "paused": True}, True),
    ],
    ids=["it waits", "not for long", "at its limit", "waking is off there", "killed", "for one stage", "paused"],
)
def test_a_wake_is_spared_while_a_tick_waits_for_jobs(world: World, begun: dict[str, Any], woken: bool) -> None:
    world.enqueue()
    world.enqueue()
    world.begin(**{"limit": 1, "live_seconds": 130} | begun)
    world.later(2)
    assert world.call("take_wake") is woken


@pytest.mark.parametrize(
    "wake", [[], 7, {"limit": "x", "seconds": 50}, {"limit": 10, "seconds": "x"}, {"limit": 10, "seconds": -1e300}]
)
def test_a_tick_whose_row_makes_no_sense_spares_no_wake(world: World, wake: Any) -> None:
    world.enqueue()
    world.begin()
    world.run("update giftcard_ticks set wake = %s", Jsonb(wake))
    assert world.call("take_wake")


def test_no_tick_is_woken_while_everything_is_paused(world: World) -> None:
    world.call("pause", stage="*", by="kim", reason=None)
    assert world.call("take_wake") is False
    world.call("resume", stage="*", by="kim")
    assert world.call("take_wake") is True


def test_a_wake_without_a_tick_counts_as_lost(world: World) -> None:
    world.call("take_wake")
    world.later(9)
    world.begin(source="wake")
    world.later(60)
    world.call("take_wake")
    assert world.call("waking")["lost"] == 0
    world.later(11)
    facts = world.call("waking")
    assert (facts["lost"], facts["followed"], facts["age"], facts["sent"]) == (1, False, 11, 2)
    world.call("take_wake")
    assert counts(world, "lost", "sent") == [1, 3]


def test_an_order_and_an_enqueue_tell_their_caller_to_wake(world: World) -> None:
    def job(**more: Any) -> dict[str, Any]:
        return {"stage": "email", "correlation_id": f"flow-{more}"} | more

    assert not world.call("enqueue_and_wake", jobs=[job(delay_seconds=61)])["wake"]
    answer = world.call("enqueue_and_wake", jobs=[job(delay_seconds=61), job(delay_seconds=30)])
    assert answer["wake"]
    assert [one["created"] for one in answer["jobs"]] == [False, True]
    world.later(1)
    order = {"tenant_id": "default", "payload": {"amount": {"amount": 1, "currency": "USD"}}, "body_hash": "x"}
    assert world.call("submit_order", correlation_id="o-1", wake=True, **order)["wake"]
    assert "wake" not in world.call("submit_order", correlation_id="o-1", wake=True, **order)
    assert "wake" not in world.call("submit_order", correlation_id="o-2", **order)


def test_a_decision_that_fails_fails_no_enqueue(world: World) -> None:
    world.run("alter table giftcard_wakes add constraint broken check (sent < 1)")
    answer = world.call("enqueue_and_wake", jobs=[{"stage": "email", "correlation_id": "a"}])
    assert (answer["wake"], answer["jobs"][0]["status"]) == (False, "queued")
    assert counts(world, "failed") == [1]
    assert "broken" in world.call("waking")["error"]


def test_a_locked_table_holds_no_enqueue_up(world: World, database_url: str) -> None:
    world.connection.commit()
    with psycopg.connect(database_url) as other:
        other.execute("lock table giftcard_wakes in access exclusive mode")
        world.run("set statement_timeout = '5s'")
        enqueued = world.call("enqueue_and_wake", jobs=[{"stage": "email", "correlation_id": "flow-1"}])
    assert (enqueued["jobs"][0]["created"], enqueued["wake"]) == (True, False)
