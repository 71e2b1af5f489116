"""A tick that works through a backlog looks at all queues once a second, and goes by what it knows in between."""

import statistics
import uuid
from collections import Counter

import psycopg
import pytest

from lib.job import Error, Job
from tests.support.factory import Tick, World, done, each, ids


def more(tick: Tick, *, limit: int = 2) -> list[Job]:
    """What it gets next, once all it had is done."""
    return list(tick.advance(*map(done, tick.jobs), limit=limit).jobs)


def stages(jobs: list[Job]) -> Counter[str]:
    return Counter(job.stage for job in jobs)


@pytest.fixture
def tick(world: World) -> Tick:
    """It has taken two mails of ten."""
    each(world.enqueue, 10)
    return world.begin(limit=2)


def test_it_goes_on_where_it_left_off(world: World, tick: Tick) -> None:
    mails = [row["id"] for row in world.rows("select id from giftcard_jobs order by id")]
    assert ids(tick.jobs) == mails[:2]
    assert ids(more(tick)) == mails[2:4]
    assert ids(more(tick, limit=3)) == mails[4:7]
    assert ids(more(tick, limit=10)) == mails[7:]
    assert more(tick) == []
    assert tick.step.stopped_because == "drained"


def test_a_new_queue_has_its_turn_within_a_second(world: World, tick: Tick) -> None:
    world.enqueue("payment")
    assert stages(more(tick)) == {"email": 2}
    world.later(0.9)
    assert stages(more(tick)) == {"email": 2}
    world.later(0.2)
    assert stages(more(tick)) == {"email": 1, "payment": 1}


def test_a_new_queue_is_seen_at_once_when_the_others_run_dry(world: World, tick: Tick) -> None:
    world.enqueue("payment")
    assert stages(more(tick, limit=10)) == {"email": 8, "payment": 1}


def test_a_job_that_is_older_than_the_last_one_taken_is_found_within_a_second(world: World, tick: Tick) -> None:
    late = world.enqueue(delay_seconds=-60)
    assert late not in ids(more(tick))
    world.later(1.1)
    assert ids(more(tick))[0] == late


def test_a_job_that_somebody_else_held_is_found_within_a_second(world: World, database_url: str) -> None:
    held, *others = each(world.enqueue, 9)
    world.connection.commit()
    with psycopg.connect(database_url) as other:
        other.execute("select from giftcard_jobs where id = %s for update", [held])
        tick = world.begin(limit=2)
        assert ids(tick.jobs) == others[:2]
    assert ids(more(tick)) == others[2:4]
    world.later(1.1)
    assert ids(more(tick)) == [held, others[4]]


def test_a_killed_run_is_taken_over_within_a_second(world: World, tick: Tick) -> None:
    killed = world.interrupted("payment")
    assert killed.id not in ids(more(tick))
    world.later(1.1)
    taken = more(tick)
    assert [job.id for job in taken if job.interrupted] == [killed.id]
    assert len(taken) == 3


def test_a_stage_that_is_paused_meanwhile_gives_nothing_more(world: World, tick: Tick) -> None:
    world.enqueue("payment")
    world.call("pause", stage="email", by="kate", reason="vendor moves")
    assert stages(more(tick)) == {"payment": 1}


def test_the_pause_of_everything_counts_at_once(world: World, tick: Tick) -> None:
    world.call("pause", stage="*", by="kate", reason="vendor moves")
    assert more(tick) == []
    assert tick.step.stopped_because == "paused"


def test_a_circuit_that_opens_in_the_same_call_gives_nothing_more(world: World, tick: Tick) -> None:
    world.enqueue("payment")
    failed = [done(job, Error(error="TransientError: no", counts=True), trips=2) for job in tick.jobs]
    step = tick.advance(*failed, limit=2)
    assert step.opened == ["email"]
    assert stages(list(step.jobs)) == {"payment": 1}


def test_queues_that_had_no_turn_come_first_in_the_next_claim(world: World) -> None:
    names = [f"http_call:{letter}" for letter in "abcde"]
    for age, name in zip(range(5, 0, -1), names, strict=True):
        job = {"stage": "http_call", "circuit": name, "delay_seconds": -age}
        world.call("enqueue", jobs=[job | {"correlation_id": f"{name}-{n}"} for n in range(4)])
    tick = world.begin(limit=2)
    served = [job.circuit for job in tick.jobs]
    for _ in range(4):
        served += [job.circuit for job in more(tick)]
    assert served == names * 2


def test_with_many_queues_it_looks_each_time(world: World) -> None:
    for number in range(21):
        world.enqueue("webhook", circuit=f"webhook:{number}")
    tick = world.begin(limit=2)
    assert world.rows("select cardinality(cursors) as queues from giftcard_ticks") == [{"queues": 0}]
    world.enqueue("payment", delay_seconds=-60)
    more(tick, limit=20)
    assert "payment" in stages(tick.jobs)


@pytest.mark.slow
def test_what_has_gone_is_not_read_again(database_url: str, world: World) -> None:
    """Somebody holds a transaction open, so that nothing dead goes away. What is counted are pages of 8 kB."""

    def pages() -> int:
        running = (
            "select json_agg(json_build_object('id', id, 'lease_id', lease_id, 'outcome', 'complete'))::text as all"
        )
        (results,) = world.rows(f"{running} from giftcard_jobs where status = 'running'")
        call = "explain (analyze, buffers, format json) select giftcard_advance_tick(%s, %s, %s, 10, 0, p_now => %s)"
        (row,) = world.rows(call, tick.id, str(uuid.uuid4()), results["all"], world.now)
        plan = row["QUERY PLAN"][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    world.run("alter table giftcard_jobs set (autovacuum_enabled = off)")
    for _ in range(5):
        world.call("enqueue", jobs=[{"stage": "email", "correlation_id": uuid.uuid4().hex} for _ in range(1_000)])
    with psycopg.connect(database_url) as held:
        held.execute("set transaction isolation level repeatable read")
        held.execute("select count(*) from giftcard_jobs")
        tick = world.begin(limit=10)
        touched = [pages() for _ in range(400)]
        world.later(2)
        look = pages()
    few, many = statistics.median(touched[10:60]), statistics.median(touched[-50:])
    assert many < few * 1.3
    assert look > many * 1.25
    (row,) = world.rows("select count(*) as runs, count(distinct job_id) as jobs from giftcard_job_history")
    assert row == {"runs": 4010, "jobs": 4010}
