"""The run that is under way, as `GET /api/v1/jobs/<id>` shows it while the handler works."""

from collections.abc import Callable
from typing import Any

from lib.job import Complete, Outcome
from lib.jobs.context import Context
from lib.jobs.registry import Registry
from tests.support.world import ADMIN, World, a_stage, bearer

Make = Callable[..., World]


def show(world: World, job_id: int) -> dict[str, Any]:
    found: dict[str, Any] = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN)).json
    return found


def test_a_running_job_shows_its_run_and_the_tick(make_world: Make) -> None:
    seen: list[dict[str, Any]] = []

    def handler(payload: Any, context: Context) -> Outcome:
        seen.append(show(world, context.job.id))
        context.heartbeat()
        seen.append(show(world, context.job.id))
        return Complete()

    world = make_world(registry=Registry({"work": a_stage("work", handler, longest=90)}))
    job_id = world.add("work")
    assert show(world, job_id)["current_run"] is None
    tick_id = world.tick()["tick_id"]
    first, second = (each["current_run"] for each in seen)
    assert (first["run_no"], first["attempt"], first["tick_id"], first["heartbeat_at"]) == (1, 1, tick_id, None)
    assert first["lock_owner"].rpartition(":")[2].isdigit()
    assert 0 <= first["duration_ms"] <= second["duration_ms"]
    assert first["started_at"] < first["deadline_at"] < first["lease_expires_at"]
    assert second["heartbeat_at"] > first["started_at"]
    assert second["lease_expires_at"] > first["lease_expires_at"]
    assert [each["waiting_for"] for each in seen] == [None, None]
    assert show(world, job_id)["current_run"] is None


def test_a_request_to_cancel_is_no_heartbeat(world: World) -> None:
    world.tick()
    job_id = world.add("payment")
    world.sql(
        "update public.giftcard_jobs set status = 'running', locked_at = now(), updated_at = now(),"
        " lease_expires_at = now() + interval '1 minute' where id = %s", job_id
    )  # fmt: skip
    assert world.client.post(f"/api/v1/jobs/{job_id}/cancel", headers=bearer(ADMIN)).status_code == 200
    run = show(world, job_id)["current_run"]
    assert (run["heartbeat_at"], run["cancel_requested_at"] is None) == (None, False)
    assert run["tick_id"] is None
