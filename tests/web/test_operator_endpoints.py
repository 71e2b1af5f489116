"""The manual trigger, status and health."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import TransientError
from lib.job import Complete, Outcome
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


def fails(payload: Any, context: Any) -> Outcome:
    raise TransientError("no")


def trigger(world: World, **wish: Any) -> dict[str, Any]:
    answer = world.client.post("/api/jobs/run", json=wish, headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json
    return report


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(handlers={"work": quick, "other": quick, "fails": fails}, GIFTCARD_TICK_LINGER=1)


def test_trigger_without_a_body_is_a_tick_as_the_settings_say(world: World) -> None:
    world.enqueue("work", count=12)
    answer = world.client.post("/api/jobs/run", headers=bearer(ADMIN))
    assert (answer.json["started"], answer.json["stopped_because"]) == (10, "limit")
    assert world.value("select source from giftcard_ticks") == "manual"


def test_trigger_with_a_limit(world: World) -> None:
    world.enqueue("work", count=5)
    assert trigger(world, limit=2)["started"] == 2


def test_trigger_of_a_stage_leaves_the_others(world: World) -> None:
    world.enqueue("work")
    (waiting,) = world.enqueue("other")
    assert trigger(world, stage="work")["completed"] == 1
    assert world.job(waiting)["status"] == "queued"


def test_trigger_of_a_stage_nobody_knows_runs_nothing(world: World) -> None:
    world.enqueue("work")
    assert trigger(world, stage="unknown")["started"] == 0


def test_trigger_of_a_job_ignores_its_due_time(world: World) -> None:
    tomorrow = world.value("select now() + interval '1 day'")
    (job_id, other) = world.enqueue("work", count=2, scheduled_at=tomorrow)
    assert trigger(world, job_id=job_id)["completed"] == 1
    assert world.job(other)["status"] == "queued"


def test_trigger_of_a_job_ignores_nothing_else(world: World) -> None:
    for status in ("completed", "error", "cancelled"):
        (job_id,) = world.enqueue("work", status=status)
        assert trigger(world, job_id=job_id)["started"] == 0
    (paused,) = world.enqueue("work")
    world.sql("select public.giftcard_pause('work', 'ann')")
    (unknown,) = world.enqueue("unknown")
    world.sql(
        "insert into giftcard_circuits (circuit, state, open_until) values ('fails', 'open', now() + interval '1 hour')"
    )
    (shut,) = world.enqueue("fails")
    for job_id in (paused, unknown, shut):
        assert trigger(world, job_id=job_id)["started"] == 0
        assert world.job(job_id)["attempts"] == 0


def test_trigger_of_a_job_that_does_not_exist_runs_nothing(world: World) -> None:
    world.enqueue("work")
    assert trigger(world, job_id=999)["started"] == 0


def test_trigger_of_a_failing_job_runs_it_once(world: World) -> None:
    (job_id,) = world.enqueue("fails")
    assert trigger(world, job_id=job_id)["retried"] == 1
    assert trigger(world, job_id=job_id)["retried"] == 1
    assert world.job(job_id)["attempts"] == 2


def test_trigger_lingers_only_when_asked(world: World) -> None:
    world.enqueue("work", scheduled_at=world.value("select now() + interval '0.7 seconds'"))
    assert trigger(world)["started"] == 0
    assert trigger(world, linger=True)["completed"] == 1


def test_trigger_cannot_have_more_time_than_the_settings_give(make_world: Make) -> None:
    world = make_world(handlers={"work": quick}, GIFTCARD_TICK_BUDGET_SECONDS=0.3)
    world.enqueue("work", scheduled_at=world.value("select now() + interval '5 seconds'"))
    report = trigger(world, linger=True, budget_seconds=700)
    assert (report["started"], report["stopped_because"]) == (0, "drained")


def status(world: World) -> dict[str, Any]:
    answer = world.client.get("/api/status", headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def test_status_counts_by_stage_and_status(world: World) -> None:
    world.enqueue("work", count=2)
    world.enqueue("fails", max_attempts=1)
    world.tick()
    world.enqueue("work", count=3)
    assert status(world)["counts"] == {"work": {"completed": 2, "queued": 3}, "fails": {"error": 1}}


def test_status_counts_to_a_thousand(world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage) select n::text, 'work' from generate_series(1, 1500) n"
    )
    assert status(world)["counts"] == {"work": {"queued": 1000}}


def test_status_tells_what_is_wrong(make_world: Make) -> None:
    world = make_world(GIFTCARD_LOOKUP_KEY=None, GIFTCARD_PAUSED=1)
    world.sql("select public.giftcard_pause('payment', 'ann', 'audit')")
    world.enqueue("payment", scheduled_at=world.value("select now() - interval '90 seconds'"))
    found = status(world)
    assert found["stages_not_configured"]["issue_card"] == "GIFTCARD_LOOKUP_KEY"
    assert found["paused_by_setting"] is True
    (paused,) = found["paused"]
    assert (paused["stage"], paused["by"], paused["reason"]) == ("payment", "ann", "audit")
    (queue,) = found["queues"]
    assert queue["availability"] == "parked"
    assert queue["oldest_due_seconds"] == pytest.approx(90, abs=10)


def test_status_shows_circuits_dead_letters_and_ticks(make_world: Make) -> None:
    world = make_world(handlers={"fails": fails}, GIFTCARD_MAX_ATTEMPTS=1, GIFTCARD_CIRCUIT_THRESHOLD=2)
    world.enqueue("fails", count=2)
    report = world.tick()
    found = status(world)
    (circuit,) = found["circuits"]
    assert (circuit["circuit"], circuit["state"]) == ("fails", "open")
    assert [dead["last_error"] for dead in found["dead_letters"]] == ["TransientError: no"] * 2
    assert [tick["id"] for tick in found["ticks"]] == [report["tick_id"]]


def test_status_changes_nothing(world: World) -> None:
    world.enqueue("work")
    before = world.sql("select * from giftcard_jobs")
    status(world)
    assert world.sql("select * from giftcard_jobs") == before
    assert world.row_counts()["giftcard_ticks"] == 0


def test_health_says_up_to_anybody_and_nothing_else(world: World) -> None:
    answer = world.client.get("/api/health")
    assert (answer.status_code, answer.json) == (200, {"status": "up"})


def test_health_without_a_database_says_down(make_world: Make) -> None:
    nowhere = make_world(DATABASE_URL=None)
    answer = nowhere.client.get("/api/health")
    assert (answer.status_code, answer.json) == (503, {"status": "down"})


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/status"), ("POST", "/api/jobs/run")])
def test_application_without_a_database_says_which_setting_is_missing(make_world: Make, method: str, path: str) -> None:
    answer = make_world(DATABASE_URL=None).client.open(path, method=method, headers=bearer(ADMIN))
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert "DATABASE_URL" in answer.json["detail"]
