"""A transaction that somebody leaves open makes each claim walk over what has long been done.

docs/performance.md has it at size. What is counted are pages.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from lib.store.encode import encode_result
from tests.support.factory import STAGES, World, done

pytestmark = pytest.mark.slow

JOBS = 5_000


@contextmanager
def held(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody looks at the queue in a transaction, and goes for lunch."""
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from giftcard_jobs")
        yield connection


def churn(world: World) -> None:
    """Thousands of jobs come and go."""
    for _ in range(JOBS // 500):
        world.call("enqueue", jobs=[{"stage": "email", "correlation_id": uuid.uuid4().hex} for _ in range(500)])
        tick = world.begin(limit=100)
        while tick.jobs:
            written = [encode_result(done(job)) for job in tick.jobs]
            world.call("advance_tick", tick_id=tick.id, claim_key=str(uuid.uuid4()), results=written, limit=0, busy=1)
            tick = world.begin(limit=100)


def pages(world: World) -> int:
    """What a claim of ten touches."""
    for _ in range(40):
        world.enqueue()
    begin = "select giftcard_begin_tick(%s, 'w', 'test', %s, 10, 130, 2, p_now => %s)"
    touched = []
    for _ in range(3):
        (row,) = world.rows(
            f"explain (analyze, buffers, format json) {begin}", str(uuid.uuid4()), json.dumps(STAGES), world.now
        )
        plan = row["QUERY PLAN"][0]["Plan"]
        touched.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return int(touched[-1])


def test_a_held_transaction_slows_claims_until_it_ends_and_the_table_is_vacuumed(
    database_url: str, world: World
) -> None:
    world.run("alter table giftcard_jobs set (autovacuum_enabled = off)")
    for _ in range(7):
        world.claim()  # plans are cached
    quick = pages(world)
    with held(database_url):
        churn(world)
        slow = pages(world)
        world.run("vacuum giftcard_jobs")
        assert pages(world) > slow * 0.9
    assert slow > quick * 2
    world.run("vacuum giftcard_jobs")
    assert pages(world) < quick * 1.5
