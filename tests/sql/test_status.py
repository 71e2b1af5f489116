"""What people look at: the whole picture, stuck jobs, a flow, what does not match in the books."""

from typing import Any

import psycopg
import pytest

from lib.job import Error, Retry
from tests.support.books import issue, pay, take
from tests.support.factory import STAGES, World, done, each

FLOW = "order-7"


def status(world: World) -> dict[str, Any]:
    answer: dict[str, Any] = world.call("status", stages=dict(STAGES))
    return answer


def test_an_empty_house_has_an_empty_picture(world: World) -> None:
    answer = status(world)
    assert answer["schema"]["version"] >= answer["schema"]["oldest_code"] >= 1
    assert answer["counts"] == {}
    names = ("queues", "circuits", "paused", "dead_letters", "differences", "ticks")
    assert [answer[name] for name in names] == [[]] * 6


def test_jobs_are_counted_by_stage_and_status(world: World) -> None:
    each(world.enqueue, 3)
    world.enqueue("webhook", circuit="webhook:a")
    world.enqueue("webhook", circuit="webhook:b")
    world.claimed()
    world.completed()
    world.completed("payment")
    world.dead_letter("payment")
    world.cancelled()
    assert status(world)["counts"] == {
        "email": {"queued": 3, "running": 1, "completed": 1, "cancelled": 1},
        "payment": {"completed": 1, "error": 1},
        "webhook": {"queued": 2},
    }


@pytest.mark.parametrize("made", ["queued", "running", "completed"])
def test_each_count_is_capped(world: World, made: str) -> None:
    numbers = "generate_series(1, 12) n"
    world.run(f"insert into giftcard_jobs (correlation_id, stage, status) select n, 'email', %s from {numbers}", made)
    counted = world.rows("select * from giftcard_counts(10)")
    assert counted == [{"stage": "email", "status": made, "jobs": 10}]


def test_each_queue_has_its_age_and_its_availability(world: World) -> None:
    world.open_circuit("email")
    world.enqueue("email")
    world.enqueue("payment", delay_seconds=-30)
    world.enqueue("issue_card", delay_seconds=20)
    world.enqueue("report")
    world.enqueue("webhook")
    world.call("pause", stage="webhook", by="kate", reason="vendor moves")
    queues = {queue["circuit"]: queue for queue in status(world)["queues"]}
    assert {name: queue["availability"] for name, queue in queues.items()} == {
        "email": "blocked", "payment": "ready", "issue_card": "ready", "report": "parked", "webhook": "parked"
    }  # fmt: skip
    assert queues["payment"]["oldest_due_seconds"] == 30
    assert queues["issue_card"]["oldest_due_seconds"] == 0
    (paused,) = status(world)["paused"]
    assert (paused["stage"], paused["by"], paused["reason"]) == ("webhook", "kate", "vendor moves")


def test_a_circuit_that_is_not_well_is_shown_and_a_closed_one_is_not(world: World) -> None:
    world.open_circuit("email")
    world.settled(Retry(delay=9, error="x"), "payment")
    assert [(c["circuit"], c["state"]) for c in status(world)["circuits"]] == [("email", "open")]
    world.later(60)
    assert [(c["circuit"], c["state"]) for c in status(world)["circuits"]] == [("email", "half_open")]
    world.call("reset_circuit", circuit="email")
    assert status(world)["circuits"] == []


def test_the_newest_dead_letters_are_shown_with_what_becomes_of_them(world: World) -> None:
    old = world.dead_letter(revive=60)
    world.later(1)
    new = world.settled(Error(error="PermanentError: bad"))
    first, second = status(world)["dead_letters"]
    assert (first["id"], first["last_error"], first["revive_at"]) == (new, "PermanentError: bad", None)
    assert second["id"] == old
    assert second["revive_at"] is not None


def test_the_last_ticks_are_shown_the_newest_first(world: World) -> None:
    ticks = [world.begin().id for _ in range(12)]
    shown = status(world)["ticks"]
    assert [tick["id"] for tick in shown] == ticks[::-1][:10]
    assert not {"key", "claim_key", "stages"} & set(shown[0])


# Stuck


def stuck(world: World, **arguments: Any) -> list[tuple[int, str]]:
    rows = world.rows("select * from giftcard_stuck_jobs(p_now => %s)", world.now)
    return [(row["id"], row["why"]) for row in rows]


def test_stuck_jobs_tell_why(world: World) -> None:
    killed = world.claimed(ttr_seconds=1).id
    world.open_circuit("email")
    shut, paused, left, young = world.enqueue(), world.enqueue("webhook"), world.enqueue("payment"), None
    world.call("pause", stage="webhook", by="kate", reason="vendor moves")
    world.enqueue("issue_card", delay_seconds=400)
    world.later(301)
    young = world.enqueue("payment")
    found = dict(stuck(world))
    assert young not in found
    assert set(found) == {killed, shut, paused, left}
    assert "killed" in found[killed]
    assert found[shut] == "circuit email is open"
    assert found[paused] == "stage paused by kate: vendor moves"
    assert found[left] == "due, but no tick has taken it"


def test_a_run_within_its_lease_is_not_stuck(world: World) -> None:
    world.claimed()
    world.later(69)
    assert stuck(world) == []


def test_the_one_that_is_stuck_longest_comes_first(world: World) -> None:
    second = world.enqueue(delay_seconds=-400)
    first = world.enqueue("payment", delay_seconds=-500)
    assert [job_id for job_id, _ in stuck(world)] == [first, second]


def test_everything_that_waits_is_stuck_when_all_is_paused(world: World) -> None:
    job_id = world.enqueue(delay_seconds=-400)
    world.call("pause", stage="*", by="kate", reason="inventory")
    ((found, why),) = stuck(world)
    assert found == job_id
    assert "paused by kate: inventory" in why


def test_jobs_with_many_attempts_come_with_the_most_first(world: World) -> None:
    jobs = [world.enqueue() for _ in range(4)]
    for job_id, attempts in zip(jobs, [2, 3, 5, 4], strict=True):
        world.run("update giftcard_jobs set attempts = %s where id = %s", attempts, job_id)
    done_with_many = world.completed()
    world.run("update giftcard_jobs set attempts = 9 where id = %s", done_with_many)
    rows = world.rows("select * from giftcard_jobs_with_many_attempts()")
    assert [(row["id"], row["attempts"]) for row in rows] == [(jobs[2], 5), (jobs[3], 4), (jobs[1], 3)]
    assert len(world.rows("select * from giftcard_jobs_with_many_attempts(p_at_least => 4, p_limit => 1)")) == 1


# Paid, no card


def paid(world: World) -> None:
    take(world, FLOW)
    pay(world, FLOW)


def unserved(world: World) -> list[str]:
    """The flows that paid and have no card, as the status lists them."""
    listed = status(world)["differences"]
    assert {line["kind"] for line in listed} <= {"paid_without_card"}
    return [line["correlation_id"] for line in listed]


@pytest.mark.parametrize("ended", ["dead_letter", "cancelled"])
def test_a_paid_flow_whose_card_cannot_be_issued_is_listed(world: World, ended: str) -> None:
    paid(world)
    world.completed("payment", correlation_id=FLOW)
    job_id = getattr(world, ended)("issue_card", correlation_id=FLOW)
    (line,) = status(world)["differences"]
    assert (line["kind"], line["correlation_id"], line["amount"]) == ("paid_without_card", FLOW, 2500)
    assert line["detail"].startswith(f"job {job_id} of issue_card is ")


def test_a_paid_flow_that_is_on_its_way_is_not_listed(world: World) -> None:
    paid(world)
    job_id = world.enqueue("issue_card", correlation_id=FLOW)
    assert unserved(world) == []
    tick = world.begin()
    assert unserved(world) == []
    tick.advance(done(tick.jobs[0], Error(error="no", revive=60)))
    assert world.job(job_id)["status"] == "error"
    assert unserved(world) == [FLOW]  # it revives by itself, but not today
    world.later(60)
    world.settle(world.claim_one(job_id), Error(error="no"))
    assert unserved(world) == [FLOW]


def test_a_paid_flow_without_any_job_left_is_listed(world: World) -> None:
    paid(world)
    (line,) = status(world)["differences"]
    assert (line["correlation_id"], line["detail"]) == (FLOW, "no job of its flow is left")


def test_a_paid_flow_with_its_card_is_not_listed(world: World) -> None:
    paid(world)
    world.dead_letter("email", correlation_id=FLOW)
    issue(world, FLOW)
    assert unserved(world) == []


def test_of_many_differences_the_first_twenty_are_listed(world: World) -> None:
    for number in range(21):
        take(world, f"order-{number}")
        pay(world, f"order-{number}")
        world.later(1)
    found = status(world)
    assert [line["correlation_id"] for line in found["differences"]] == [f"order-{number}" for number in range(20)]
    assert "differences" in found["truncated"]


# A flow


def test_a_flow_tells_where_it_stands(world: World) -> None:
    world.completed("customer_ingest", correlation_id=FLOW)
    paid(world)
    dead = world.dead_letter("issue_card", revive=60, correlation_id=FLOW)
    world.enqueue(correlation_id="another")
    flow = world.ask("flow", tenant_id="default", correlation_id=FLOW)
    assert [(job["stage"], job["status"]) for job in flow["jobs"]] == [
        ("customer_ingest", "completed"),
        ("issue_card", "error"),
    ]
    assert (flow["jobs"][1]["id"], flow["jobs"][1]["last_error"]) == (dead, "TransientError: no")
    assert (flow["payment"]["amount"], flow["card"]) == (2500, None)


@pytest.mark.parametrize(("tenant", "flow"), [("default", "nobody"), ("acme", FLOW)])
def test_a_flow_that_nobody_began_is_not_found(world: World, tenant: str, flow: str) -> None:
    world.enqueue(correlation_id=FLOW)
    with pytest.raises(psycopg.Error) as caught:
        world.ask("flow", tenant_id=tenant, correlation_id=flow)
    assert caught.value.sqlstate == "GC404"


def test_a_job_is_shown_with_its_next_run_and_its_runs_the_newest_first(world: World) -> None:
    job_id = world.settled(Retry(delay=0, error="first"))
    world.settle(world.claim_one(job_id), Retry(delay=5, error="second"))
    job = world.call("show_job", job_id=job_id, stages=dict(STAGES))
    assert (job["id"], job["status"], job["last_error"]) == (job_id, "queued", "second")
    assert job["next_run_at"] == job["scheduled_at"]
    assert [run["run_no"] for run in world.ask("history", job_id=job_id)["runs"]] == [2, 1]
    assert [run["run_no"] for run in world.ask("history", job_id=job_id, limit=1)["runs"]] == [2]
    with pytest.raises(psycopg.Error) as caught:
        world.call("show_job", job_id=404)
    assert caught.value.sqlstate == "GC404"
