"""GIFTCARD_PGMQ_QUEUES: messages of other queues run as jobs; what is wrong with a queue stops nothing else."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.errors import Refused, Unavailable
from lib.job import Complete, Outcome
from lib.jobs.registry import Registry
from lib.tick.pgmq import import_pgmq
from tests.support.queues import NOTHING, Queues
from tests.support.world import ADMIN, World, a_stage, an_order, bearer

Make = Callable[..., World]

INLETS = "email_queue:email,payments_queue:payment,reports_queue:report"


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    return Queues(connection)


def moved(world: World, **more: Any) -> dict[str, int]:
    """How many were moved, by queue."""
    return {
        queue: counts["moved"]
        for queue, counts in import_pgmq(world.store, world.registry, world.settings, **more)[0].items()
    }


def test_a_tick_begins_with_taking_in_and_messages_run_to_their_end(make_world: Make, queues: Queues) -> None:
    inlets = "email_queue:email,payments_queue:payment:acme,reports_queue:report:acme,totals_queue:report:*"
    world = make_world(GIFTCARD_PGMQ_QUEUES=inlets)
    queues.create("payments_queue", an_order() | {"correlation_id": "o-1", "tenant_id": "acme"})
    queues.create("reports_queue", {"day": "2026-01-31", "tenant_id": "acme"}, {})
    queues.create("totals_queue", {})
    queues.create("email_queue")
    report = world.tick()
    assert {queue: sums["moved"] for queue, sums in report["pgmq"].items()} == {
        "email_queue": 0,
        "payments_queue": 1,
        "reports_queue": 2,
        "totals_queue": 1,
    }
    assert report["completed"] >= 4
    while world.tick()["started"]:
        pass
    assert world.value("select sum(amount) from giftcard_cards where tenant_id = 'acme'") == 2500
    assert {row["tenant_id"] for row in world.sql("select tenant_id from giftcard_reports")} == {"acme"}
    assert world.statuses() == {"completed": 6}


def test_a_message_that_does_not_validate_is_a_dead_letter_with_its_text_and_does_not_go_round(
    make_world: Make, queues: Queues
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue", {"to": "kate"})
    assert world.tick()["errored"] == 1
    job = world.job()
    assert (job["status"], job["attempts"], job["revive_at"], job["payload"]) == ("error", 1, None, {"to": "kate"})
    assert job["last_error"].startswith("PermanentError: payload: customer")
    assert world.tick()["pgmq"]["email_queue"]["moved"] == 0
    assert (queues.waiting("email_queue"), queues.archived("email_queue")) == ([], [1])


def test_attempts_take_the_place_of_read_ct(make_world: Make, queues: Queues) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise ConnectionError("no")

    world = make_world(handlers={"work": fails}, GIFTCARD_PGMQ_QUEUES="work_queue:work")
    queues.create("work_queue", {"n": 1})
    assert moved(world) == {"work_queue": 1}
    for attempt in (1, 2):
        world.tick()
        assert (world.job()["attempts"], world.job()["status"]) == (attempt, "queued")
        world.move_to(world.job()["scheduled_at"])
    assert world.sql("select read_ct from pgmq.a_work_queue") == [{"read_ct": 1}]


def test_jobs_of_an_inlet_have_the_semantics_of_their_stage(make_world: Make, queues: Queues) -> None:
    once = a_stage("work", lambda payload, context: Complete(), semantics="at_most_once")
    world = make_world(registry=Registry({"work": once}), GIFTCARD_PGMQ_QUEUES="work_queue:work")
    queues.create("work_queue", {"n": 1})
    assert moved(world) == {"work_queue": 1}
    assert world.job()["semantics"] == "at_most_once"


def test_without_the_setting_nothing_is_asked(make_world: Make) -> None:
    class NoWire:
        def call(self, function: str, /, **arguments: Any) -> Any:
            raise AssertionError(function)

        def close(self) -> None: ...

    assert moved(make_world(wire=NoWire())) == {}


def test_without_pgmq_the_setting_is_told_and_the_tick_goes_on(make_world: Make, log: Any) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=INLETS)
    world.submit()
    report = world.tick()
    said = {sums["problem"].partition(":")[0] for sums in report["pgmq"].values()}
    assert (len(report["pgmq"]), said) == (3, {"there is no pgmq in this database"})
    assert report["completed"] == 5
    assert {line["queue"] for line in log() if line["event"] == "pgmq_import_failed"} == set(report["pgmq"])


@pytest.mark.parametrize("wish", [{"stage": "email"}, {"job_id": 1}])
def test_a_tick_for_one_stage_or_job_takes_nothing_in(make_world: Make, queues: Queues, wish: Any) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue", {"to": "kate"})
    assert world.client.post("/api/jobs/run", json=wish, headers=bearer(ADMIN)).json["pgmq"] == {}
    assert queues.waiting("email_queue") == [1]


def test_a_database_that_is_away_is_told_by_queue(make_world: Make, log: Any) -> None:
    class Away:
        def call(self, function: str, /, **arguments: Any) -> Any:
            raise Unavailable("the database cannot be reached")

        def close(self) -> None: ...

    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email", wire=Away())
    told, _ = import_pgmq(world.store, world.registry, world.settings)
    assert told["email_queue"] | {"moved": 0, "problem": "the database cannot be reached"} == told["email_queue"]


def test_what_became_of_messages_is_logged_by_number_and_not_by_text(
    make_world: Make, queues: Queues, log: Any
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,quiet:email")
    queues.create("quiet")
    queues.create("email_queue", "kate@example.com", 7, *({"correlation_id": "o-1", "n": n} for n in (1, 1, 2)))
    counts = {"moved": 1, "repeated": 1, "conflicts": 1, "refused": 2}
    assert import_pgmq(world.store, world.registry, world.settings)[0] == {"email_queue": counts, "quiet": NOTHING}
    imported, refused = (line for line in log() if line["event"].startswith("messages_"))
    assert {name: imported[name] for name in ("event", "level", "queue", *counts)} == counts | {
        "event": "messages_imported", "level": "info", "queue": "email_queue"
    }  # fmt: skip
    assert (refused["event"], refused["level"], refused["queue"]) == ("messages_refused", "warning", "email_queue")
    assert (refused["refused"], refused["conflicts"]) == (2, 1)
    assert "kate" not in str(log())


def test_a_problem_is_logged_without_personal_data(make_world: Make, queues: Queues, log: Any) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue", {"n": 1})
    world.sql(
        "create function public.theirs() returns trigger language plpgsql as"
        " $$ begin raise exception 'kate@example.com is not welcome'; end $$"
    )
    world.sql("create trigger theirs before insert on giftcard_jobs for each row execute function public.theirs()")
    problem = "message 1 stays in the queue: [email] is not welcome"
    assert world.tick()["pgmq"] == {"email_queue": NOTHING | {"problem": problem}}
    (line,) = (line for line in log() if line["event"] == "pgmq_import_failed")
    assert (line["queue"], line["error"]) == ("email_queue", problem)
    assert "kate" not in str(log())


def test_a_batch_is_bounded(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue", *({"n": n} for n in range(3)))
    assert moved(world, limit=2) == {"email_queue": 2}
    assert moved(world, limit=0) == {"email_queue": 0}
    assert queues.waiting("email_queue") == [3]


# Large messages, and one that spoils its batch


def test_large_messages_are_read_in_parts_and_all_are_imported(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue", *({"n": n, "text": "x" * 200_000} for n in range(60)))
    (read,) = world.store.read_pgmq(("email_queue",), limit=500).values()
    assert (len(read["messages"]) < 20, read["more"]) == (True, True), "about 2 MB, not 12"
    world.sql("update pgmq.q_email_queue set vt = now() returning msg_id")
    imported, calls = import_pgmq(world.store, world.registry, world.settings)
    assert (imported["email_queue"]["moved"], calls > 4) == (60, True)


def test_a_queue_that_cannot_be_imported_is_read_once_and_the_rest_stays_visible(
    make_world: Make, queues: Queues
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,payments_queue:payment")
    queues.create("email_queue", *({"n": n, "text": "x" * 200_000} for n in range(30)))
    queues.create("payments_queue", {"n": 4})
    world.sql("alter table pgmq.a_email_queue add check (msg_id < 0)")
    imported, calls = import_pgmq(world.store, world.registry, world.settings)
    assert "a_email_queue" in imported["email_queue"]["problem"]
    assert (imported["email_queue"]["moved"], imported["payments_queue"]["moved"], calls) == (0, 1, 2)
    assert world.value("select count(*) from pgmq.q_email_queue where vt <= now()") > 8, "read, though not imported"


def test_one_message_that_cannot_be_stored_fails_alone(
    make_world: Make, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,payments_queue:payment")
    queues.create("email_queue", {"n": 1}, {"n": 2}, {"n": 3})
    queues.create("payments_queue", {"n": 4})
    whole = type(world.store).import_pgmq

    def refuses(store: Any, batches: Any) -> Any:
        jobs = [message["job"] for messages in batches.values() for message in messages]
        if any(job["payload_json"] == '{"n": 2}' and "error" not in job for job in jobs):
            raise Refused("invalid input syntax for type json", sqlstate="22P02")
        return whole(store, batches)

    monkeypatch.setattr(type(world.store), "import_pgmq", refuses)
    imported, _ = import_pgmq(world.store, world.registry, world.settings)
    assert imported == {
        "email_queue": NOTHING | {"moved": 2, "refused": 1},
        "payments_queue": NOTHING | {"moved": 1},
    }
    (dead,) = world.sql("select last_error, payload from giftcard_jobs where status = 'error'")
    assert dead == {
        "last_error": "PermanentError: invalid input syntax for type json", "payload": {"message": '{"n": 2}'}
    }  # fmt: skip


def test_an_import_counts_its_calls(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email")
    queues.create("email_queue")
    assert import_pgmq(world.store, world.registry, world.settings)[1] == 1
    queues.send("email_queue", {"n": 1})
    assert import_pgmq(world.store, world.registry, world.settings)[1] == 2
