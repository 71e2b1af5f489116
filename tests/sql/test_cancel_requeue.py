"""What a person does to one job: cancel it, send it back."""

from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, NextJob, Outcome, Release, Retry, Snooze
from tests.support.factory import World, ids


def refusal(world: World, function: str, **arguments: Any) -> tuple[str | None, str | None]:
    """SQLSTATE and field of the refusal."""
    with pytest.raises(psycopg.Error) as caught:
        world.call(function, **arguments)
    return caught.value.sqlstate, caught.value.diag.message_detail


# Cancel


def test_a_queued_job_is_cancelled(world: World) -> None:
    job_id = world.enqueue()
    world.later(1)
    answer = world.call("cancel", job_id=job_id)
    assert answer == {"id": job_id, "was": "queued", "status": "cancelled", "cancel_requested": False}
    row = world.job(job_id)
    assert (row["status"], row["finished_at"]) == ("cancelled", world.now)
    assert world.claim() == []


def test_a_dead_letter_is_cancelled_and_does_not_revive(world: World) -> None:
    job_id = world.dead_letter(revive=60)
    world.call("cancel", job_id=job_id)
    assert (world.job(job_id)["status"], world.job(job_id)["revive_at"]) == ("cancelled", None)
    world.later(60)
    assert world.begin().step.revived == 0


def test_a_wish_is_noted_for_a_running_job(world: World) -> None:
    job = world.claimed()
    world.later(1)
    answer = world.call("cancel", job_id=job.id)
    assert answer == {"id": job.id, "was": "running", "status": "running", "cancel_requested": True}
    row = world.job(job.id)
    assert (row["status"], str(row["lease_id"]), row["cancel_requested_at"]) == ("running", job.lease_id, world.now)


@pytest.mark.parametrize(
    "outcome",
    [
        Retry(delay=5, error="no"),
        Error(error="no", revive=60),
        Snooze(delay=5, waiting_for="x"),
        Release(),
    ],
)
def test_every_outcome_but_complete_becomes_cancelled(world: World, outcome: Outcome) -> None:
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.later(1)
    answer = world.settle(job, outcome)
    assert (answer["settled"], answer["status"], answer["next_run_at"]) == ("settled", "cancelled", None)
    row = world.job(job.id)
    assert (row["status"], row["revive_at"], row["finished_at"]) == ("cancelled", None, world.now)
    (run,) = world.history(job.id)
    assert run["next_run_at"] is None
    world.later(3600)
    assert world.claim() == []


def test_complete_wins_over_the_wish(world: World) -> None:
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.settle(job, Complete(next=(NextJob(stage="payment"),)))
    assert world.job(job.id)["status"] == "completed"
    assert [row["stage"] for row in world.rows("select stage from giftcard_jobs order by id")] == ["email", "payment"]


def test_what_was_to_follow_a_cancelled_job_does_not(world: World) -> None:
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.settle(job, Error(error="no", next=(NextJob(stage="payment"),)))
    assert world.rows("select * from giftcard_jobs where stage = 'payment'") == []


def test_an_interrupted_job_with_a_wish_becomes_cancelled(world: World) -> None:
    old = world.claimed()
    world.call("cancel", job_id=old.id)
    world.end_lease(old.id)
    (job,) = world.take_over()
    world.settle(job, Retry(delay=5, error="Interrupted"))
    assert world.job(old.id)["status"] == "cancelled"
    assert [run["result"] for run in world.history(old.id)] == ["INTERRUPTED"]


def test_the_wish_ends_with_its_lease(world: World) -> None:
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.by_hand(job.id)
    again = world.claim_one(job.id)
    world.settle(again, Retry(delay=5, error="no"))
    assert world.job(job.id)["status"] == "queued"


def test_cancelling_twice_is_harmless_and_what_is_completed_cannot_be(world: World) -> None:
    cancelled = world.cancelled()
    before = world.job(cancelled)
    world.later(1)
    assert world.call("cancel", job_id=cancelled)["status"] == "cancelled"
    assert world.job(cancelled) == before
    assert refusal(world, "cancel", job_id=world.completed()) == ("GC409", "status")
    assert refusal(world, "cancel", job_id=404) == ("GC404", "job_id")


# Requeue


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_requeue_gives_a_whole_new_start_and_keeps_the_history(world: World, status: str) -> None:
    job_id = world.settled(Retry(delay=0, error="first"))
    world.settle(world.claim_one(job_id), Error(error="second", revive=60))
    world.run("update giftcard_jobs set revivals = 3 where id = %s", job_id)
    if status == "cancelled":
        world.call("cancel", job_id=job_id)
    world.later(10)
    assert world.call("requeue", job_id=job_id) == {"id": job_id, "status": "queued", "was": status}
    row = world.job(job_id)
    assert (row["status"], row["attempts"], row["revivals"], row["run_no"]) == ("queued", 0, 0, 2)
    assert (row["last_error"], row["revive_at"], row["finished_at"]) == (None, None, None)
    assert row["scheduled_at"] == world.now
    assert [run["error"] for run in world.history(job_id)] == ["first", "second"]
    assert ids(world.claim()) == [job_id]


def test_requeue_of_what_was_cancelled_while_it_ran_leaves_no_wish(world: World) -> None:
    job = world.claimed()
    world.call("cancel", job_id=job.id)
    world.settle(job, Retry(delay=5, error="no"))
    world.call("requeue", job_id=job.id)
    assert world.job(job.id)["cancel_requested_at"] is None


def test_requeue_of_a_completed_job_needs_force(world: World) -> None:
    job_id = world.completed()
    assert refusal(world, "requeue", job_id=job_id) == ("GC409", "force")
    assert world.call("requeue", job_id=job_id, force=True)["was"] == "completed"
    assert world.job(job_id)["attempts"] == 0
    assert ids(world.claim()) == [job_id]


def test_a_delivered_webhook_is_never_sent_again(world: World) -> None:
    job_id = world.completed("webhook", circuit="webhook:7")
    assert refusal(world, "requeue", job_id=job_id, force=True) == ("GC409", "force")
    dead = world.dead_letter("webhook")
    assert world.call("requeue", job_id=dead)["status"] == "queued"


def test_requeue_of_queued_running_and_missing_jobs_is_refused(world: World) -> None:
    for job_id in (world.enqueue(), world.claimed().id):
        assert refusal(world, "requeue", job_id=job_id) == ("GC409", "status")
    assert refusal(world, "requeue", job_id=404) == ("GC404", "job_id")


def test_requeue_may_bring_a_corrected_payload(world: World) -> None:
    job_id = world.dead_letter(payload={"email": "kate"})
    world.call("requeue", job_id=job_id, payload={"email": "kate@example.org"})
    assert world.job(job_id)["payload"] == {"email": "kate@example.org"}


def test_a_corrected_payload_is_refused_once_an_effect_began(world: World) -> None:
    job = world.claimed("payment", payload={"amount": 1})
    world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge")
    world.settle(job, Error(error="no"))
    before = world.snapshot(job.id)
    assert refusal(world, "requeue", job_id=job.id, payload={"amount": 2}) == ("GC409", "payload")
    assert world.snapshot(job.id) == before
    assert world.call("requeue", job_id=job.id, payload={"amount": 1})["status"] == "queued"


def test_a_corrected_payload_is_taken_when_the_effect_surely_did_not_happen(world: World) -> None:
    job = world.claimed("payment", payload={"amount": 1})
    effect = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge")
    world.ask("abandon_effect", vendor_key=effect["vendor_key"])
    world.settle(job, Error(error="Declined"))
    assert world.call("requeue", job_id=job.id, payload={"amount": 2})["status"] == "queued"


def test_a_payload_that_is_no_object_is_refused(world: World) -> None:
    job_id = world.dead_letter()
    with pytest.raises(psycopg.errors.CheckViolation, match="giftcard_jobs_payload_is_an_object"):
        world.call("requeue", job_id=job_id, payload=[1])


# Many dead letters


def test_dead_letters_are_counted_first_and_requeued_when_meant(world: World) -> None:
    dead = [world.dead_letter(), world.dead_letter("payment", revive=60)]
    others = [world.completed(), world.cancelled(), world.enqueue()]
    before = world.snapshot(*dead, *others)
    answer = world.call("requeue_dead_letters")
    assert answer == {"dry_run": True, "matched": 2, "requeued": 0}
    assert world.snapshot(*dead, *others) == before
    assert world.call("requeue_dead_letters", dry_run=False) == {"dry_run": False, "matched": 2, "requeued": 2}
    assert [world.job(i)["status"] for i in dead] == ["queued", "queued"]
    assert world.snapshot(*others) == before[2:]
    assert world.call("requeue_dead_letters", dry_run=False)["matched"] == 0


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({}, [0, 1, 2]),
        ({"stage": "payment"}, [1]),
        ({"error": "SMTP"}, [0]),
        ({"error": "%"}, []),
        ({"older_than": "1 hour"}, [0, 1]),
        ({"limit": 1}, [0]),
        ({"stage": "payment", "error": "smtp"}, []),
    ],
)
def test_dead_letters_are_chosen_by_stage_error_and_age(world: World, chosen: dict[str, Any], found: list[int]) -> None:
    dead = [
        world.settled(Error(error="SmtpError: down")),
        world.settled(Error(error="VendorError: 503"), "payment"),
    ]
    world.later(3600)
    dead.append(world.settled(Error(error="VendorError: 503")))
    world.call("requeue_dead_letters", dry_run=False, **chosen)
    assert [n for n in range(3) if world.job(dead[n])["status"] == "queued"] == found
    for n in found:
        row = world.job(dead[n])
        assert (row["attempts"], row["revivals"], row["last_error"], row["scheduled_at"]) == (0, 0, None, world.now)
