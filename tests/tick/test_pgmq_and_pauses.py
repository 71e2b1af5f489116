"""A tick that does no work takes nothing out of pgmq: a second delivery, and while everything is paused."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.queues import NOTHING, Queues
from tests.support.world import World

Make = Callable[..., World]
ID = "x-vercel-execution-id"
QUEUES = "work_queue:email"


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    queues = Queues(connection)
    queues.create("work_queue", {"n": 1})
    return queues


def untouched(world: World) -> bool:
    """Whether the message is in its queue, and nobody has read it."""
    return world.sql("select read_ct, vt <= now() as visible from pgmq.q_work_queue") == [
        {"read_ct": 0, "visible": True}
    ]


def test_a_second_delivery_takes_nothing_in(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    assert world.tick(**{ID: "one"})["pgmq"]["work_queue"]["moved"] == 1
    queues.send("work_queue", {"n": 2})
    report = world.tick(**{ID: "one"})
    assert (report["duplicate"], report["pgmq"], report["calls"]) == (True, {"work_queue": NOTHING}, 2)
    assert untouched(world)
    report = world.tick(**{ID: "two"})
    assert (report["duplicate"], report["pgmq"]["work_queue"]["moved"]) == (False, 1)


def test_a_delivery_repeated_after_its_tick_was_killed_takes_messages_in(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    world.tick(**{ID: "one"})
    queues.send("work_queue", {"n": 2})
    world.sql("update giftcard_ticks set ended_at = null, stopped_because = null")
    assert world.tick(**{ID: "one"})["pgmq"] == {"work_queue": NOTHING}, "it is still live"
    world.sql("update giftcard_ticks set live_until = now() - interval '1 second'")
    assert world.tick(**{ID: "one"})["pgmq"] == {"work_queue": NOTHING | {"moved": 1}}


def test_while_everything_is_paused_in_the_database_nothing_is_taken_in(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    world.sql("select public.giftcard_pause('*', 'ops')")
    report = world.tick()
    assert (report["paused"], report["pgmq"], report["calls"]) == (True, {"work_queue": NOTHING}, 2)
    assert untouched(world)
    world.sql("select public.giftcard_resume('*', 'ops')")
    assert world.tick()["pgmq"] == {"work_queue": NOTHING | {"moved": 1}}


def test_while_the_deployment_is_paused_nothing_is_taken_in(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, GIFTCARD_PAUSED=1)
    assert world.tick()["pgmq"] == {}
    assert untouched(world)


def test_messages_for_a_paused_stage_are_jobs_that_wait(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    world.sql("select public.giftcard_pause('email', 'ops')")
    assert world.tick()["pgmq"] == {"work_queue": NOTHING | {"moved": 1}}
    assert (world.job()["status"], world.job()["attempts"]) == ("queued", 0)


def test_a_check_of_the_queues_works_during_a_pause(make_world: Make, queues: Queues) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    world.sql("select public.giftcard_pause('*', 'ops')")
    assert world.store.read_pgmq(("work_queue", "nope"), limit=0)["nope"].keys() == {"problem"}
    assert untouched(world)
