"""Equal errors are one group: `GET /api/v1/jobs/errors`."""

from typing import Any

import pytest

from tests.support.tenants import create_token
from tests.support.world import ADMIN, World, bearer


def errors(world: World, *, token: str = ADMIN, **query: Any) -> list[dict[str, Any]]:
    response = world.client.get("/api/v1/jobs/errors", headers=bearer(token), query_string=query)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json["errors"]
    return found


def dead(world: World, error: str | None, at: str, **columns: Any) -> int:
    return world.add("email", status="error", last_error=error, finished_at=at, **columns)


@pytest.fixture
def failed(world: World) -> list[int]:
    """Dead letters of two kinds, and a job that is retried."""
    ids = [
        dead(world, "TransientError: HTTP 500 from a.example.com", "2026-01-31T12:00:00Z"),
        dead(world, "TransientError: HTTP 500 from b.example.com:443", "2026-01-31T14:00:00Z", tenant_id="acme"),
        dead(world, "PermanentError: kate@example.com does not take 4111 1111 1111 1111", "2026-01-31T13:00:00Z"),
        world.add(
            "email", attempts=1, last_error="TransientError: HTTP 500 from 10.0.0.1", updated_at="2026-01-31T11:00:00Z"
        ),
    ]
    world.add("email", last_error="waits for payment", attempts=0)
    return ids


def test_errors_are_grouped_by_stage_and_kind(world: World, failed: list[int]) -> None:
    first, second = errors(world)
    assert (first["stage"], first["error"]) == ("email", "TransientError: HTTP 500 from [host]")
    assert (first["count"], first["dead"], first["retrying"], first["runs"], first["capped"]) == (3, 2, 1, None, False)
    assert (first["first_at"][:16], first["last_at"][:16]) == ("2026-01-31T11:00", "2026-01-31T14:00")
    assert (first["job_id"], first["last_error"]) == (failed[1], "TransientError: HTTP 500 from b.example.com:443")
    assert first["next"] == [
        f"flask jobs show {failed[1]}",
        "flask jobs requeue --stage email --error-kind 'TransientError: HTTP 500 from [host]' --dry-run",
    ]
    assert second["error"] == "PermanentError: [email] does not take [n] [n] [n] [n]"
    assert second["last_error"] == "PermanentError: [email] does not take [card …1111]"


def test_the_filter_of_a_group_finds_its_dead_letters(world: World, failed: list[int]) -> None:
    for group in errors(world):
        body = {"filter": {"stage": "email", "error_kind": group["error"]}, "dry_run": True}
        done = world.client.post("/api/v1/jobs/requeue", json=body, headers=bearer(ADMIN)).json
        assert done["matched"] == group["dead"]


def test_stage_tenant_and_time_limit_the_groups(world: World, failed: list[int]) -> None:
    assert errors(world, stage="payment") == []
    assert [group["count"] for group in errors(world, tenant_id="acme")] == [1]
    own = create_token(world, "acme", "jobs:read", tenant="acme")
    assert [group["job_id"] for group in errors(world, token=own)] == [failed[1]]
    late = errors(world, since="2026-01-31T13:00:00Z")
    assert [(group["count"], group["runs"]) for group in late] == [(1, 0), (1, 0)]


def test_since_counts_the_runs_that_have_failed(world: World) -> None:
    job_id = world.add("email", {"not": "an order"})
    for _ in range(3):
        world.tick()
        world.sql("update giftcard_jobs set status = 'queued', attempts = 0 where id = %s", job_id)
    world.tick()
    (group,) = errors(world, since="2020-01-01T00:00:00Z")
    assert (group["count"], group["runs"], group["job_id"]) == (1, 4, job_id)
    assert errors(world, since="2050-01-01T00:00:00Z") == []


def test_counts_are_bounded_and_say_so(world: World) -> None:
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, status, last_error, finished_at)"
        " select i, 'email', 'error', 'E: job ' || i, now() from generate_series(1, 1500) i"
    )
    (group,) = errors(world)
    assert (group["error"], group["count"], group["capped"]) == ("E: job [n]", 1000, True)
    world.sql("update giftcard_jobs set last_error = 'E: ' || translate(id::text, '0123456789', 'abcdefghij')")
    response = world.client.get("/api/v1/jobs/errors?limit=7", headers=bearer(ADMIN)).json
    assert (len(response["errors"]), response["more"]) == (7, True)


def test_an_error_without_a_text_is_a_kind(world: World) -> None:
    dead(world, None, "2026-01-31T12:00:00Z")
    (group,) = errors(world)
    assert (group["error"], group["last_error"]) == ("no error text", None)


def test_no_command_names_a_kind_that_is_masked(world: World) -> None:
    job_id = dead(world, "E: the token gct_abcdefgh is refused", "2026-01-31T12:00:00Z")
    (group,) = errors(world)
    assert "gct_abcdefgh" not in str(group)
    assert group["next"] == [f"flask jobs show {job_id}"]
