"""A message about a flow that has a job already: the same content is repeated, another is kept as a dead letter."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.factory import STAGES, World
from tests.support.queues import NOTHING, Queues, import_messages

QUEUES = {"work_queue": {"stage": "email"}}
NAMES: dict[str, Any] = {"tenant_id": "acme", "correlation_id": "o-1", "dedup_key": "second"}


@pytest.fixture
def queues(world: World) -> Queues:
    return Queues(world.connection)


def import_pgmq(world: World) -> Any:
    return import_messages(world, QUEUES)["work_queue"]


def dead_letters(world: World) -> list[dict[str, Any]]:
    return world.rows("select * from giftcard_jobs where status = 'error' order by id")


def the_job(world: World) -> dict[str, Any]:
    (row,) = world.rows("select * from giftcard_jobs where status <> 'error'")
    return row


@pytest.mark.parametrize("names", [NAMES, {"correlation_id": "o-1"}])
@pytest.mark.parametrize("together", [True, False])
def test_another_content_of_the_same_flow_is_kept_aside(
    world: World, queues: Queues, names: dict[str, Any], together: bool
) -> None:
    queues.create("work_queue", names | {"amount": 1})
    before = NOTHING if together else import_pgmq(world)
    queues.send("work_queue", names | {"amount": 2})
    counts = import_pgmq(world)
    assert (before["moved"] + counts["moved"], counts["conflicts"], counts["repeated"]) == (1, 1, 0)
    job, (dead,) = the_job(world), dead_letters(world)
    assert job["payload"] == {"amount": 1}
    assert dead["payload"] == {"message": '{"amount": 2}'}
    assert dead["last_error"] == (
        f"Conflict: job {job['id']} has this tenant, correlation id, stage and dedup key, but another content"
    )
    assert (dead["correlation_id"], dead["tenant_id"]) == ("pgmq:work_queue:2", names.get("tenant_id", "default"))
    assert (dead["revive_at"], dead["run_no"], dead["trigger_type"]) == (None, 0, "pgmq")
    source = dead["context"]["pgmq"]
    assert (source["queue"], source["msg_id"], source["outcome"]) == ("work_queue", 2, "conflicts")
    assert source["correlation_id"] == "pgmq:work_queue:flow:o-1"
    assert (queues.waiting("work_queue"), queues.archived("work_queue")) == ([], [1, 2])


@pytest.mark.parametrize("change", ["tenant_id", "correlation_id", "dedup_key"])
def test_another_name_is_another_job(world: World, queues: Queues, change: str) -> None:
    queues.create("work_queue", NAMES | {"n": 1}, NAMES | {"n": 2, change: "other"})
    assert import_pgmq(world) == NOTHING | {"moved": 2}


def test_the_order_of_keys_is_no_content(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1} | NAMES)
    assert import_pgmq(world) == NOTHING | {"moved": 1, "repeated": 1}


@pytest.mark.parametrize("first", [{"a": 1}, {"a": None}, {"a": "1"}, {"a": [1]}, {"a": 1.5}])
@pytest.mark.parametrize("second", [{"a": 2}, {"a": True}, {}, {"b": 1}])
def test_any_difference_is_a_conflict(world: World, queues: Queues, first: Any, second: Any) -> None:
    queues.create("work_queue", NAMES | first, NAMES | second)
    assert import_pgmq(world) == NOTHING | {"moved": 1, "conflicts": 1}


@pytest.mark.parametrize("status", ["running", "completed", "error", "cancelled"])
def test_a_redelivery_is_repeated_whatever_became_of_the_job(world: World, queues: Queues, status: str) -> None:
    queues.create("work_queue", NAMES | {"n": 1})
    import_pgmq(world)
    world.run("update giftcard_jobs set status = %s", status)
    queues.send("work_queue", NAMES | {"n": 1})
    assert import_pgmq(world) == NOTHING | {"repeated": 1}


def test_a_redelivery_is_repeated_although_an_operator_has_corrected_the_payload(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"n": 1})
    import_pgmq(world)
    world.call("cancel", job_id=the_job(world)["id"])
    world.call("requeue", job_id=the_job(world)["id"], payload={"n": 7})
    queues.send("work_queue", NAMES | {"n": 1})
    queues.send("work_queue", NAMES | {"n": 7})
    assert import_pgmq(world) == NOTHING | {"repeated": 2}


def test_a_message_of_an_erased_job_is_not_kept_again(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"n": 1})
    import_pgmq(world)
    world.run("""update giftcard_jobs set payload = '{"erased": true}', context = '{}'""")
    queues.send("work_queue", NAMES | {"n": 1})
    assert import_pgmq(world) == NOTHING | {"repeated": 1}


def test_a_next_job_that_inherits_the_context_is_compared_by_its_payload(world: World, queues: Queues) -> None:
    source = {"pgmq": {"content": "of the message that began the flow"}}
    flow = "pgmq:work_queue:flow:o-1"
    world.enqueue("email", correlation_id=flow, payload={"n": 1}, context=source, trigger_type="flow")
    queues.create("work_queue", {"correlation_id": "o-1", "n": 1}, {"correlation_id": "o-1", "n": 2})
    assert import_pgmq(world) == NOTHING | {"repeated": 1, "conflicts": 1}


def test_each_of_many_conflicts_is_kept_once_however_often_it_is_delivered(world: World, queues: Queues) -> None:
    queues.create("work_queue", *(NAMES | {"n": n} for n in range(4)))
    assert import_pgmq(world) == NOTHING | {"moved": 1, "conflicts": 3}
    world.run(
        "with back as (delete from pgmq.a_work_queue returning msg_id, enqueued_at, enqueued_at as vt, message)"
        " insert into pgmq.q_work_queue (msg_id, enqueued_at, vt, message) overriding system value select * from back"
    )
    assert import_pgmq(world) == NOTHING | {"repeated": 1, "conflicts": 3}
    assert [json.loads(dead["payload"]["message"])["n"] for dead in dead_letters(world)] == [1, 2, 3]


def test_a_message_that_is_changed_in_its_queue_after_it_became_a_job_is_kept(world: World, queues: Queues) -> None:
    queues.create("work_queue", {"n": 1})
    import_pgmq(world)
    world.run(
        "with back as (delete from pgmq.a_work_queue returning msg_id, enqueued_at, enqueued_at as vt)"
        " insert into pgmq.q_work_queue (msg_id, enqueued_at, vt, message) overriding system value"
        """ select *, '{"n": 2}' from back"""
    )
    assert import_pgmq(world) == NOTHING | {"conflicts": 1}
    assert [dead["payload"] for dead in dead_letters(world)] == [{"message": '{"n": 2}'}]


def test_operators_are_alerted_of_conflicts_and_refused_messages(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"n": 1}, NAMES | {"n": 2}, "text")
    assert import_pgmq(world) == NOTHING | {"moved": 1, "conflicts": 1, "refused": 1}
    assert world.now
    world.now += timedelta(minutes=6)
    ((item),) = world.call("check_alerts", stages=dict(STAGES), channels=("url:x",))
    (dead,) = (alert for alert in item["alerts"] if alert["condition"] == "dead_letters")
    assert (dead["detail"]["jobs"], dead["detail"]["stages"]) == (2, ["email"])


def test_status_and_check_name_them(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"n": 1}, NAMES | {"n": 2}, "text", 7)
    import_pgmq(world)
    errors = [dead["last_error"] for dead in world.call("status", stages=dict(STAGES))["dead_letters"]]
    assert sorted(error.partition(":")[0] for error in errors) == ["Conflict", "PermanentError", "PermanentError"]
    checked = world.ask("read_pgmq", queues=("work_queue",), limit=0)["work_queue"]
    assert (checked["refused"], checked["conflicts"], checked["unimportable"]) == (2, 1, 0)
    world.run("update giftcard_jobs set status = 'cancelled' where status = 'error'")
    checked = world.ask("read_pgmq", queues=("work_queue",), limit=0)["work_queue"]
    assert (checked["refused"], checked["conflicts"]) == (0, 0)


def test_a_conflict_is_requeued_with_the_payload_that_was_meant(world: World, queues: Queues) -> None:
    queues.create("work_queue", NAMES | {"n": 1}, NAMES | {"n": 2})
    import_pgmq(world)
    (dead,) = dead_letters(world)
    world.call("requeue", job_id=dead["id"], payload={"n": 2})
    assert [job.payload for job in world.claim(2)] == [{"n": 1}, {"n": 2}]
