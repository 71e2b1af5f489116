"""Inlets that lead from nowhere, and to nowhere."""

from collections.abc import Callable
from typing import Any

import psycopg

from tests.monitoring.doctor.conftest import Examine
from tests.support.queues import Queues
from tests.support.world import World

Make = Callable[..., World]


def test_without_inlets_there_is_no_line(healthy: World, look: Examine) -> None:
    assert "pgmq" not in look(healthy)


def test_inlets_without_pgmq_or_their_queue_are_red(
    make_world: Make, look: Examine, connection: psycopg.Connection[Any]
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,payments_queue:payment")
    line = look(world)["pgmq"]
    assert line["level"] == "red"
    assert line["says"].count("there is no pgmq in this database") == 1
    Queues(connection).create("email_queue")
    line = look(world)["pgmq"]
    assert (line["level"], "payments_queue" in line["says"], "email_queue" in line["says"]) == ("red", True, False)


def test_an_inlet_to_a_stage_that_nobody_knows_is_yellow(
    make_world: Make, look: Examine, connection: psycopg.Connection[Any]
) -> None:
    Queues(connection).create("email_queue")
    line = look(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:emial"))["pgmq"]
    assert (line["level"], "stage emial" in line["says"]) == ("yellow", True)


def test_looking_moves_nothing(make_world: Make, look: Examine, connection: psycopg.Connection[Any]) -> None:
    queues = Queues(connection)
    queues.create("email_queue", {"to": "kate"})
    line = look(make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email"))["pgmq"]
    assert (line["level"], line["says"]) == ("green", "the queues can be moved: email_queue")
    assert queues.waiting("email_queue") == [1]


def test_a_database_that_is_away_is_another_line(make_world: Make, look: Examine) -> None:
    away = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email", DATABASE_URL="postgresql://127.0.0.1:1/none")
    lines = look(away)
    assert ("pgmq" not in lines, lines["database"]["level"]) == (True, "red")
