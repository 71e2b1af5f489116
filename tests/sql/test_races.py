"""Two at once: the second is seen waiting for the first's lock, and the outcome is right either way."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, Retry
from lib.store.encode import encode_result
from tests.support.factory import World, done, each, ids
from tests.support.race import Race

KEY = "00000000-0000-4000-8000-000000000001"


def test_two_begins_with_one_key_bring_the_same_leases(world: World, race: Race) -> None:
    each(world.enqueue, 4)
    first = race.first.begin(limit=2, key=KEY)
    waiting = race.second_waits(lambda w: w.begin(limit=2, key=KEY))
    race.commit()
    assert waiting.result().jobs == first.jobs
    assert len(world.rows("select id from giftcard_jobs where status = 'running'")) == 2


def test_two_advances_with_one_key_bring_the_same_leases(world: World, race: Race) -> None:
    each(world.enqueue, 4)
    tick = world.begin(limit=1)
    result = done(tick.jobs[0])
    call = {"tick_id": tick.id, "claim_key": KEY, "results": [encode_result(result)], "limit": 2, "busy": 0}
    first = race.first.call("advance_tick", **call)
    waiting = race.second_waits(lambda w: w.call("advance_tick", **call))
    race.commit()
    second = waiting.result()
    assert second["jobs"] == first["jobs"]
    assert [s["settled"] for s in second["settled"]] == ["settled"]
    assert tick.row["completed"] == 1


def test_two_deliveries_of_one_execution_do_the_work_once(world: World, race: Race) -> None:
    each(world.enqueue, 4)
    race.first.begin(limit=2, execution_id="e1")
    waiting = race.second_waits(lambda w: w.begin(limit=2, execution_id="e1"))
    race.commit()
    assert waiting.result().step.duplicate


def test_two_enqueues_of_one_job_make_one(world: World, race: Race) -> None:
    first = race.first.enqueue(correlation_id="order-7")
    waiting = race.second_waits(lambda w: w.enqueue(correlation_id="order-7"))
    race.commit()
    assert waiting.result() == first
    assert len(world.rows("select id from giftcard_jobs")) == 1


def test_an_enqueue_that_waited_for_one_that_failed_makes_the_job(world: World, race: Race) -> None:
    race.first.enqueue(correlation_id="order-7")
    waiting = race.second_waits(lambda w: w.enqueue(correlation_id="order-7"))
    race.first.connection.rollback()
    made = waiting.result()
    assert [row["id"] for row in world.rows("select id from giftcard_jobs")] == [made]


def customer(world: World, external_id: str) -> int:
    saved = world.call(
        "save_customer", tenant_id="default", external_id=external_id, email="a@b.c", given_name="K", family_name=None
    )
    return int(saved["id"])


def test_two_customers_never_get_the_same_code(world: World, race: Race) -> None:
    one, two = customer(world, "C-1"), customer(world, "C-2")
    candidates = ("KATE0001", "KATE0002")
    assert race.first.call("assign_code", customer_id=one, candidates=candidates)["code"] == "KATE0001"
    waiting = race.second_waits(lambda w: w.call("assign_code", customer_id=two, candidates=candidates))
    race.commit()
    # It chose before it knew: it is told to try others, and gets the next one then.
    assert waiting.result() == {"code": None, "assigned": False}
    assert world.call("assign_code", customer_id=two, candidates=candidates)["code"] == "KATE0002"


def test_one_customer_asked_for_twice_gets_one_code(world: World, race: Race) -> None:
    one = customer(world, "C-1")
    race.first.call("assign_code", customer_id=one, candidates=("KATE0001",))
    waiting = race.second_waits(lambda w: w.call("assign_code", customer_id=one, candidates=("KATE0002",)))
    race.commit()
    assert waiting.result() == {"code": "KATE0001", "assigned": False}


def test_two_saves_of_one_customer_make_one(world: World, race: Race) -> None:
    first = customer(race.first, "C-1")
    waiting = race.second_waits(lambda w: customer(w, "C-1"))
    race.commit()
    assert waiting.result() == first


@pytest.mark.parametrize("body", ["b1", "b2"])
def test_two_submits_under_one_key_make_one_order(world: World, race: Race, body: str) -> None:
    def submit(w: World, flow: str, body: str) -> Any:
        order = {"tenant_id": "default", "payload": {"amount": {"amount": 2500, "currency": "USD"}}}
        return w.call("submit_order", correlation_id=flow, body_hash=body, idempotency_key="k1", **order)

    first = submit(race.first, "order-7", "b1")
    waiting = race.second_waits(lambda w: submit(w, "order-8", body))
    race.commit()
    if body == "b1":
        assert waiting.result() == first | {"created": False}
    else:
        refused = waiting.exception()
        assert isinstance(refused, psycopg.Error)
        assert refused.sqlstate == "GC422"
    assert [row["id"] for row in world.rows("select id from giftcard_jobs")] == [first["job_id"]]


def test_a_settle_that_waits_for_the_update_by_hand_has_lost_its_lease(world: World, race: Race) -> None:
    for outcome in (Complete(), Retry(delay=5, error="x")):
        job = world.claimed()
        race.first.by_hand(job.id)
        waiting = race.second_waits(lambda w, job=job, outcome=outcome: w.settle(job, outcome))  # type: ignore[misc]
        race.commit()
        assert waiting.result()["settled"] == "lease_lost"
        assert world.job(job.id)["status"] == "queued"
        assert [run["result"] for run in world.history(job.id)] == ["INTERRUPTED"]


def test_the_update_by_hand_that_waits_for_a_settle_does_what_it_says(world: World, race: Race) -> None:
    job = world.claimed()
    assert race.first.settle(job, Retry(delay=60, error="x"))["settled"] == "settled"
    waiting = race.second_waits(lambda w: w.by_hand(job.id))
    race.commit()
    waiting.result()
    row = world.job(job.id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("queued", 0, None)
    assert [run["result"] for run in world.history(job.id)] == ["FAILED"]


def test_a_settle_that_waits_for_a_take_over_has_lost_its_lease(world: World, race: Race) -> None:
    job = world.interrupted()
    assert ids(race.first.take_over()) == [job.id]
    waiting = race.second_waits(lambda w: w.settle(job, Complete()))
    race.commit()
    assert waiting.result()["settled"] == "lease_lost"


def test_two_settles_of_one_run_count_once(world: World, race: Race) -> None:
    job = world.claimed()
    result = done(job, Retry(delay=5, error="x"), trips=3)
    race.first.settle_all(result)
    waiting = race.second_waits(lambda w: w.settle_all(result))
    race.commit()
    assert [s["settled"] for s in waiting.result()["settled"]] == ["settled"]
    assert world.circuit("email")["failures"] == 1
    assert len(world.history(job.id)) == 1


def test_a_cancel_that_waits_for_a_settle_cancels_what_came_of_it(world: World, race: Race) -> None:
    job = world.claimed()
    race.first.settle(job, Retry(delay=60, error="x"))
    waiting = race.second_waits(lambda w: w.call("cancel", job_id=job.id))
    race.commit()
    assert waiting.result()["was"] == "queued"
    assert world.job(job.id)["status"] == "cancelled"


@pytest.mark.parametrize("stages", [("email", "payment"), ("payment", "email")])
def test_circuits_are_locked_by_name_whatever_the_order_of_results(
    world: World, race: Race, stages: tuple[str, str]
) -> None:
    """Held up at the later name, a settle has the earlier one already: two settles cannot lock each other out."""
    for stage in stages:
        world.settle_all(done(world.claimed(stage), Error(error="down"), trips=9))
    results = [done(world.claimed(stage), Error(error="down"), trips=9) for stage in stages]
    race.first.run("select from giftcard_circuits where circuit = 'payment' for update")
    waiting = race.second_waits(lambda w: w.settle_all(*results))
    free = world.rows("select circuit from giftcard_circuits where circuit = 'email' for update skip locked")
    race.commit()
    assert free == []
    assert {s["settled"] for s in waiting.result()["settled"]} == {"settled"}
    assert [c["failures"] for c in world.circuits()] == [2, 2]


def test_settles_that_fail_on_the_same_circuits_in_opposite_order_both_count(world: World, race: Race) -> None:
    def failed(*stages: str) -> list[Any]:
        return [done(world.claimed(stage), Error(error="down"), trips=9) for stage in stages]

    one, two = failed("email", "payment"), failed("payment", "email")
    race.first.settle_all(*one)
    waiting = race.second_waits(lambda w: w.settle_all(*two))
    race.commit()
    assert {s["settled"] for s in waiting.result()["settled"]} == {"settled"}
    assert [(c["circuit"], c["failures"]) for c in world.circuits()] == [("email", 2), ("payment", 2)]


@pytest.mark.parametrize("turned", [False, True])
def test_jobs_are_locked_by_id_whatever_the_order_of_results(world: World, race: Race, turned: bool) -> None:
    jobs = [world.claimed() for _ in range(2)]
    results = [done(job, Retry(delay=5, error="x")) for job in jobs]
    race.first.run("select from giftcard_jobs where id = %s for update", jobs[1].id)
    waiting = race.second_waits(lambda w: w.settle_all(*(results[::-1] if turned else results)))
    free = world.rows("select id from giftcard_jobs where id = %s for update skip locked", jobs[0].id)
    race.commit()
    assert free == []
    assert {s["settled"] for s in waiting.result()["settled"]} == {"settled"}


def test_a_claim_never_waits_for_anybody(world: World, race: Race) -> None:
    locked, free = each(world.enqueue, 2)
    world.open_circuit("payment")
    world.later(60)
    race.first.run("select from giftcard_jobs where id = %s for update", locked)
    race.first.run("select from giftcard_circuits for update")
    world.enqueue("payment")
    world.run("set lock_timeout = '2s'")
    assert ids(world.claim(limit=10)) == [free]
