"""Messages of pgmq become jobs: all of a batch there and here, or neither; none twice, none round and round."""

import json
from typing import Any

import psycopg
import pytest

from tests.support.factory import World
from tests.support.queues import NOTHING, Queues, import_messages

QUEUES = {"email_queue": {"stage": "email"}, "payments-queue": {"stage": "payment"}}


@pytest.fixture
def queues(world: World) -> Queues:
    return Queues(world.connection)


def import_pgmq(world: World, jobs: Any = None, *, limit: int = 100) -> Any:
    return import_messages(world, QUEUES if jobs is None else jobs, limit=limit)


def jobs(world: World) -> list[dict[str, Any]]:
    return world.rows("select * from giftcard_jobs order by id")


def refused(world: World) -> dict[str, Any]:
    (job,) = jobs(world)
    return job


# What becomes of a message


def test_messages_are_jobs_of_the_stages_of_their_queues(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"}, {"to": "b"})
    queues.create("payments-queue", {"amount": 7})
    assert import_pgmq(world) == {
        "email_queue": NOTHING | {"moved": 2},
        "payments-queue": NOTHING | {"moved": 1},
    }
    assert [(job["stage"], job["payload"], job["trigger_type"]) for job in jobs(world)] == [
        ("email", {"to": "a"}, "pgmq"),
        ("email", {"to": "b"}, "pgmq"),
        ("payment", {"amount": 7}, "pgmq"),
    ]
    assert {(job["status"], job["attempts"], job["scheduled_at"]) for job in jobs(world)} == {("queued", 0, world.now)}
    assert (queues.waiting("email_queue"), queues.archived("email_queue")) == ([], [1, 2])
    assert (queues.waiting("payments-queue"), queues.archived("payments-queue")) == ([], [1])
    assert sorted(job.id for job in world.claim(10)) == [job["id"] for job in jobs(world)]


def test_a_message_names_its_tenant_flow_and_dedup_key_and_the_rest_is_the_payload(
    world: World, queues: Queues
) -> None:
    queues.create("email_queue", {"tenant_id": "acme", "correlation_id": "o-1", "dedup_key": "second", "to": "a"})
    import_pgmq(world)
    (job,) = jobs(world)
    names = [job[n] for n in ("tenant_id", "correlation_id", "dedup_key")]
    assert names == ["acme", "pgmq:email_queue:flow:o-1", "second"]
    assert job["payload"] == {"to": "a"}


def test_a_message_that_names_nothing_is_a_flow_of_its_own(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"}, {"to": "a"})
    import_pgmq(world)
    assert [(job["tenant_id"], job["correlation_id"]) for job in jobs(world)] == [
        ("default", "pgmq:email_queue:1"),
        ("default", "pgmq:email_queue:2"),
    ]


@pytest.mark.parametrize("name", [7, None, "", " x", "x\ty", "x" * 201, ["x"], {"x": 1}])
def test_a_name_that_no_door_would_take_is_left_to_the_stage_to_judge(world: World, queues: Queues, name: Any) -> None:
    message = {"tenant_id": name, "correlation_id": name, "dedup_key": name}
    queues.create("email_queue", message)
    import_pgmq(world)
    (job,) = jobs(world)
    assert (job["tenant_id"], job["correlation_id"], job["payload"]) == ("default", "pgmq:email_queue:1", message)


def test_a_second_message_with_the_same_content_is_the_same_job(world: World, queues: Queues) -> None:
    queues.create("payments-queue", *[{"correlation_id": "o-1", "amount": 1}] * 2, {"correlation_id": "o-2"})
    assert import_pgmq(world)["payments-queue"] == NOTHING | {"moved": 2, "repeated": 1}
    assert len(jobs(world)) == 2
    assert queues.archived("payments-queue") == [1, 2, 3]


def test_a_message_that_is_put_back_and_moved_twice_is_one_job(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"})
    import_pgmq(world)
    world.run(
        "with back as (delete from pgmq.a_email_queue returning msg_id, enqueued_at, enqueued_at as vt, message)"
        " insert into pgmq.q_email_queue (msg_id, enqueued_at, vt, message) overriding system value select * from back"
    )
    assert import_pgmq(world)["email_queue"] == NOTHING | {"repeated": 1}
    assert len(jobs(world)) == 1


def test_a_queue_that_is_made_anew_counts_anew_and_its_messages_are_new_jobs(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"})
    import_pgmq(world)
    world.rows("select pgmq.drop_queue('email_queue')")
    queues.create("email_queue", {"to": "b"})
    # Sent in the same transaction as the first one here, which only a test can do.
    world.run("update pgmq.q_email_queue set enqueued_at = enqueued_at + interval '1 microsecond'")
    assert import_pgmq(world)["email_queue"] == NOTHING | {"moved": 1}
    assert [(job["correlation_id"], job["payload"]) for job in jobs(world)] == [
        ("pgmq:email_queue:1", {"to": "a"}),
        ("pgmq:email_queue:1", {"to": "b"}),
    ]


def test_what_an_inlet_says_of_its_jobs_holds_for_each(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"semantics": "at_least_once"})
    import_pgmq(world, {"email_queue": {"stage": "email", "semantics": "at_most_once"}})
    (job,) = jobs(world)
    assert (job["semantics"], job["payload"]) == ("at_most_once", {"semantics": "at_least_once"})


# What cannot be a job


@pytest.mark.parametrize("message", ["text", 7, True, None, ["a", {"b": 1}]])
def test_a_message_that_is_no_object_is_a_dead_letter_with_its_text(world: World, queues: Queues, message: Any) -> None:
    queues.create("email_queue", message)
    assert import_pgmq(world)["email_queue"] == NOTHING | {"refused": 1}
    job = refused(world)
    assert (job["status"], job["stage"], job["revive_at"]) == ("error", "email", None)
    assert job["last_error"] == "PermanentError: the message is not a JSON object"
    assert job["payload"] == {"message": None if message is None else json.dumps(message)}
    assert (job["correlation_id"], job["finished_at"], job["run_no"]) == ("pgmq:email_queue:1", world.now, 0)
    assert (queues.waiting("email_queue"), queues.archived("email_queue")) == ([], [1])


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_message_nested_too_deeply_is_a_dead_letter_and_its_neighbours_are_jobs(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"}, {"tenant_id": "acme", "correlation_id": "o-1"} | deep(120), {"to": "b"})
    assert import_pgmq(world)["email_queue"] == NOTHING | {"moved": 2, "refused": 1}
    (job,) = (job for job in jobs(world) if job["status"] == "error")
    assert "nested too deeply" in job["last_error"]
    assert (job["tenant_id"], job["correlation_id"]) == ("acme", "pgmq:email_queue:2")
    assert '{"a": {"a": {"a":' in job["payload"]["message"]


def test_a_refused_message_keeps_the_flow_it_names_free(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"correlation_id": "o-1"} | deep(120), {"correlation_id": "o-1", "to": "a"})
    assert import_pgmq(world)["email_queue"] == NOTHING | {"moved": 1, "refused": 1}


def test_a_long_message_is_kept_in_part(world: World, queues: Queues) -> None:
    queues.create("email_queue", "x" * 20_000)
    import_pgmq(world)
    assert refused(world)["payload"] == {"message": '"' + "x" * 9_999}


def test_what_a_constraint_of_somebody_elses_refuses_is_a_dead_letter(world: World, queues: Queues) -> None:
    world.run("alter table giftcard_jobs add constraint their_rule check (payload ->> 'to' <> 'nobody')")
    queues.create("email_queue", {"to": "nobody"}, {"to": "a"})
    assert import_pgmq(world)["email_queue"] == NOTHING | {"moved": 1, "refused": 1}
    (job,) = (job for job in jobs(world) if job["status"] == "error")
    assert "their_rule" in job["last_error"]


def test_a_dead_letter_can_be_mended_and_requeued(world: World, queues: Queues) -> None:
    queues.create("email_queue", "text")
    import_pgmq(world)
    job_id = refused(world)["id"]
    world.call("requeue", job_id=job_id, payload={"to": "a"})
    assert [job.id for job in world.claim(1)] == [job_id]


# How many, and when


def test_a_batch_is_bounded_and_the_oldest_come_first(world: World, queues: Queues) -> None:
    queues.create("email_queue", *({"n": n} for n in range(5)))
    assert import_pgmq(world, limit=2)["email_queue"]["moved"] == 2
    assert (queues.archived("email_queue"), queues.waiting("email_queue")) == ([1, 2], [3, 4, 5])
    assert [job["payload"]["n"] for job in jobs(world)] == [0, 1]


def test_nobody_may_ask_for_more_than_a_thousand_at_once(world: World, queues: Queues) -> None:
    queues.create("email_queue")
    world.rows("select pgmq.send_batch('email_queue', array(select '{}'::jsonb from generate_series(1, 1001)))")
    assert import_pgmq(world, limit=100_000)["email_queue"]["moved"] == 1000


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_0_only_looks(world: World, queues: Queues, limit: int) -> None:
    queues.create("email_queue", {"to": "a"})
    before = world.rows("select * from pgmq.q_email_queue")
    assert import_pgmq(world, limit=limit)["email_queue"] == NOTHING
    assert world.rows("select * from pgmq.q_email_queue") == before


def test_a_message_that_is_not_due_yet_waits(world: World, queues: Queues) -> None:
    queues.create("email_queue")
    queues.send("email_queue", {"to": "a"}, delay=3600)
    assert import_pgmq(world)["email_queue"] == NOTHING
    world.run("update pgmq.q_email_queue set vt = now()")
    assert import_pgmq(world)["email_queue"] == NOTHING | {"moved": 1}


def test_a_message_that_another_reader_has_waits_until_it_gives_it_up(world: World, queues: Queues) -> None:
    queues.create("email_queue", {"to": "a"})
    world.rows("select * from pgmq.read('email_queue', 30, 1)")
    assert import_pgmq(world)["email_queue"] == NOTHING


# What is not there


def test_without_pgmq_each_inlet_says_so(world: World) -> None:
    said = "there is no pgmq in this database: create extension pgmq, or remove the queue from GIFTCARD_PGMQ_QUEUES"
    assert import_pgmq(world) == dict.fromkeys(QUEUES, NOTHING | {"problem": said})


def test_a_queue_that_is_not_there_stops_no_other(world: World, queues: Queues) -> None:
    queues.create("payments-queue", {"amount": 7})
    said = "pgmq has no queue email_queue: create it with select pgmq.create('email_queue')"
    assert import_pgmq(world) == {
        "email_queue": NOTHING | {"problem": said},
        "payments-queue": NOTHING | {"moved": 1},
    }


@pytest.mark.parametrize("batches", [["email_queue"], "email_queue"])
def test_batches_are_an_object(world: World, batches: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.connection.execute("select giftcard_import_pgmq(%s)", [psycopg.types.json.Jsonb(batches)])
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "p_batches")
