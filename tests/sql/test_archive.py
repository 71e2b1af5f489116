"""What has left for the archive: it can come back, it is still told of, and sending it again does nothing twice."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete
from tests.support.factory import Row, World

DAY = 86_400.0


def archive(world: World, *, days: float = 91) -> None:
    """All that has ended leaves; what is in the archive stays, and so do runs."""
    world.later(days * DAY)
    answer = world.call("prune", jobs="30 days", dead_letters="90 days", dry_run=False)
    assert answer["done"]


def refused(world: World, function: str, **arguments: Any) -> tuple[str, str]:
    """The refusal's SQLSTATE and sentence."""
    with pytest.raises(psycopg.Error) as caught:
        world.call(function, **arguments)
    return caught.value.sqlstate or "", caught.value.diag.message_primary or ""


def show(world: World, job_id: int) -> Row:
    shown: Row = world.call("show_job", job_id=job_id)
    return shown


# Restoring


@pytest.mark.parametrize("end", ["completed", "cancelled", "dead_letter"])
def test_a_restored_job_is_as_it_was(world: World, end: str) -> None:
    fields = {"payload": {"a": [1.5, None, "é"]}, "dedup_key": "k", "retry_delays": [1, 2.5], "max_attempts": 7}
    job_id = getattr(world, end)(**fields, tenant_id="acme", circuit="email:7", semantics="at_most_once")
    was, runs = world.job(job_id), world.history(job_id)
    archive(world)
    answer = world.call("restore_job", job_id=job_id)
    assert answer == {"id": job_id, "status": was["status"], "restored": True}
    assert world.job(job_id) == was | {"updated_at": world.now}
    assert world.history(job_id) == runs
    assert world.rows("select from giftcard_jobs_archive") == []


def test_the_limit_of_a_restored_job_begins_anew(world: World) -> None:
    job_id = world.completed()
    archive(world)
    world.call("restore_job", job_id=job_id)
    archive(world, days=29)
    assert world.job(job_id)
    archive(world, days=1)
    assert world.rows("select from giftcard_jobs") == []


def test_a_restored_dead_letter_can_be_requeued(world: World) -> None:
    job_id = world.dead_letter()
    archive(world)
    world.call("restore_job", job_id=job_id)
    world.call("requeue", job_id=job_id)
    (job,) = world.claim()
    assert (job.id, job.run_no, job.attempts) == (job_id, 2, 1)


def test_what_is_not_in_the_archive_is_not_restored(world: World) -> None:
    here = world.completed()
    assert refused(world, "restore_job", job_id=here) == (
        "GC409",
        f"job {here} is not archived: there is nothing to restore",
    )
    assert refused(world, "restore_job", job_id=4711) == ("GC404", "job 4711 is not in the archive")


def test_a_job_whose_place_is_taken_stays_in_the_archive(world: World) -> None:
    first = world.completed(correlation_id="f")
    archive(world)
    second = world.enqueue(correlation_id="f")
    state, said = refused(world, "restore_job", job_id=first)
    assert (state, said) == (
        "GC409",
        f"job {first} cannot come back: it was enqueued again, and job {second} has its place in the flow",
    )
    assert show(world, first)["archived_at"]


# Reading


def test_an_archived_job_is_shown_and_says_how_it_comes_back(world: World) -> None:
    job_id = world.cancelled(payload={"a": 1})
    before = show(world, job_id)
    assert before["archived_at"] is None
    archive(world)
    shown = show(world, job_id)
    assert shown["waiting_for"]["reason"] == "archived"
    assert "restore it" in shown["waiting_for"]["text"]
    changed = ("archived_at", "waiting_for")
    assert {n: v for n, v in shown.items() if n not in changed} == {n: v for n, v in before.items() if n not in changed}


def test_the_runs_of_an_archived_job_are_told(world: World) -> None:
    job_id = world.completed()
    archive(world)
    assert [run["status"] for run in world.ask("history", job_id=job_id)["runs"]] == ["SUCCESS"]
    world.call("prune", history="1 day", dry_run=False)
    assert world.ask("history", job_id=job_id) == {"runs": [], "older": None}


def test_a_flow_tells_of_its_archived_jobs_among_the_others(world: World) -> None:
    first = world.completed("payment", correlation_id="f")
    archive(world)
    second = world.enqueue("email", correlation_id="f")
    flow = world.ask("flow", tenant_id="default", correlation_id="f")
    assert [(job["id"], job["status"], bool(job["archived_at"])) for job in flow["jobs"]] == [
        (first, "completed", True),
        (second, "queued", False),
    ]


@pytest.mark.parametrize("function", ["requeue", "cancel"])
def test_nothing_is_done_with_a_job_before_it_is_restored(world: World, function: str) -> None:
    job_id = world.completed()
    archive(world)
    assert refused(world, function, job_id=job_id) == ("GC409", f"job {job_id} is archived: restore it first")
    assert refused(world, function, job_id=4711) == ("GC404", "job 4711 does not exist")


# Sending it again


def order(world: World, *, key: str | None = "k") -> Row:
    payload = {"amount": {"amount": 2500, "currency": "USD"}}
    answer: Row = world.call(
        "submit_order",
        tenant_id="default",
        correlation_id="f",
        body_hash="x",
        payload=payload,
        idempotency_key=key,
    )
    return answer


@pytest.mark.parametrize("key", ["k", None])
def test_an_order_sent_again_after_its_jobs_left_makes_no_new_ones(world: World, key: str | None) -> None:
    first = order(world, key=key)
    world.settle(world.claim_one(first["job_id"]), Complete())
    archive(world)
    assert order(world, key=key) == first | {"created": False}
    world.later(366 * DAY)
    world.call("prune", archive="365 days", dry_run=False)
    assert order(world, key=key) == first | {"created": False, "job_id": None}
    assert world.rows("select from giftcard_jobs") == []
    flow = world.ask("flow", tenant_id="default", correlation_id="f")
    assert flow["jobs"] == []


def test_another_order_under_an_old_key_is_still_refused(world: World) -> None:
    world.settle(world.claim_one(order(world)["job_id"]), Complete())
    archive(world)
    other = {"amount": {"amount": 1, "currency": "USD"}}
    state, _ = refused(
        world,
        "submit_order",
        tenant_id="default",
        correlation_id="g",
        body_hash="y",
        payload=other,
        idempotency_key="k",
    )
    assert state == "GC422"


def test_a_job_enqueued_again_is_a_new_one_whose_effects_have_happened(world: World) -> None:
    job = world.claimed("payment", correlation_id="f")
    begun = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge")
    world.call("finish_effect", vendor_key=begun["vendor_key"], result={"reference": "ch_1"})
    world.settle(job, Complete())
    archive(world)
    again = world.claimed("payment", correlation_id="f")
    assert again.id != job.id
    effect = world.call("begin_effect", job_id=again.id, lease_id=again.lease_id, name="charge")
    assert (effect["state"], effect["result"]) == ("finished", {"reference": "ch_1"})


def test_the_same_place_in_a_flow_can_be_archived_twice(world: World) -> None:
    both = []
    for _ in range(2):
        both.append(world.completed(correlation_id="f"))
        archive(world)
    assert [row["id"] for row in world.rows("select id from giftcard_jobs_archive order by id")] == both


# Forgetting


def test_an_erased_customer_is_gone_from_the_archive_too(world: World) -> None:
    kate = {"external_id": "C-1", "email": "kate@example.org", "given_name": "Kate", "family_name": None}
    ingested = world.completed("customer_ingest", correlation_id="f", payload={"customer": kate, "amount": 7})
    dead = world.dead_letter("customer_ingest", correlation_id="g", payload={"customer": kate})
    other = world.completed(correlation_id="h", payload={"customer": {"external_id": "C-2"}})
    world.run("update giftcard_jobs set last_error = 'for Kate' where id = %s", dead)
    order(world)
    saved = world.call("save_customer", tenant_id="default", **kate, correlation_id="f")
    world.run("update giftcard_jobs set status = 'cancelled', finished_at = %s where status = 'queued'", world.now)
    archive(world)
    untouched = show(world, other)
    found = world.ask("find_customer", tenant_id="default", correlation_id="f")
    assert found == {"id": saved["id"]}
    world.call("erase_customer", customer_id=saved["id"], by="ann")
    assert show(world, ingested)["payload"] == {"erased": True, "amount": 7}
    assert (show(world, dead)["last_error"], show(world, dead)["status"]) == ("erased", "cancelled")
    assert show(world, other) == untouched
    (row,) = world.rows("select string_agg(a::text, ' ') as text from giftcard_jobs_archive a")
    assert "Kate" not in row["text"]
    assert "kate@" not in row["text"]


@pytest.mark.parametrize("archived", [False, True])
def test_a_customer_is_found_by_what_the_jobs_of_a_flow_have_learned(world: World, archived: bool) -> None:
    world.completed(correlation_id="f", context={"customer_id": 4711})
    if archived:
        archive(world)
    assert world.ask("find_customer", tenant_id="default", correlation_id="f") == {"id": 4711}
    with pytest.raises(psycopg.Error, match="no such customer"):
        world.ask("find_customer", tenant_id="acme", correlation_id="f")
