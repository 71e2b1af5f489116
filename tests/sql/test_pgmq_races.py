"""Ticks that take in at the same time, and what is left of one that ends in the middle."""

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.factory import World
from tests.support.pages import fenced
from tests.support.queues import NOTHING, Queues, import_messages

QUEUES = {"email_queue": {"stage": "email"}, "payments_queue": {"stage": "payment"}}


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    return Queues(connection)


@pytest.fixture
def other(database_url: str) -> Iterator[World]:
    """A second tick's connection, in a transaction of its own."""
    with psycopg.connect(database_url) as connection:
        yield World(connection, now=None)


def import_pgmq(world: World, *, limit: int = 100) -> Any:
    return import_messages(world, QUEUES, limit=limit)


def taken(world: World) -> list[int]:
    return sorted(row["n"] for row in world.rows("select (payload ->> 'n')::int as n from giftcard_jobs"))


def test_a_tick_passes_by_what_another_is_moving(world: World, other: World, queues: Queues) -> None:
    queues.create("email_queue", *({"n": n} for n in range(5)))
    assert import_pgmq(other, limit=3)["email_queue"]["moved"] == 3
    world.run("set statement_timeout = '5s'")  # it must not wait for the other
    assert import_pgmq(world)["email_queue"]["moved"] == 2
    assert taken(world) == [3, 4]
    other.connection.commit()
    assert import_pgmq(world)["email_queue"]["moved"] == 0
    assert taken(world) == [0, 1, 2, 3, 4]
    assert (queues.waiting("email_queue"), len(queues.archived("email_queue"))) == ([], 5)


def test_a_tick_that_is_killed_in_the_middle_has_moved_nothing(world: World, other: World, queues: Queues) -> None:
    queues.create("email_queue", *({"n": n} for n in range(5)))
    assert import_pgmq(other, limit=3)["email_queue"]["moved"] == 3
    world.rows("select pg_terminate_backend(%s)", other.connection.info.backend_pid)
    with pytest.raises(psycopg.OperationalError):
        other.rows("select 1")
    assert (taken(world), queues.archived("email_queue")) == ([], [])
    assert import_pgmq(world)["email_queue"]["moved"] == 5
    assert taken(world) == [0, 1, 2, 3, 4]


@pytest.fixture
def role(world: World) -> Iterator[str]:
    """One that may do in `public` what service_role may, and nothing in `pgmq`."""
    world.run("create role some_service bypassrls")
    for what in (
        "usage on schema",
        "all on all tables in schema",
        "usage on all sequences in schema",
        "execute on all functions in schema",
    ):
        world.run(f"grant {what} public to some_service")
    yield "some_service"
    world.run("drop owned by some_service")
    world.run("drop role some_service")


def test_a_role_without_rights_in_pgmq_says_so(world: World, other: World, queues: Queues, role: str) -> None:
    queues.create("email_queue", {"n": 1})
    other.run(f"set local role {role}")
    assert import_pgmq(other)["email_queue"]["problem"] == "permission denied for schema pgmq"
    other.connection.rollback()


def test_what_the_page_grants_is_enough(world: World, other: World, queues: Queues, role: str) -> None:
    queues.create("email_queue", {"n": 1}, "no object")
    (grants,) = fenced("queues", language="sql")
    world.run(grants.replace("service_role", role))
    other.run(f"set local role {role}")
    assert import_pgmq(other)["email_queue"] == NOTHING | {"moved": 1, "refused": 1}
    other.connection.rollback()


def test_eight_ticks_at_once_move_each_message_once(world: World, database_url: str, queues: Queues) -> None:
    queues.create("email_queue", *({"n": n} for n in range(400)))
    queues.create("payments_queue", *({"n": 400 + n} for n in range(100)))
    moved: list[int] = []

    def tick() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            mine = World(connection, now=None)
            while sums := sum(queue["moved"] for queue in import_pgmq(mine, limit=7).values()):
                moved.append(sums)

    ticks = [threading.Thread(target=tick) for _ in range(8)]
    for one in ticks:
        one.start()
    for one in ticks:
        one.join()
    # One that saw only what others were moving has ended: the rest is for the next.
    while sums := sum(queue["moved"] for queue in import_pgmq(world).values()):
        moved.append(sums)
    assert (sum(moved), taken(world)) == (500, list(range(500)))
    assert len(queues.archived("email_queue")) + len(queues.archived("payments_queue")) == 500
