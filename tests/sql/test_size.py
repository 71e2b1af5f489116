"""Right at size: a million finished jobs, a hundred thousand behind a shut door, a thousand circuits.

What is counted are the pages of 8 kB that a call touches, not seconds: they are the same on every machine.
"""

import json
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from dev.postgres import Embedded
from lib.job import Complete, NextJob
from lib.store.encode import encode_result
from tests.support.factory import STAGES, World, done, each

pytestmark = pytest.mark.slow

FINISHED = """
    insert into giftcard_jobs (correlation_id, stage, circuit, status, attempts, run_no, finished_at)
    select 'old-' || to_char(n, 'FM0000000'), 'email', 'email', 'completed', 1, 1, now() from generate_series(1, %s) n
"""
QUEUED = """
    insert into giftcard_jobs (correlation_id, stage, circuit)
    select stage || '-' || to_char(n, 'FM0000000'), stage,
           stage || case when circuits > 1 then ':' || n %% circuits else '' end
      from (select %s as stage, %s as circuits, generate_series(1, %s) as n) s
"""
DEAD = """
    insert into giftcard_jobs (correlation_id, stage, circuit, status, revive_at)
    select to_char(n, 'FM0000000'), 'email', 'email', 'error', %s::timestamptz + make_interval(secs => n)
      from generate_series(1, %s) n
"""
# A claim of ten or its settle in a nearly empty database, with room for deeper indexes.
FEW_PAGES = 750


def pages(world: World, call: str, *values: object) -> int:
    """Pages that this call touched, in memory or not."""
    (row,) = world.rows(f"explain (analyze, buffers, format json) {call}", *values)
    plan = row["QUERY PLAN"][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def claim_pages(world: World, *, limit: int = 10, stages: dict[str, int] = STAGES) -> int:
    call = "select giftcard_begin_tick(%s, 'w', 'test', %s, %s, 130, 1, p_now => %s)"
    return pages(world, call, str(uuid.uuid4()), json.dumps(stages), limit, world.now)


def rounds(world: World) -> tuple[int, int]:
    """Pages of a claim of ten, and of an advance that settles ten and claims ten, once plans are cached."""
    each(lambda: world.enqueue("payment"), 90)
    for _ in range(6):
        tick = world.begin(limit=5, only_stage="payment")
        tick.advance(*map(done, tick.jobs))
    claim = claim_pages(world)
    tick = world.begin(limit=10)
    outcome = Complete(context={"a": 1}, next=(NextJob(stage="issue_card"),))
    results = [encode_result(done(job, outcome)) for job in tick.jobs]
    assert len(results) == 10
    call = "select giftcard_advance_tick(%s, %s, %s, 10, 0, p_now => %s)"
    advance = pages(world, call, tick.id, str(uuid.uuid4()), json.dumps(results), world.now)
    return claim, advance


@pytest.fixture(scope="module")
def full(postgres: Embedded, template: str) -> Iterator[str]:
    """A database with a million finished jobs."""
    url = postgres.create_database("full", template=template)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FINISHED.encode(), [1_000_000])
    yield url
    postgres.drop_database("full")


@pytest.fixture
def crowd(full: str) -> Iterator[World]:
    """A million finished jobs, nobody having analyzed them."""
    with psycopg.connect(full, autocommit=True) as connection:
        yield World(connection)
        connection.execute("delete from giftcard_jobs where status <> 'completed'")
        connection.execute("vacuum giftcard_jobs")


def test_finished_jobs_cost_a_claim_and_a_settle_nothing(crowd: World, world: World) -> None:
    alone = rounds(world)
    among_a_million = rounds(crowd)
    assert max(alone) < FEW_PAGES
    assert among_a_million[0] < alone[0] + 200
    assert among_a_million[1] < alone[1] + 300


def test_a_long_queue_behind_an_open_circuit_costs_a_claim_nothing(world: World) -> None:
    world.open_circuit("email")
    world.run(QUEUED, "email", 1, 100_000)
    claim, advance = rounds(world)
    assert claim < FEW_PAGES
    assert advance < FEW_PAGES
    assert world.rows("select from giftcard_jobs where stage = 'email' and attempts > 0 and status = 'queued'") == []


@pytest.mark.parametrize("why", ["unknown", "paused"])
def test_a_long_queue_of_a_parked_stage_costs_a_claim_nothing(world: World, why: str) -> None:
    world.run(QUEUED, "report", 1, 100_000)
    if why == "paused":
        world.call("pause", stage="report", by="kate")
    each(world.enqueue, 20)
    for _ in range(7):
        world.claim(limit=1)
    assert claim_pages(world, stages=STAGES | ({"report": 60} if why == "paused" else {})) < FEW_PAGES


def test_a_long_open_queue_costs_a_claim_nothing(world: World) -> None:
    world.run(QUEUED, "email", 1, 100_000)
    for _ in range(7):
        world.claim(limit=1)
    assert claim_pages(world) < FEW_PAGES


def test_a_claim_costs_neither_by_the_number_of_circuits_nor_of_jobs(world: World) -> None:
    world.run(QUEUED, "http_call", 1_000, 20_000)
    for _ in range(7):
        world.claim(limit=1)
    few = claim_pages(world)
    world.run(QUEUED.replace("stage || '-'", "'more-'"), "http_call", 10_000, 80_000)
    many = claim_pages(world)
    assert few < 1_500
    assert many < few * 1.5


def test_circuits_with_nothing_due_cost_a_claim_little(world: World) -> None:
    world.run(QUEUED, "http_call", 10_000, 20_000)
    world.run("update giftcard_jobs set scheduled_at = 'infinity'")
    for _ in range(7):
        world.claim(limit=1)
    assert claim_pages(world) < 1_500


def test_a_thousand_open_circuits_leave_the_rest_going(world: World) -> None:
    world.run(QUEUED, "http_call", 1_000, 20_000)
    world.run(
        "insert into giftcard_circuits (circuit, state, open_until)"
        " select 'http_call:' || n, 'open', timestamptz '2035-01-01 13:00Z' from generate_series(0, 999) n"
    )
    other = world.enqueue()
    assert [job.id for job in world.claim(limit=10)] == [other]


@pytest.mark.parametrize("due", [False, True])
def test_a_hundred_thousand_dead_letters_cost_a_tick_nothing_until_they_revive(world: World, due: bool) -> None:
    world.run(DEAD, world.now, 100_000)
    for _ in range(7):
        world.call("revive")
    if due:
        world.later(200_000)
        assert world.call("revive") == 100
    bound = 5_000 if due else 20  # a hundred that revive are a hundred rows written
    assert pages(world, "select giftcard_revive(p_now => %s)", world.now) < bound


def test_looking_is_cheap_with_a_million_rows(crowd: World) -> None:
    crowd.dead_letter()
    crowd.claimed("payment")
    looks = {
        "status": "select giftcard_status('{}')",
        "stuck": "select count(*) from giftcard_stuck_jobs()",
        "counts": "select count(*) from giftcard_counts()",
        "differences": "select count(*) from giftcard_reconcile()",
        "many attempts": "select count(*) from giftcard_jobs_with_many_attempts()",
        "dead letters": "select giftcard_requeue_dead_letters()",
        "revive": "select giftcard_revive()",
    }
    touched = {name: pages(crowd, call) for name, call in looks.items()}
    assert {name: n for name, n in touched.items() if n > 3_000} == {}
