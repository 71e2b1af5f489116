"""What is wrong with one message, or with the whole queue: a message fails only itself, and nothing is lost."""

from typing import Any

import pytest

from tests.support.factory import World
from tests.support.queues import NOTHING, Queues, import_messages
from tests.support.triggers import deferring

QUEUES = {"work_queue": {"stage": "email"}, "other_queue": {"stage": "email"}}

# What a trigger of the database's owner may do to a job that it dislikes; and what its message becomes.
FAULTS = {
    "21000 several rows": "perform (select 1 from generate_series(1, 2));",
    "22012 division": "perform 1 / (new.payload ->> 'n')::integer * 0 / 0;",
    "22P02 no number": "perform (new.payload ->> 'text')::integer;",
    "23514 their check": "raise check_violation using message = 'their check';",
    "23505 their key": "raise unique_violation using message = 'their key';",
    "54000 a limit": "raise program_limit_exceeded using message = 'a limit';",
    "54001 too complex": "raise statement_too_complex using message = 'too complex';",
    "P0001 raise": "raise exception 'not with us';",
    "P0002 no row": "raise no_data_found using message = 'no row';",
}
# What is nobody's message: the queue waits until it is over.
SYSTEMIC = {
    "40001 serialization": "raise serialization_failure using message = 'try again';",
    "53100 disk full": "raise disk_full using message = 'disk full';",
    "55P03 lock": "raise lock_not_available using message = 'locked';",
}
# Perhaps one message's fault, perhaps not: it stays in its queue, and the others are imported.
UNCLEAR = {
    "42501 privilege": "raise insufficient_privilege using message = 'not allowed';",
    "42P01 their table": "perform 1 from no_such_table;",
    "58030 io": "raise io_error using message = 'io';",
}


@pytest.fixture
def queues(world: World) -> Queues:
    queues = Queues(world.connection)
    queues.create("work_queue", {"n": 1}, {"n": 2, "text": "bad"}, {"n": 3})
    queues.create("other_queue", {"n": 4})
    return queues


def import_pgmq(world: World, **more: Any) -> Any:
    return import_messages(world, QUEUES, **more)


def refuse(world: World, body: str, *, when: str = "new.payload ->> 'text' = 'bad' and new.status = 'queued'") -> None:
    """A trigger of the owner of the database."""
    world.run(
        f"create or replace function public.theirs() returns trigger language plpgsql as $$ begin {body}"
        " return new; end $$"
    )
    world.run(
        "create or replace trigger theirs before insert on public.giftcard_jobs for each row"
        f" when ({when}) execute function public.theirs()"
    )


def numbers(world: World, status: str) -> list[int]:
    rows = world.rows("select (payload ->> 'n')::integer as n from giftcard_jobs where status = %s order by 1", status)
    return [row["n"] for row in rows]


def dead_letters(world: World) -> list[dict[str, Any]]:
    return world.rows("select * from giftcard_jobs where status = 'error' order by id")


def test_an_error_at_the_commit_makes_a_dead_letter_too(world: World, queues: Queues) -> None:
    for statement in deferring("giftcard_jobs", "insert", "new.payload ->> 'text' = 'bad' and new.status = 'queued'"):
        world.run(statement)
    assert import_pgmq(world)["work_queue"] == NOTHING | {"moved": 2, "refused": 1}
    assert numbers(world, "queued") == [1, 3, 4]
    (dead,) = dead_letters(world)
    assert dead["last_error"] == "PermanentError: not this row"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_of_one_message_makes_it_a_dead_letter_and_no_other(world: World, queues: Queues, fault: str) -> None:
    refuse(world, FAULTS[fault])
    assert import_pgmq(world) == {
        "work_queue": NOTHING | {"moved": 2, "refused": 1},
        "other_queue": NOTHING | {"moved": 1},
    }
    assert numbers(world, "queued") == [1, 3, 4]
    (dead,) = dead_letters(world)
    assert dead["payload"] == {"message": '{"n": 2, "text": "bad"}'}
    assert dead["last_error"].startswith("PermanentError: ")
    assert (queues.waiting("work_queue"), queues.archived("work_queue")) == ([], [1, 2, 3])


@pytest.mark.parametrize("fault", SYSTEMIC)
def test_an_error_of_the_database_is_the_fault_of_no_message(world: World, queues: Queues, fault: str) -> None:
    refuse(world, SYSTEMIC[fault])
    imported = import_pgmq(world)
    assert imported["work_queue"].keys() == NOTHING.keys() | {"problem"}
    assert (imported["work_queue"]["moved"], imported["other_queue"]) == (0, NOTHING | {"moved": 1})
    assert (queues.waiting("work_queue"), dead_letters(world)) == ([1, 2, 3], [])
    world.run("drop trigger theirs on giftcard_jobs")
    world.run("update pgmq.q_work_queue set vt = now()")
    assert import_pgmq(world)["work_queue"] == NOTHING | {"moved": 3}


@pytest.mark.parametrize("fault", UNCLEAR)
def test_a_message_that_fails_alone_for_an_unclear_reason_stays_in_its_queue(
    world: World, queues: Queues, fault: str
) -> None:
    refuse(world, UNCLEAR[fault])
    imported = import_pgmq(world)
    assert "message 2 stays in the queue" in imported["work_queue"]["problem"]
    assert (imported["work_queue"]["moved"], imported["other_queue"]) == (2, NOTHING | {"moved": 1})
    assert (queues.waiting("work_queue"), dead_letters(world)) == ([2], [])
    world.run("drop trigger theirs on giftcard_jobs")
    world.run("update pgmq.q_work_queue set vt = now()")
    assert import_pgmq(world)["work_queue"] == NOTHING | {"moved": 1}


def test_a_unique_index_of_the_owners_fails_one_message(world: World, queues: Queues) -> None:
    world.run("create unique index theirs on giftcard_jobs ((payload ->> 'text')) where status = 'queued'")
    queues.send("work_queue", {"n": 5, "text": "bad"})
    assert import_pgmq(world)["work_queue"] == NOTHING | {"moved": 3, "refused": 1}
    (dead,) = dead_letters(world)
    assert dead["last_error"] == 'PermanentError: duplicate key value violates unique constraint "theirs"'


def test_the_reason_holds_no_mail_address_and_no_line_break(world: World, queues: Queues) -> None:
    refuse(world, "raise exception E'<kate@example.com>\\n is \"kate@example.com\"';")
    import_pgmq(world)
    (dead,) = dead_letters(world)
    assert dead["last_error"] == 'PermanentError: <[email]>  is "[email]"'


def test_a_message_that_cannot_even_be_a_dead_letter_stays_and_is_named(world: World, queues: Queues) -> None:
    refuse(world, FAULTS["P0001 raise"], when="new.payload::text like '%bad%'")
    assert import_pgmq(world) == {
        "work_queue": NOTHING | {"moved": 2, "problem": "message 2 stays in the queue: not with us"},
        "other_queue": NOTHING | {"moved": 1},
    }
    assert numbers(world, "queued") == [1, 3, 4]
    assert (queues.waiting("work_queue"), queues.archived("work_queue")) == ([2], [1, 3])


def test_many_of_them_are_named_by_number_and_count(world: World, queues: Queues) -> None:
    refuse(world, FAULTS["P0001 raise"], when="new.payload::text like '%bad%'")
    for n in range(10):
        queues.send("work_queue", {"n": n, "text": "bad"})
    imported = import_pgmq(world)["work_queue"]
    assert imported["moved"] == 2
    assert imported["problem"] == (
        "message 2 stays in the queue: not with us; message 4 stays in the queue: not with us; "
        "message 5 stays in the queue: not with us; and 8 more"
    )


def test_a_number_that_the_archive_has_already_stops_only_its_message(world: World, queues: Queues) -> None:
    world.run("insert into pgmq.a_work_queue (msg_id, vt) values (2, now())")
    imported = import_pgmq(world)["work_queue"]
    assert imported["moved"] == 2
    assert imported["problem"].startswith("message 2 stays in the queue: duplicate key value violates")
    assert "a_work_queue_pkey" in imported["problem"]
    assert (numbers(world, "queued"), queues.waiting("work_queue")) == ([1, 3, 4], [2])


def test_after_ten_reads_it_leaves_its_place_to_others_for_an_hour_at_a_time(world: World, queues: Queues) -> None:
    refuse(world, FAULTS["P0001 raise"], when="new.payload::text like '%bad%'")
    hidden = "select round(extract(epoch from vt - clock_timestamp()) / 60) as minutes, read_ct from pgmq.q_work_queue"
    waits = []
    for _ in range(11):
        import_pgmq(world)
        (row,) = world.rows(hidden)
        waits.append((row["read_ct"], int(row["minutes"])))
        world.run("update pgmq.q_work_queue set vt = now()")
    assert waits == [*((n, 1) for n in range(1, 10)), (10, 60), (11, 60)]
    checked = world.ask("read_pgmq", queues=("work_queue",), limit=0)["work_queue"]
    assert checked["unimportable"] == 1
    world.run("drop trigger theirs on giftcard_jobs")
    assert import_pgmq(world)["work_queue"] == NOTHING | {"moved": 1}


def test_a_full_batch_of_them_blocks_those_behind_it_for_ten_reads_at_most(world: World, queues: Queues) -> None:
    refuse(world, FAULTS["P0001 raise"], when="new.payload::text like '%bad%'")
    world.run('update pgmq.q_work_queue set read_ct = 9, message = message || \'{"text": "bad"}\'')
    queues.send("work_queue", {"n": 9})
    for moved in (0, 1):
        assert import_pgmq(world, limit=3)["work_queue"]["moved"] == moved
        world.run("update pgmq.q_work_queue set vt = now() where vt < now() + interval '2 minutes'")
    assert queues.waiting("work_queue") == [1, 2, 3]


def test_a_message_that_was_archived_by_hand_meanwhile_is_passed_over_one_by_one_too(
    world: World, queues: Queues
) -> None:
    refuse(world, FAULTS["P0001 raise"], when="new.payload::text like '%bad%'")
    read = world.ask("read_pgmq", queues=("work_queue",), limit=10)["work_queue"]["messages"]
    world.rows("select pgmq.archive('work_queue', 3::bigint)")
    batch = [message | {"job": message["job"] | {"stage": "email"}} for message in read]
    imported = world.call("import_pgmq", batches={"work_queue": batch})["work_queue"]
    assert (imported["moved"], numbers(world, "queued")) == (1, [1])


# What the archive and the job keep


def test_archive_and_job_keep_the_read_count_of_each_outcome(world: World, queues: Queues) -> None:
    queues.send("work_queue", "refused")
    queues.send("work_queue", {"correlation_id": "o-1", "n": 5})
    queues.send("work_queue", {"correlation_id": "o-1", "n": 5})
    queues.send("work_queue", {"correlation_id": "o-1", "n": 6})
    world.run("update pgmq.q_work_queue set read_ct = 2 + msg_id")
    assert import_pgmq(world)["work_queue"] == {"moved": 4, "repeated": 1, "conflicts": 1, "refused": 1}
    archived = world.rows("select msg_id, read_ct, message, archived_at from pgmq.a_work_queue order by msg_id")
    assert [row["read_ct"] for row in archived] == [4, 5, 6, 7, 8, 9, 10]
    assert all(row["archived_at"] for row in archived)
    sources = [
        row["source"]
        for row in world.rows(
            "select context -> 'pgmq' as source from giftcard_jobs where context #>> '{pgmq,queue}' = 'work_queue'"
            " order by (context #>> '{pgmq,msg_id}')::integer"
        )
    ]
    assert [(s["msg_id"], s["read_ct"]) for s in sources] == [(1, 4), (2, 5), (3, 6), (4, 7), (5, 8), (7, 10)]


def test_a_job_names_the_time_of_its_message_which_tells_queues_of_one_name_apart(world: World, queues: Queues) -> None:
    import_pgmq(world)
    world.rows("select pgmq.drop_queue('work_queue')")
    queues.create("work_queue", {"n": 7})
    # Sent in the same transaction as the first one here, which only a test can do.
    world.run("update pgmq.q_work_queue set enqueued_at = enqueued_at + interval '1 minute'")
    import_pgmq(world)
    rows = world.rows(
        "select (context #>> '{pgmq,sent_at}')::timestamptz as sent from giftcard_jobs"
        " where correlation_id = 'pgmq:work_queue:1' order by id"
    )
    first, second = (row["sent"] for row in rows)
    assert (second - first).total_seconds() == pytest.approx(60, abs=0.001)
    (archived,) = world.rows("select enqueued_at from pgmq.a_work_queue")
    assert abs((archived["enqueued_at"] - second).total_seconds()) < 0.001
