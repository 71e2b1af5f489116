"""What a report says of failures: how often, why, and what became of them."""

from datetime import timedelta

import pytest

from lib.job import Complete, Error, Retry, Snooze
from tests.support.factory import NOON, World
from tests.support.yesterday import MIDNIGHT, MOMENT, report, world

__all__ = ["world"]


def failures(world: World) -> list[tuple[str, str, int, int, int]]:
    rows = report(world)["failures"]
    return [(r["stage"], r["reason"], r["failures"], r["retries"], r["dead_letters"]) for r in rows]


def test_a_failure_that_is_tried_again_is_a_retry(world: World) -> None:
    job = world.claimed()
    world.settle(job, Retry(delay=5, error="TransientError: mail server: ConnectionRefusedError"))
    assert failures(world) == [("email", "TransientError: mail server", 1, 1, 0)]


def test_each_failed_attempt_counts_and_the_last_makes_the_dead_letter(world: World) -> None:
    job_id = world.enqueue("payment")
    for _ in range(2):
        world.settle(world.claim_one(job_id), Retry(delay=0, error="TtrExceeded: it took longer than its ttr of 9 s"))
    world.settle(world.claim_one(job_id), Error(error="TtrExceeded: it took longer than its ttr of 60 s", revive=60))
    assert failures(world) == [("payment", "TtrExceeded: it took longer than its ttr of", 3, 2, 1)]
    totals = report(world)["totals"]
    assert (totals["failures"], totals["retries"], totals["dead_letters"]) == (3, 2, 1)


@pytest.mark.parametrize("later", ["revive", "requeue", "both", "claimed again", "run again", "cancel"])
def test_a_dead_letter_was_one_on_its_day_whatever_came_later(world: World, later: str) -> None:
    job_id = world.dead_letter(revive=3600)
    world.now = NOON
    if later in ("revive", "both"):
        assert world.ask("revive", limit=10, now=world.now) == 1
    if later != "revive" and later != "both":
        world.call("cancel" if later == "cancel" else "requeue", job_id=job_id)
    if later in ("both", "claimed again", "run again"):
        again = world.claim_one(job_id)
        if later == "run again":
            world.settle(again, Complete())
    expected = [("email", "TransientError: no", 1, 0, 0 if later == "cancel" else 1)]
    assert failures(world) == expected


def test_what_goes_well_snoozes_or_is_given_back_is_no_failure(world: World) -> None:
    world.completed()
    world.settled(Snooze(delay=5, waiting_for="the night run"))
    assert failures(world) == []


def test_a_failure_followed_by_a_snooze_was_tried_again(world: World) -> None:
    job = world.claimed()
    world.settle(job, Retry(delay=0, error="TransientError: no"))
    world.settle(world.claim_one(job.id), Snooze(delay=5, waiting_for="the night run"))
    assert failures(world) == [("email", "TransientError: no", 1, 1, 0)]


def test_a_killed_run_is_a_failure_once_it_is_settled(world: World) -> None:
    world.interrupted()
    assert failures(world) == []
    world.now = NOON - timedelta(days=1)
    (taken,) = world.take_over()
    world.settle(taken, Retry(delay=5, error="Interrupted: its function ended before it could settle the run"))
    assert failures(world) == [("email", "Interrupted: its function ended before it could settle the run", 1, 1, 0)]


def test_a_run_that_somebody_took_away_by_hand_has_not_failed(world: World) -> None:
    world.by_hand(world.claimed().id)
    assert world.rows("select result from giftcard_job_history") == [{"result": "INTERRUPTED"}]
    world.run("update giftcard_job_history set finished_at = %s", MIDNIGHT - MOMENT)
    assert failures(world) == []


def test_failures_of_other_days_do_not_count(world: World) -> None:
    world.now = MIDNIGHT
    world.settled(Retry(delay=5, error="TransientError: no"))
    world.now = MIDNIGHT - timedelta(days=1) - MOMENT
    world.settled(Retry(delay=5, error="TransientError: no"))
    assert failures(world) == []


def test_a_dead_letter_that_never_ran_counts_too(world: World) -> None:
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " values ('m', 'email', 'error', %s, %s)",
        *("PermanentError: the message is no JSON object", world.now),
    )
    assert failures(world) == [("email", "PermanentError: the message is no", 1, 0, 1)]


def test_a_job_that_has_left_for_the_archive_still_counts(world: World) -> None:
    dead = world.dead_letter()
    retried = world.claimed()
    world.settle(retried, Retry(delay=0, error="TransientError: no"))
    world.settle(world.claim_one(retried.id), Complete())
    before = report(world)["failures"]
    assert before == [
        {"stage": "email", "reason": "TransientError: no", "failures": 2, "retries": 1, "dead_letters": 1}
    ]
    copy = "insert into giftcard_jobs_archive (id, tenant_id, correlation_id, stage, dedup_key, archived_at, job)"
    world.run(f"{copy} select id, tenant_id, correlation_id, stage, dedup_key, now(), to_jsonb(j) from giftcard_jobs j")
    assert world.run("delete from giftcard_jobs where id in (%s, %s)", dead, retried.id) == 2
    assert report(world)["failures"] == before


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("TransientError: the payment service answered 503", "TransientError: the payment service answered 503"),
        ("PermanentError: the recipient is refused (550)", "PermanentError: the recipient is refused"),
        ("PermanentError: payload: customer.email is not a valid e-mail address", "PermanentError: payload"),
        ("TransientError: payments.example.com: ConnectTimeout", "TransientError"),
        ("PermanentError: no member M-1520 of Kate Rodgers", "PermanentError: no member"),
        ("KeyError: 'kate@example.com'", "KeyError"),
        ("erased", "erased"),
        ("its own words", "its"),
        ("42", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_reason_is_the_type_and_what_is_plain_words(world: World, error: str | None, reason: str) -> None:
    assert world.ask("error_reason", error=error) == reason


def test_the_most_frequent_200_reasons_are_told_and_the_totals_are_of_all(world: World) -> None:
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " select 'm' || n, 'stage_' || n, 'error', 'PermanentError', %s from generate_series(1, 230) n",
        world.now,
    )
    made = report(world)
    assert (len(made["failures"]), made["totals"]["dead_letters"]) == (200, 230)
