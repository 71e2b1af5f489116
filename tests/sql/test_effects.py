"""Effects outside: the intent before, the result after, and the key that the vendor gets."""

from typing import Any

import psycopg
import pytest

from lib.job import Error, Job, Retry
from tests.support.factory import World


@pytest.fixture
def job(world: World) -> Job:
    return world.claimed("payment", correlation_id="order-7")


def begin(world: World, job: Job, name: str = "charge") -> dict[str, Any]:
    effect: dict[str, Any] = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name=name)
    return effect


def sqlstate(world: World, function: str, **arguments: Any) -> str | None:
    with pytest.raises(psycopg.Error) as caught:
        world.ask(function, **arguments)
    return caught.value.sqlstate


def test_the_first_begin_is_new_and_the_intent_is_kept(world: World, job: Job) -> None:
    effect = begin(world, job)
    assert (effect["state"], effect["result"], effect["age_seconds"]) == ("new", None, 0)
    (row,) = world.rows("select * from giftcard_effects")
    assert (row["correlation_id"], row["stage"], row["name"], row["started_at"]) == (
        "order-7", "payment", "charge", world.now
    )  # fmt: skip


def test_an_effect_found_without_a_result_is_unfinished_and_tells_its_age(world: World, job: Job) -> None:
    first = begin(world, job)
    world.later(90)
    again = begin(world, job)
    assert (again["state"], again["vendor_key"], again["age_seconds"]) == ("unfinished", first["vendor_key"], 90)


def test_an_effect_with_a_result_is_finished(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    assert world.call("finish_effect", vendor_key=key, result={"reference": "ch_1"}) == {"reference": "ch_1"}
    again = begin(world, job)
    assert (again["state"], again["result"]) == ("finished", {"reference": "ch_1"})


def test_the_vendor_key_is_the_same_at_every_attempt_revival_and_requeue(world: World, job: Job) -> None:
    keys = [begin(world, job)["vendor_key"]]
    world.settle(job, Retry(delay=0, error="timeout"))
    keys.append(begin(world, world.claim_one(job.id))["vendor_key"])
    world.by_hand(job.id)
    again = world.claim_one(job.id)
    keys.append(begin(world, again)["vendor_key"])
    world.settle(again, Error(error="timeout", revive=0))
    assert world.call("revive") == 1
    revived = world.claim_one(job.id)
    keys.append(begin(world, revived)["vendor_key"])
    world.settle(revived, Error(error="timeout"))
    world.call("requeue", job_id=job.id)
    keys.append(begin(world, world.claim_one(job.id))["vendor_key"])
    assert len(set(keys)) == 1


@pytest.mark.parametrize("other", ["tenant_id", "correlation_id", "dedup_key", "stage"])
def test_another_flow_has_another_key(world: World, job: Job, other: str) -> None:
    fields = {"correlation_id": "order-7", "stage": "payment"} | {other: "issue_card"}
    second = world.claimed(**fields)
    assert begin(world, second)["vendor_key"] != begin(world, job)["vendor_key"]


def test_two_effects_of_one_job_have_two_keys(world: World, job: Job) -> None:
    assert begin(world, job)["vendor_key"] != begin(world, job, "refund")["vendor_key"]


def test_a_result_once_written_wins(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    world.call("finish_effect", vendor_key=key, result={"reference": "first"})
    world.later(1)
    assert world.call("finish_effect", vendor_key=key, result={"reference": "second"}) == {"reference": "first"}
    (row,) = world.rows("select * from giftcard_effects")
    assert world.from_now(row["finished_at"]) == -1


def test_a_result_is_kept_when_the_lease_was_lost_meanwhile(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    world.by_hand(job.id)
    world.call("finish_effect", vendor_key=key, result={"reference": "ch_1"})
    assert begin(world, world.claim_one(job.id))["result"] == {"reference": "ch_1"}


def test_an_effect_is_kept_when_its_job_is_pruned(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    world.call("finish_effect", vendor_key=key, result={"reference": "ch_1"})
    world.run("delete from giftcard_jobs")
    again = world.claimed("payment", correlation_id="order-7")
    assert again.id != job.id
    assert begin(world, again)["result"] == {"reference": "ch_1"}


@pytest.mark.parametrize("why", ["taken by hand", "taken over", "settled"])
def test_without_the_lease_no_effect_begins(world: World, job: Job, why: str) -> None:
    if why == "taken by hand":
        world.by_hand(job.id)
    elif why == "taken over":
        world.end_lease(job.id)
        world.take_over()
    else:
        world.settle(job, Retry(delay=0, error="x"))
    arguments = {"job_id": job.id, "lease_id": job.lease_id, "name": "charge"}
    assert sqlstate(world, "begin_effect", **arguments) == "GC410"
    assert world.rows("select * from giftcard_effects") == []


# A definite no


def test_what_surely_did_not_happen_is_tried_again_under_the_next_key(world: World, job: Job) -> None:
    first = begin(world, job)["vendor_key"]
    world.later(60)
    answer = world.ask("abandon_effect", vendor_key=first, note="Declined")
    assert (answer["abandoned"], answer["vendor_key"] != first) == (True, True)
    again = begin(world, job)
    assert (again["state"], again["vendor_key"], again["age_seconds"]) == ("new", answer["vendor_key"], 0)
    (row,) = world.rows("select * from giftcard_effects")
    assert (row["generation"], row["note"]) == (2, "Declined")


def test_an_effect_is_abandoned_once_however_often_it_is_said(world: World, job: Job) -> None:
    first = begin(world, job)["vendor_key"]
    second = world.ask("abandon_effect", vendor_key=first)["vendor_key"]
    assert not world.ask("abandon_effect", vendor_key=first)["abandoned"]
    assert begin(world, job)["vendor_key"] == second


def test_only_the_last_run_that_began_an_effect_abandons_it(world: World, job: Job) -> None:
    first, second = begin(world, job), begin(world, job)
    assert (first["tries"], second["tries"]) == (1, 2)
    abandon = {"vendor_key": first["vendor_key"], "note": "refused"}
    assert not world.ask("abandon_effect", **abandon, tries=first["tries"])["abandoned"]
    assert begin(world, job)["vendor_key"] == first["vendor_key"]
    assert world.ask("abandon_effect", **abandon, tries=3)["abandoned"]
    again = begin(world, job)
    assert (again["state"], again["tries"]) == ("new", 1)


def test_an_effect_with_a_result_is_not_abandoned(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    world.call("finish_effect", vendor_key=key, result={"reference": "ch_1"})
    assert not world.ask("abandon_effect", vendor_key=key)["abandoned"]
    assert begin(world, job)["state"] == "finished"


def test_a_key_that_nobody_began_cannot_be_finished(world: World) -> None:
    assert sqlstate(world, "finish_effect", vendor_key="gc_x", result={"a": 1}) == "GC404"


# A person decides


def test_a_person_says_that_it_happened(world: World, job: Job) -> None:
    key = begin(world, job)["vendor_key"]
    result = {"reference": "ch_1"}
    arguments = {"job_id": job.id, "name": "charge", "happened": True, "result": result, "by": "kate"}
    decided = {"reference": "ch_1", "key": key, "decided_by": "kate"}
    assert world.ask("decide_effect", **arguments) == decided
    again = begin(world, job)
    assert (again["state"], again["result"]) == ("finished", decided)


def test_a_person_says_that_it_did_not_happen(world: World, job: Job) -> None:
    first = begin(world, job)["vendor_key"]
    assert world.ask("decide_effect", job_id=job.id, name="charge", happened=False, by="kate")["abandoned"]
    again = begin(world, job)
    assert (again["state"], again["vendor_key"] != first) == ("new", True)
    (row,) = world.rows("select note from giftcard_effects")
    assert "kate" in row["note"]


def test_what_happened_must_have_a_result(world: World, job: Job) -> None:
    begin(world, job)
    assert sqlstate(world, "decide_effect", job_id=job.id, name="charge", happened=True) == "GC400"


@pytest.mark.parametrize("state", ["never begun", "finished", "another name"])
def test_only_what_is_unfinished_can_be_decided(world: World, job: Job, state: str) -> None:
    if state == "finished":
        world.call("finish_effect", vendor_key=begin(world, job)["vendor_key"], result={"a": 1})
    elif state == "another name":
        begin(world, job, "refund")
    assert sqlstate(world, "decide_effect", job_id=job.id, name="charge", happened=False) == "GC404"
