"""Inlets that lead from nowhere, and to nowhere."""

from collections.abc import Callable
from typing import Any

import psycopg

from tests.monitoring.doctor.conftest import Examine
from tests.support.queues import Queues
from tests.support.world import World

Make = Callable[..., World]


def test_without_inlets_there_is_no_line(healthy: World, examined: Examine) -> None:
    assert "pgmq" not in examined(healthy)


def test_inlets_without_pgmq_or_their_queue_are_red(
    make_world: Make, examined: Examine, connection: psycopg.Connection[Any]
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,payments_queue:payment")
    line = examined(world)["pgmq"]
    assert line["level"] == "red"
    assert line["message"].count("there is no pgmq in this database") == 1
    Queues(connection).create("email_queue")
    line = examined(world)["pgmq"]
    queues = [queue for queue in ("payments_queue", "email_queue") if queue in line["message"]]
    assert (line["level"], queues) == ("red", ["payments_queue"])


def test_an_inlet_to_a_stage_that_nobody_knows_is_yellow(
    make_world: Make, examined: Examine, connection: psycopg.Connection[Any]
) -> None:
    Queues(connection).create("email_queue")
    line = examined(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:emial"))["pgmq"]
    assert (line["level"], "stage emial" in line["message"]) == ("yellow", True)


def test_looking_moves_nothing(make_world: Make, examined: Examine, connection: psycopg.Connection[Any]) -> None:
    queues = Queues(connection)
    queues.create("email_queue", {"to": "kate"})
    line = examined(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email"))["pgmq"]
    assert (line["level"], line["message"]) == ("green", "the queues can be imported: email_queue")
    assert queues.waiting("email_queue") == [1]


def test_a_database_that_is_away_is_another_line(make_world: Make, examined: Examine) -> None:
    away = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email", DATABASE_URL="postgresql://127.0.0.1:1/none")
    lines = examined(away)
    assert ("pgmq" not in lines, lines["database"]["level"]) == (True, "red")


def test_a_queue_that_cannot_be_archived_is_red(
    make_world: Make, examined: Examine, connection: psycopg.Connection[Any]
) -> None:
    Queues(connection).create("email_queue")
    connection.execute("drop table pgmq.a_email_queue")
    line = examined(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email"))["pgmq"]
    assert (line["level"], "a_email_queue" in line["message"]) == ("red", True)


def test_messages_that_are_no_jobs_are_yellow_until_they_are_dealt_with(
    make_world: Make, examined: Examine, connection: psycopg.Connection[Any]
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,quiet:email")
    queues = Queues(connection)
    queues.create("quiet")
    queues.create("email_queue", "text", 7, *({"correlation_id": "o-1", "n": n} for n in (1, 2)))
    world.tick()
    line = examined(world)["pgmq"]
    assert (line["level"], line["message"]) == (
        "yellow", "messages of email_queue are dead letters: 2 refused, 1 conflicts"
    )  # fmt: skip
    world.sql("update giftcard_jobs set status = 'cancelled' where status = 'error'")
    assert examined(world)["pgmq"]["level"] == "green"


def test_messages_that_ten_reads_could_not_import_are_yellow(
    make_world: Make, examined: Examine, connection: psycopg.Connection[Any]
) -> None:
    Queues(connection).create("email_queue", {"n": 1}, {"n": 2})
    connection.execute("update pgmq.q_email_queue set read_ct = 10 where msg_id = 2")
    line = examined(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email"))["pgmq"]
    assert (line["level"], line["message"]) == ("yellow", "ten reads could not import 1 messages of email_queue")
