"""Who decides about a failed run, highest first: a hook, the stage, its policy; and what a hook makes of a new job."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, NextJob, Outcome, Retry
from lib.jobs.enqueue import prepare
from lib.jobs.hooks import Draft, FailedRun, after_error, before_enqueue
from lib.jobs.registry import Registry
from tests.support.world import ADMIN, World, a_stage, an_order, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    for signal in (before_enqueue, after_error):
        signal._clear_state()  # forgets everybody; blinker has it for tests


def fails(payload: Any, context: Any) -> Outcome:
    raise TransientError("no")


def fails_for_good(payload: Any, context: Any) -> Outcome:
    raise PermanentError("never")


def bend(**changes: Any) -> Callable[[Any], None]:
    """A hook that sets these; connect keeps no hold on it, so the caller must."""

    def hook(told: Any) -> None:
        for name, value in changes.items():
            setattr(told, name, value)

    return hook


def one(
    make_world: Make, handler: Any = fails, *, attempts: int = 5, can_retry: Any = None, **columns: Any
) -> dict[str, Any]:
    """What a tick makes of one job whose run fails."""
    stage = a_stage("work", handler, can_retry=can_retry)
    world = make_world(registry=Registry({"work": stage}), GIFTCARD_STAGE_WORK_MAX_ATTEMPTS=attempts)
    (job_id,) = world.enqueue("work", **columns)
    world.tick()
    return world.job(job_id)


def seconds_until_due(job: dict[str, Any]) -> float:
    return float((job["scheduled_at"] - job["updated_at"]).total_seconds())


def test_hook_sees_the_error_of_a_returned_outcome_without_secrets(make_world: Make) -> None:
    seen: list[str] = []

    def see(run: FailedRun) -> None:
        seen.append(str(run.error))

    after_error.connect(see)
    job = one(make_world, lambda payload, context: Retry(delay=9, error=f"denied for {ADMIN}"))
    assert (seen, job["last_error"]) == (["denied for [secret]"], "denied for [secret]")


def test_hook_sees_the_attempt_the_stage_and_the_error(make_world: Make) -> None:
    seen: list[FailedRun] = []
    after_error.connect(seen.append, weak=False)
    one(make_world)
    (told,) = seen
    assert (told.stage, told.attempt, told.max_attempts, str(told.error)) == ("work", 1, 5, "no")
    assert (told.retry, told.delay) == (True, 5)


def test_hook_sets_the_delay(make_world: Make) -> None:
    after_error.connect(bend(delay=77), weak=False)
    assert seconds_until_due(one(make_world)) == pytest.approx(77, abs=0.01)


def test_hook_stops_what_the_policy_would_retry_and_it_does_not_revive(make_world: Make) -> None:
    after_error.connect(bend(retry=False), weak=False)
    job = one(make_world)
    assert (job["status"], job["revive_at"], job["last_error"]) == ("error", None, "TransientError: no")


@pytest.mark.parametrize(("handler", "attempts"), [(fails_for_good, 5), (fails, 1)])
def test_hook_retries_what_the_policy_gives_up(make_world: Make, handler: Any, attempts: int) -> None:
    after_error.connect(bend(retry=True), weak=False)
    job = one(make_world, handler, attempts=attempts)
    assert (job["status"], seconds_until_due(job)) == ("queued", pytest.approx(5, abs=0.01))


def test_hook_decides_over_the_stage(make_world: Make) -> None:
    after_error.connect(bend(retry=True), weak=False)
    assert one(make_world, can_retry=lambda attempt, error: False)["status"] == "queued"


@pytest.mark.parametrize("outcome", [Retry(delay=5, error="no"), Error(error="no")])
def test_hook_decides_over_what_the_handler_returned(make_world: Make, outcome: Outcome) -> None:
    after_error.connect(bend(retry=isinstance(outcome, Error)), weak=False)
    status = one(make_world, lambda payload, context: outcome)["status"]
    assert status == ("queued" if isinstance(outcome, Error) else "error")


def test_hook_does_not_override_at_most_once(make_world: Make) -> None:
    after_error.connect(bend(retry=True), weak=False)
    assert one(make_world, semantics="at_most_once")["status"] == "error"


def test_twenty_five_attempts_are_the_end_whatever_a_hook_says(make_world: Make) -> None:
    after_error.connect(bend(retry=True), weak=False)
    world = make_world(registry=Registry({"work": a_stage("work", fails)}))
    early, last = world.enqueue("work", count=2)
    world.sql("update giftcard_jobs set attempts = case id when %s then 23 else 24 end", early)
    world.tick()
    assert [world.job(job_id)["status"] for job_id in (early, last)] == ["queued", "error"]


@pytest.mark.parametrize(("said", "status"), [(True, "queued"), (False, "error"), (None, "error")])
def test_stage_decides_over_its_policy(make_world: Make, said: bool | None, status: str) -> None:
    asked: list[tuple[int, str]] = []

    def can_retry(attempt: int, error: BaseException) -> bool | None:
        asked.append((attempt, str(error)))
        return said

    assert one(make_world, attempts=1, can_retry=can_retry)["status"] == status
    assert asked == [(1, "no")]


def test_stage_that_says_no_is_not_revived(make_world: Make) -> None:
    assert one(make_world, can_retry=lambda attempt, error: False)["revive_at"] is None
    assert one(make_world, attempts=1, correlation_id="exhausted")["revive_at"] is not None


def test_stage_that_says_no_at_the_last_attempt_lets_the_job_run_out_of_attempts(make_world: Make) -> None:
    job = one(make_world, attempts=1, can_retry=lambda attempt, error: False)
    assert (job["status"], (job["revive_at"] - job["finished_at"]).total_seconds()) == ("error", 24 * 3600)


def test_hook_that_stops_a_stage_beyond_its_attempts_lets_the_job_run_out_of_attempts(make_world: Make) -> None:
    after_error.connect(bend(retry=False), weak=False)
    job = one(make_world, attempts=1, can_retry=lambda attempt, error: True)
    assert (job["status"], job["revive_at"] is not None) == ("error", True)


@pytest.mark.parametrize("value", ["soon", -1, float("nan"), float("inf")])
def test_hook_that_sets_what_cannot_be_changes_nothing(make_world: Make, log: Log, value: Any) -> None:
    after_error.connect(bend(retry=False, delay=value), weak=False)
    assert one(make_world)["status"] == "queued"
    (line,) = [line for line in log() if line["event"] == "hook_failed"]
    assert (line["hook"], line["error"]) == ("hook", "ValueError")


def test_hook_that_raises_is_logged_and_the_others_are_heard(make_world: Make, log: Log) -> None:
    def bad(told: FailedRun) -> None:
        told.retry = False
        raise RuntimeError("the hook itself, of kate@example.com")

    hooks = [bad, bend(delay=50)]
    for hook in hooks:
        after_error.connect(hook, weak=False)
    job = one(make_world)
    assert (job["status"], seconds_until_due(job)) == ("queued", pytest.approx(50, abs=0.01))
    (line,) = [line for line in log() if line["event"] == "hook_failed"]
    assert (line["hook"], line["error"], line["job_id"]) == ("bad", "RuntimeError", job["id"])
    assert "kate@example.com" not in str(line)


def test_can_retry_that_raises_leaves_it_to_the_policy(make_world: Make, log: Log) -> None:
    def can_retry(attempt: int, error: BaseException) -> bool:
        raise RuntimeError

    assert one(make_world, can_retry=can_retry)["status"] == "queued"
    assert [line["hook"] for line in log() if line["event"] == "hook_failed"] == ["can_retry of work"]


# Before a job is enqueued


def nothing(payload: Any, context: Any) -> Outcome:
    return Complete()


def followed(payload: Any, context: Any) -> Outcome:
    return Complete(next=(NextJob(stage="work"),))


BENT = {"ttr_seconds": 90, "delay_seconds": 600.0, "semantics": "at_most_once", "payload": {"bent": True}}


def check_that_it_is_bent(job: dict[str, Any]) -> None:
    assert (job["ttr_seconds"], job["semantics"], job["payload"]) == (90, "at_most_once", {"bent": True})
    assert 599 < (job["scheduled_at"] - job["created_at"]).total_seconds() < 601


def test_draft_is_bent_on_the_way_through_the_api(make_world: Make) -> None:
    before_enqueue.connect(bend(**BENT), weak=False)
    world = make_world(handlers={"work": nothing})
    body = {"stage": "work", "correlation_id": "one", "payload": {"plain": True}}
    assert world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code == 202
    check_that_it_is_bent(world.job(stage="work"))


def test_draft_of_the_next_job_is_bent(make_world: Make) -> None:
    seen: list[Draft] = []
    before_enqueue.connect(seen.append, weak=False)
    before_enqueue.connect(bend(**BENT), weak=False)
    world = make_world(handlers={"first": followed, "work": nothing})
    world.enqueue("first", {"plain": True}, correlation_id="one")
    world.tick()
    check_that_it_is_bent(world.job(stage="work"))
    (draft,) = seen
    assert (draft.stage, draft.correlation_id, draft.trigger_type) == ("work", "one", "flow")


def test_draft_of_an_order_is_bent(make_world: Make) -> None:
    seen: list[Draft] = []
    before_enqueue.connect(seen.append, weak=False)
    before_enqueue.connect(bend(ttr_seconds=90, delay_seconds=600.0), weak=False)
    world = make_world()
    assert world.submit().status_code == 202
    job = world.job(stage="customer_ingest")
    assert (job["ttr_seconds"], job["payload"]["customer"]) == (90, an_order()["customer"])
    assert [draft.payload["amount"]["amount"] for draft in seen] == [2500]


def test_draft_that_cannot_be_is_enqueued_as_it_was(make_world: Make, log: Log) -> None:
    def bad(draft: Draft) -> None:
        draft.payload["left"] = "behind"
        draft.ttr_seconds = 0

    before_enqueue.connect(bad, weak=False)
    world = make_world(handlers={"work": nothing})
    row = {"stage": "work", "correlation_id": "one", "payload": {"a": 1}}
    world.store.enqueue(prepare([row], world.registry, world.settings))
    job = world.job(stage="work")
    assert (job["payload"], job["ttr_seconds"]) == ({"a": 1}, None)
    assert [line["hook"] for line in log() if line["event"] == "hook_failed"] == ["bad"]


def test_plain_sql_has_no_hook(make_world: Make) -> None:
    before_enqueue.connect(bend(**BENT), weak=False)
    world = make_world(handlers={"work": nothing})
    (job_id,) = world.enqueue("work")
    assert world.job(job_id)["payload"] == {}
