"""What a tick says of the queues it takes in."""

from collections.abc import Callable
from typing import Any

import psycopg

from tests.cli.conftest import Door
from tests.support.queues import Queues
from tests.support.world import World


def test_tick_tells_what_came_in_and_what_could_not(
    make_world: Callable[..., World], connection: psycopg.Connection[Any]
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES="email_queue:email,nope:email,quiet:email")
    queues = Queues(connection)
    queues.create("quiet")
    queues.create("email_queue", *({"correlation_id": "o-1"} | more for more in ({}, {}, {"n": 1})), "text", {"n": 1})
    queues.send("email_queue", {"n": 2})
    world.sql("insert into pgmq.a_email_queue (msg_id, vt) values (6, now())")
    lines = Door(world.app, world).says("tick").splitlines()
    assert sorted(line for line in lines if line.startswith("queue ")) == [
        "queue email_queue: 2 moved, 1 repeated, 1 conflicts, 1 refused, message 6 stays in the queue: duplicate key"
        ' value violates unique constraint "a_email_queue_pkey"',
        "queue nope: pgmq has no queue nope: create it with select pgmq.create('nope')",
    ]
