"""Why a job is not running now: every reason, as `GET /api/v1/jobs/<id>` gives it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


def waits(world: World, job_id: int) -> dict[str, Any]:
    response = world.client.get(f"/api/v1/jobs/{job_id}", headers=bearer(ADMIN))
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json
    return found


def reason(world: World, job_id: int) -> str:
    told = waits(world, job_id)["waiting_for"]
    assert told["text"]
    return str(told["reason"])


def due(world: World, stage: str = "payment", **columns: Any) -> int:
    """A job that only the next tick is missing to; the last one has just been."""
    world.tick()
    (job_id,) = world.enqueue(stage, **columns)
    return job_id


def test_job_that_is_due_waits_for_the_next_tick(world: World) -> None:
    job_id = due(world)
    assert reason(world, job_id) == "next_tick"
    assert waits(world, job_id)["next_run_at"] is not None


def test_job_that_is_not_due_says_when(world: World) -> None:
    job_id = due(world)
    world.sql("update public.giftcard_jobs set scheduled_at = '2050-01-01Z' where id = %s", job_id)
    told = waits(world, job_id)
    assert (told["waiting_for"]["reason"], told["waiting_for"]["until"]) == ("due_at", told["next_run_at"])


def test_job_behind_an_open_circuit_says_until_when(world: World) -> None:
    job_id = due(world)
    world.sql(
        "insert into public.giftcard_circuits (circuit, state, open_until) values ('payment', 'open', '2050-01-01Z')"
    )
    told = waits(world, job_id)["waiting_for"]
    assert (told["reason"], told["until"][:4]) == ("circuit_open", "2050")
    world.sql("update public.giftcard_circuits set open_until = '2020-01-01Z'")
    assert reason(world, job_id) == "circuit_half_open"


def test_job_of_a_paused_stage_says_by_whom(world: World) -> None:
    job_id = due(world)
    body = {"by": "ann", "reason": "the bank is down"}
    assert world.client.post("/api/v1/stages/payment/pause", headers=bearer(ADMIN), json=body).status_code == 200
    told = waits(world, job_id)["waiting_for"]
    assert (told["reason"], told["by"]) == ("stage_paused", "ann")
    assert "the bank is down" in told["text"]


def test_all_paused_is_told_whether_the_database_or_the_setting_says_so(world: World, make_world: Make) -> None:
    job_id = due(world)
    held = make_world(GIFTCARD_PAUSED=1)
    assert waits(held, job_id)["waiting_for"]["by"] == "GIFTCARD_PAUSED"
    assert world.client.post("/api/v1/stages/*/pause", headers=bearer(ADMIN), json={"by": "ann"}).status_code == 200
    assert reason(world, job_id) == "all_paused"


def test_job_of_an_unknown_stage_says_so(world: World) -> None:
    assert reason(world, due(world, "teleport")) == "stage_unknown"


def test_job_of_a_stage_that_lacks_a_setting_names_it(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production")
    told = waits(world, due(world, "email"))["waiting_for"]
    assert told["reason"] == "stage_not_configured"
    assert "SMTP_URL" in told["text"]


def test_dead_letter_says_whether_it_revives(world: World) -> None:
    job_id = due(world)
    world.sql("update public.giftcard_jobs set status = 'error', revive_at = '2050-01-01Z' where id = %s", job_id)
    assert waits(world, job_id)["waiting_for"]["reason"] == "reviving"
    world.sql("update public.giftcard_jobs set revive_at = null where id = %s", job_id)
    assert reason(world, job_id) == "dead"


def test_job_behind_others_says_how_many(world: World) -> None:
    world.tick()
    ids = world.enqueue("payment", count=4)
    told = waits(world, ids[3])["waiting_for"]
    assert (told["reason"], told["ahead"]) == ("behind", 3)


def test_job_that_no_tick_comes_for_says_since_when(world: World) -> None:
    (never,) = world.enqueue("payment")
    assert "no tick has ever run" in waits(world, never)["waiting_for"]["text"]
    world.sql("delete from public.giftcard_jobs")
    job_id = due(world)
    world.move(200)
    told = waits(world, job_id)["waiting_for"]
    assert told["reason"] == "no_tick"
    assert told["since"] is not None


@pytest.mark.parametrize("status", ["running", "completed", "cancelled"])
def test_job_that_runs_or_has_ended_waits_for_nothing(world: World, status: str) -> None:
    job_id = due(world)
    lease = "lease_expires_at = now() + interval '1 minute'"
    world.sql(f"update public.giftcard_jobs set status = %s, {lease} where id = %s", status, job_id)
    assert waits(world, job_id)["waiting_for"] is None


# A running job whose lease has ended: what stands in the way, and the end of the sentence.
LEFT = {
    "nothing": ("", "the next tick takes it over, within a minute"),
    "its stage is paused": (
        "insert into public.giftcard_stages (stage, paused_at, paused_by) values ('payment', now(), 'ann')",
        "the next tick takes it over, within a minute",
    ),
    "its circuit is open": (
        "insert into public.giftcard_circuits (circuit, state, open_until) values ('payment', 'open', '2050-01-01Z')",
        "the next tick takes it over, within a minute",
    ),
    "everything is paused": (
        "insert into public.giftcard_stages (stage, paused_at, paused_by) values ('*', now(), 'ann')",
        "no tick takes it over while everything is paused by ann",
    ),
    "it was passed over": (
        "insert into public.giftcard_faulty_rows select 'job', id::text, 'E', now(), now(), now() + interval '9 min'"
        " from public.giftcard_jobs",
        "ticks fail on it and pass over it until ",
    ),
    "ticks have stopped": (
        "update public.giftcard_ticks set started_at = '2026-01-31 11:02:10.5Z'",
        "a tick takes it over once one comes: the last one was at 2026-01-31 11:02:10Z",
    ),
    "no tick has ever run": ("delete from public.giftcard_ticks", "once one comes: none has ever run"),
}


def killed(world: World) -> int:
    job_id = due(world)
    world.sql(
        "update public.giftcard_jobs set status = 'running', lease_expires_at = '2026-01-31 14:02:10.25+02'"
        " where id = %s", job_id
    )  # fmt: skip
    return job_id


@pytest.mark.parametrize("case", LEFT)
def test_a_killed_run_says_so_and_when_it_is_taken_over(world: World, case: str) -> None:
    job_id = killed(world)
    statement, ends = LEFT[case]
    if statement:
        world.sql(statement)
    found = waits(world, job_id)["waiting_for"]
    assert (found["reason"], found["since"]) == ("killed", "2026-01-31T12:02:10.25+00:00")
    assert found["text"].startswith("its function was killed (lease ended 2026-01-31 12:02:10Z); ")
    assert ends in found["text"]
    (run,) = world.client.get("/api/status", headers=bearer(ADMIN)).json["killed"]
    assert (run["id"], run["waiting_for"]) == (job_id, found)
    (listed,) = world.client.get("/api/v1/jobs?status=running", headers=bearer(ADMIN)).json["jobs"]
    assert listed["waiting_for"] == found


def test_the_next_tick_does_take_a_killed_run_over(world: World) -> None:
    job_id = killed(world)
    world.sql("insert into public.giftcard_stages (stage, paused_at, paused_by) values ('payment', now(), 'ann')")
    assert world.tick()["interrupted"] == 1
    assert waits(world, job_id)["waiting_for"]["reason"] == "stage_paused"


def test_a_killed_run_waits_for_the_setting_that_pauses_everything(world: World, make_world: Make) -> None:
    job_id = killed(world)
    found = waits(make_world(GIFTCARD_PAUSED=1), job_id)["waiting_for"]
    assert (found["reason"], found["by"]) == ("killed", "GIFTCARD_PAUSED")
    assert found["text"].endswith("; no tick takes it over while everything is paused by GIFTCARD_PAUSED")


def test_a_run_without_a_lease_is_no_killed_function(world: World) -> None:
    job_id = due(world)
    world.sql("update public.giftcard_jobs set status = 'running' where id = %s", job_id)
    assert waits(world, job_id)["waiting_for"]["text"].startswith("it runs without a lease; the next tick")
