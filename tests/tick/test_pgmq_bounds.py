"""A queue is bound by its setting: no message chooses stage, tenant, another's flow, effects or anything else."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Outcome
from lib.tick.pgmq import import_pgmq
from tests.support.queues import NOTHING, Queues
from tests.support.world import World, an_order

Make = Callable[..., World]
OURS = "pgmq:work_queue:flow:"


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    queues = Queues(connection)
    queues.create("work_queue")
    return queues


@pytest.fixture
def world(make_world: Make) -> World:
    """Messages become jobs of stage work, whose effect returns what the first one did."""

    def once(payload: Any, context: Any) -> Outcome:
        done = context.once("effect", lambda key: {"by": payload.model_dump().get("n"), "key": key})
        return Complete(context={"done": done})

    return make_world(handlers={"work": once}, GIFTCARD_PGMQ_QUEUES="work_queue:work:acme")


def imported(world: World) -> dict[str, Any]:
    counts, _ = import_pgmq(world.store, world.registry, world.settings)
    return counts["work_queue"]


# Tenant


@pytest.mark.parametrize("message", [{}, {"tenant_id": "acme"}])
def test_jobs_belong_to_the_tenant_of_their_queue(world: World, queues: Queues, message: Any) -> None:
    queues.send("work_queue", message | {"n": 1})
    assert imported(world) == NOTHING | {"moved": 1}
    assert (world.job()["tenant_id"], world.job()["payload"]) == ("acme", {"n": 1})


OTHERS = ["default", "ACME", "acme ", "", "*", None, 7, ["acme"], {"a": 1}, "a\nb", "x" * 300]


@pytest.mark.parametrize("tenant_id", OTHERS)
def test_a_message_that_names_another_tenant_is_refused(world: World, queues: Queues, tenant_id: Any) -> None:
    queues.send("work_queue", {"tenant_id": tenant_id, "n": 1})
    assert imported(world) == NOTHING | {"refused": 1}
    dead = world.job()
    assert (dead["tenant_id"], dead["status"]) == ("acme", "error")
    assert dead["last_error"].startswith("PermanentError: the queue belongs to the tenant acme, tenant_id is ")


@pytest.mark.parametrize("message", ["text", {"tenant_id": "default", "text": "x" * 300_000}])
def test_what_cannot_be_a_job_is_the_tenants_too(world: World, queues: Queues, message: Any) -> None:
    queues.send("work_queue", message)
    assert imported(world) == NOTHING | {"refused": 1}
    assert world.job()["tenant_id"] == "acme"


# Flows and effects


def test_a_message_joins_no_flow_of_another_source(world: World, queues: Queues) -> None:
    world.enqueue("work", {"n": 1}, tenant_id="acme", correlation_id="o-1")
    queues.send("work_queue", {"correlation_id": "o-1", "n": 2})
    assert imported(world) == NOTHING | {"moved": 1}
    world.run()
    jobs = world.sql("select correlation_id, context -> 'done' as done from giftcard_jobs order by id")
    assert [(job["correlation_id"], job["done"]["by"]) for job in jobs] == [("o-1", 1), (f"{OURS}o-1", 2)]
    assert len({job["done"]["key"] for job in jobs}) == 2
    effects = world.sql("select correlation_id from giftcard_effects order by 1")
    assert [effect["correlation_id"] for effect in effects] == ["o-1", f"{OURS}o-1"]


def test_a_flow_that_a_message_began_is_in_no_ones_way(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="work_queue:payment")
    cheap = an_order(amount={"amount": 100, "currency": "USD"}) | {"correlation_id": "order-1"}
    queues.send("work_queue", cheap)
    world.tick()
    assert world.submit(an_order(correlation_id="order-1")).status_code == 202
    world.drain()
    found = world.sql("select correlation_id, amount from giftcard_payments order by amount")
    assert [tuple(row.values()) for row in found] == [(f"{OURS}order-1", 100), ("order-1", 2500)]
    cards = world.sql("select correlation_id, amount from giftcard_cards order by amount")
    assert [tuple(row.values()) for row in cards] == [(f"{OURS}order-1", 100), ("order-1", 2500)]


def test_two_queues_share_no_flow(make_world: Make, queues: Queues) -> None:
    queues.create("other_queue", {"correlation_id": "o-1", "n": 2})
    queues.send("work_queue", {"correlation_id": "o-1", "n": 1})
    both = "work_queue:work,other_queue:work"
    world = make_world(handlers={"work": lambda *_: Complete()}, GIFTCARD_PGMQ_QUEUES=both)
    counts, _ = import_pgmq(world.store, world.registry, world.settings)
    assert [queue["moved"] for queue in counts.values()] == [1, 1]


def test_a_name_like_a_number_is_not_the_flow_of_the_message_of_that_number(world: World, queues: Queues) -> None:
    queues.send("work_queue", {"n": 1})
    queues.send("work_queue", {"correlation_id": "1", "n": 2})
    assert imported(world) == NOTHING | {"moved": 2}
    world.run()
    assert world.value("select count(*) from giftcard_effects") == 2
    flows = world.sql("select correlation_id from giftcard_jobs order by id")
    assert [flow["correlation_id"] for flow in flows] == ["pgmq:work_queue:1", f"{OURS}1"]


@pytest.mark.parametrize(("length", "outcome"), [(179, "moved"), (180, "refused"), (200, "refused")])
def test_a_flow_has_a_name_that_the_api_accepts(world: World, queues: Queues, length: int, outcome: str) -> None:
    queues.send("work_queue", {"correlation_id": "x" * length})
    assert imported(world) == NOTHING | {outcome: 1}
    job = world.job()
    assert len(job["correlation_id"]) <= 200
    if outcome == "refused":
        assert job["last_error"].endswith("correlation_id is too long: in this queue, 179 characters are allowed")


# Anything else


COLUMNS = {
    "id": 99, "stage": "webhook", "status": "completed", "trigger_type": "api", "source": "app", "circuit": "work:x",
    "context": {"customer_id": 1}, "attempts": 9, "max_attempts": 9, "run_no": 9, "semantics": "at_most_once",
    "ttr_seconds": 9, "retry_delays": [1], "scheduled_at": "2000-01-01T00:00:00Z", "delay_seconds": 99,
    "locked_at": "2000-01-01T00:00:00Z", "lock_owner": "x", "lease_id": "00000000-0000-0000-0000-000000000001",
    "revive_at": "2000-01-01T00:00:00Z", "revivals": 9, "last_error": "x", "created_at": "2000-01-01T00:00:00Z",
    "payload": {"n": 1}, "payload_json": "{}", "error": "x", "order": {"reference": "o-1"}, "endpoint_id": 1,
    "event_id": "msg_1", "vendor_key": "gc_x", "name": "effect", "priority": 9, "pgmq": {"queue": "other"},
}  # fmt: skip


def written_by_queue(world: World) -> dict[str, Any]:
    """What the job has besides payload and flow, and what moves with each run of the test."""
    job = world.job()
    for name in ("id", "payload", "correlation_id", "dedup_key", "scheduled_at", "created_at", "updated_at"):
        del job[name]
    for name in ("msg_id", "sent_at", "content"):
        del job["context"]["pgmq"][name]
    return job


@pytest.mark.parametrize("names", [*([name] for name in COLUMNS), list(COLUMNS)], ids=lambda names: names[-1])
def test_any_other_key_is_payload_and_nothing_else(world: World, queues: Queues, names: list[str]) -> None:
    queues.send("work_queue", {})
    imported(world)
    expected = written_by_queue(world)
    assert (expected["stage"], expected["trigger_type"], expected["source"]) == ("work", "pgmq", "pgmq")
    assert (expected["tenant_id"], expected["circuit"], expected["status"]) == ("acme", "work", "queued")
    assert expected["context"].keys() == {"pgmq"}
    world.sql("delete from giftcard_jobs returning id")
    message = {name: COLUMNS[name] for name in names}
    queues.send("work_queue", {"correlation_id": "o-1", "dedup_key": "d"} | message)
    assert imported(world) == NOTHING | {"moved": 1}
    job = world.job()
    assert (job["correlation_id"], job["dedup_key"], job["payload"]) == (f"{OURS}o-1", "d", message)
    assert written_by_queue(world) == expected
    assert json.dumps(message, sort_keys=True) == json.dumps(job["payload"], sort_keys=True)


def test_next_jobs_of_a_message_are_of_pgmq(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="work_queue:payment")
    queues.send("work_queue", an_order())
    world.tick()
    world.drain()
    found = world.sql("select stage, source, trigger_type from giftcard_jobs order by id")
    assert {row["source"] for row in found} == {"pgmq"}
    assert [row["trigger_type"] for row in found] == ["pgmq", "flow", "flow"]
