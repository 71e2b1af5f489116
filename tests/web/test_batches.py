"""Batches over the API: created with their jobs, filled, sealed, watched, cancelled and requeued."""

from typing import Any

import pytest

from tests.support.world import ADMIN, World, an_order, bearer

Json = dict[str, Any]


def ask(world: World, method: str, path: str, body: Any = None, status: int = 200) -> Json:
    response = world.client.open(f"/api/v1/batches{path}", method=method, json=body, headers=bearer(ADMIN))
    assert response.status_code == status, response.text
    answer: Json = response.json
    return answer


def jobs(*names: str) -> list[Json]:
    return [{"stage": "report", "correlation_id": name, "payload": {}} for name in names]


FOLLOW_UP = {"stage": "report", "payload": {"day": "2026-01-31"}, "priority": 4, "concurrency_key": "reports"}


def test_ticks_run_its_jobs_and_then_its_follow_up(world: World) -> None:
    body = {"name": "reports of May", "jobs": jobs("a", "b"), "follow_up": FOLLOW_UP}
    made = ask(world, "POST", "", body, 201)
    assert (made["state"], made["created"], [job["created"] for job in made["jobs"]]) == ("running", True, [True, True])
    assert ask(world, "POST", "", body, 201)["jobs"] == [job | {"created": False} for job in made["jobs"]]
    world.drain()
    ended = ask(world, "GET", f"/{made['id']}")
    assert (ended["state"], ended["done"], ended["ended_with"]["completed"]) == ("ended", 2, 2)
    follow_up = world.client.get(f"/api/v1/jobs/{ended['follow_up_job_id']}", headers=bearer(ADMIN)).json
    assert (follow_up["status"], follow_up["correlation_id"]) == ("completed", "batch-reports of May")
    assert (follow_up["priority"], follow_up["concurrency_key"]) == (4, "reports")
    assert follow_up["context"]["batch"] == {"id": made["id"], "name": "reports of May"} | ended["ended_with"]
    assert ask(world, "GET", "?state=ended")["batches"][0]["id"] == made["id"]


def test_an_open_batch_is_filled_and_sealed(world: World) -> None:
    batch = ask(world, "POST", "", {"open": True}, 201)
    assert [job["created"] for job in ask(world, "POST", f"/{batch['id']}/jobs", {"jobs": jobs("a")}, 202)["jobs"]] == [
        True
    ]
    assert ask(world, "POST", f"/{batch['id']}/seal")["state"] == "running"
    refused = ask(world, "POST", f"/{batch['id']}/jobs", {"jobs": jobs("b")}, 409)
    assert refused["field"] == "batch_id"


def test_cancel_and_requeue_are_operations_on_its_jobs(world: World) -> None:
    batch = ask(world, "POST", "", {"jobs": jobs("a", "b"), "follow_up": FOLLOW_UP}, 201)
    cancelled = ask(world, "POST", f"/{batch['id']}/cancel", {"reason": "gone"})
    assert (cancelled["action"], cancelled["total"]) == ("cancel", 2)
    assert cancelled["filter"] == {"batch_id": str(batch["id"]), "tenant_id": "default"}
    world.sql("update giftcard_jobs set scheduled_at = now() + interval '1 day' where batch_id is not null")
    world.drain()
    ended = ask(world, "GET", f"/{batch['id']}")
    assert (ended["state"], ended["counts"]["cancelled"]) == ("ended", 2)
    assert ask(world, "POST", f"/{batch['id']}/requeue", {"reason": "back"})["total"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "jobs"),
        ({"jobs": [{"stage": "nope", "correlation_id": "a"}]}, "jobs.0.stage"),
        ({"jobs": jobs("a"), "follow_up": {"stage": "nope"}}, "follow_up.stage"),
        ({"jobs": jobs("a"), "follow_up": {"stage": "report", "payload": {"day": 5}}}, "follow_up.payload.day"),
        ({"jobs": [jobs("a")[0] | {"tenant_id": "other"}]}, "jobs.0.tenant_id"),
        ({"jobs": jobs("a"), "name": "x" * 151}, "name"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_enqueued(world: World, body: Json, field: str) -> None:
    assert ask(world, "POST", "", body, 422)["field"] == field
    assert world.value("select count(*) from giftcard_jobs") == 0


def test_a_job_that_exists_already_is_refused(world: World) -> None:
    world.submit(an_order(correlation_id="a"))
    world.add("report", {}, correlation_id="a")
    assert "exists already" in ask(world, "POST", "", {"jobs": jobs("a")}, 409)["title"]
