"""`context.once`: an effect outside happens once, however often its job runs, and nobody guesses."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Declined, Refused, TransientError
from tests.support.effects import Effect
from tests.support.world import World

Make = Callable[..., World]

HOUR = 3600


def killed() -> BaseException:
    """As if the function had been killed in the middle."""
    return TransientError("nobody knows")


def run_again(world: World, job_id: int) -> dict[str, Any]:
    """Ticks once more, whatever became of the job; the job then."""
    world.sql("update giftcard_jobs set status = 'queued', scheduled_at = now(), attempts = 0 where id = %s", job_id)
    world.tick()
    return world.job(job_id)


def test_effect_that_has_its_result_is_not_repeated(make_world: Make) -> None:
    effect = Effect()
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    world.tick()
    again = run_again(world, job_id)
    assert (again["status"], again["context"], again["run_no"]) == ("completed", {"try": 1}, 2)
    assert len(effect.keys) == 1


def test_unfinished_effect_is_tried_again_under_the_same_key(make_world: Make) -> None:
    effect = Effect().then(killed(), killed())
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    for _ in range(3):
        world.tick()
        world.move(20)
    assert world.job(job_id)["context"] == {"try": 3}
    assert len(effect.keys) == 3
    assert len(set(effect.keys)) == 1


def test_key_is_the_same_after_revival_and_requeue(make_world: Make) -> None:
    effect = Effect().then(killed(), killed())
    world = make_world(handlers={"work": effect}, GIFTCARD_MAX_ATTEMPTS=1, GIFTCARD_FAILED_JOB_RETRY_HOURS=6)
    (job_id,) = world.enqueue("work")
    world.tick()
    world.move(6 * HOUR)
    assert world.tick()["revived"] == 1
    world.requeue(job_id)
    assert world.tick()["completed"] == 1
    assert len(set(effect.keys)) == 1


def test_keys_differ_by_flow_tenant_stage_and_dedup_key(make_world: Make) -> None:
    effect = Effect()
    world = make_world(handlers={"work": effect, "other": effect})
    for stage, columns in (
        ("work", {}),
        ("work", {"correlation_id": "flow"}),
        ("other", {"correlation_id": "flow"}),
        ("work", {"correlation_id": "flow", "tenant_id": "north"}),
        ("work", {"correlation_id": "flow", "dedup_key": "2"}),
    ):
        world.enqueue(stage, **columns)
    assert world.tick()["completed"] == 5
    assert len(set(effect.keys)) == 5


def test_result_outlives_the_job(make_world: Make) -> None:
    effect = Effect()
    world = make_world(handlers={"work": effect})
    world.enqueue("work", correlation_id="flow")
    world.tick()
    world.sql("delete from giftcard_jobs")
    world.enqueue("work", correlation_id="flow")
    assert world.tick()["completed"] == 1
    assert world.job()["context"] == {"try": 1}
    assert len(effect.keys) == 1


def test_old_effect_that_the_vendor_remembers_is_not_repeated(make_world: Make) -> None:
    effect = Effect(lookup=lambda key: {"found": True}).then(killed())
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    world.tick()
    world.move(21 * HOUR)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"] == {"found": True}
    assert effect.asked == effect.keys[:1]
    assert len(effect.keys) == 1
    assert run_again(world, job_id)["context"] == {"found": True}


def test_old_effect_that_never_happened_is_done_under_the_next_key(make_world: Make) -> None:
    effect = Effect(lookup=lambda key: None).then(killed())
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    world.tick()
    world.move(21 * HOUR)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"] == {"try": 2}
    assert effect.asked == effect.keys[:1]
    assert len(set(effect.keys)) == 2


@pytest.mark.parametrize(("hours", "keys"), [(20, 1), (2, 2)])
def test_hours_for_which_a_key_is_alive_are_a_setting(make_world: Make, hours: int, keys: int) -> None:
    effect = Effect(lookup=lambda key: None).then(killed())
    world = make_world(handlers={"work": effect}, GIFTCARD_VENDOR_KEY_HOURS=hours)
    world.enqueue("work")
    world.tick()
    world.move(19 * HOUR)
    assert world.tick()["completed"] == 1
    assert (len(effect.asked), len(set(effect.keys))) == (keys - 1, keys)


def test_old_effect_that_may_be_repeated_is_repeated_under_the_same_key(make_world: Make) -> None:
    effect = Effect(repeatable=True).then(killed())
    world = make_world(handlers={"work": effect})
    world.enqueue("work")
    world.tick()
    world.move(1000 * HOUR)
    assert world.tick()["completed"] == 1
    assert len(effect.keys) == 2
    assert len(set(effect.keys)) == 1


@pytest.fixture
def unknown(make_world: Make) -> tuple[World, Effect, int]:
    """An effect begun long ago whose outcome nobody can find out."""
    effect = Effect().then(killed())
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    world.tick()
    world.move(21 * HOUR)
    assert world.tick()["errored"] == 1
    return world, effect, job_id


def test_old_effect_that_nobody_can_be_asked_about_waits_for_a_person(unknown: tuple[World, Effect, int]) -> None:
    world, effect, job_id = unknown
    job = world.job(job_id)
    assert (job["status"], job["revive_at"]) == ("error", None)
    assert job["last_error"].startswith("Outcome unknown: ")
    assert "sql/decide_effect.sql" in job["last_error"]
    world.requeue(job_id)
    assert world.tick()["errored"] == 1
    assert len(effect.keys) == 1


@pytest.mark.parametrize(
    ("word", "keys", "context"),
    [('true, \'{"reference": "ch_1"}\'', 1, {"reference": "ch_1"}), ("false", 2, {"try": 2})],
)
def test_person_says_whether_it_happened(
    unknown: tuple[World, Effect, int], word: str, keys: int, context: dict[str, Any]
) -> None:
    world, effect, job_id = unknown
    world.sql(f"select public.giftcard_decide_effect(%s, 'do', {word})", job_id)
    world.requeue(job_id)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"].items() >= context.items()
    assert len(set(effect.keys)) == keys


def test_definite_no_is_final_until_a_person_requeues_and_then_asks_under_a_new_key(make_world: Make) -> None:
    effect = Effect().then(Declined("no money"))
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    assert world.tick()["errored"] == 1
    job = world.job(job_id)
    assert (job["attempts"], job["revive_at"], job["last_error"]) == (1, None, "Declined: no money")
    world.requeue(job_id)
    assert world.tick()["completed"] == 1
    assert len(set(effect.keys)) == 2


def test_run_that_lost_its_lease_begins_no_effect(make_world: Make) -> None:
    effect = Effect()
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    effect.before = lambda context: take_by_hand(world, context)
    report = world.tick()
    assert (report["lease_lost"], effect.keys) == (1, [])
    assert world.job(job_id)["last_error"] is None
    assert world.sql("select * from giftcard_circuits where failures > 0") == []


def test_result_that_comes_after_the_lease_was_lost_still_wins(make_world: Make) -> None:
    effect = Effect()
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    effect.during = lambda context: take_by_hand(world, context)
    report = world.tick()
    assert (report["lease_lost"], report["completed"]) == (1, 0)
    world.move(61)
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["context"] == {"try": 1}
    assert len(effect.keys) == 1


def take_by_hand(world: World, context: Any) -> None:
    """The operators' UPDATE, on the running job."""
    changes = "status='queued', scheduled_at=NOW() + interval '1 minute', attempts=0, last_error=NULL"
    world.sql(f"UPDATE giftcard_jobs SET {changes} WHERE id=%s", context.job.id)


def test_payload_cannot_be_changed_once_an_effect_has_begun(make_world: Make) -> None:
    effect = Effect().then(killed())
    world = make_world(handlers={"work": effect}, GIFTCARD_MAX_ATTEMPTS=1)
    (job_id,) = world.enqueue("work", {"amount": 1})
    world.tick()
    with pytest.raises(Refused, match="has begun an effect outside with its old payload") as refused:
        world.requeue(job_id, payload={"amount": 2})
    assert (refused.value.sqlstate, refused.value.field) == ("GC409", "payload")
    assert world.job(job_id)["payload"] == {"amount": 1}
