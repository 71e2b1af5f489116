"""Lists end where an answer would be too long, say so, and go on from there: no row is left out, none comes twice."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Job, Snooze
from lib.store.codec import Result
from lib.store.encode import encode_result
from tests.support.hostile_rows import limits, long_acts, long_batches, long_operations, long_tokens
from tests.support.openapi_document import openapi_document, operations
from tests.support.world import ADMIN, World, bearer

MOST = 4_500_000


def get(world: World, path: str, **query: Any) -> Any:
    response = world.client.get(path, headers=bearer(ADMIN), query_string=query)
    assert response.status_code == 200, response.text[:500]
    assert len(response.data) < MOST
    return response.json


def walk(world: World, path: str, rows: str, **query: Any) -> list[Any]:
    """All rows of a list, page by page, as many pages as there are."""
    page = get(world, path, **query)
    found = list(page[rows])
    while page["older"] is not None:
        page = get(world, path, **query, older=page["older"])
        found += page[rows]
    return found


def jobs(world: World) -> list[int]:
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage, payload) select i, 'email', jsonb_build_object('t',"
        " repeat('ä€', 80000)) from generate_series(1, 23) i"
    )
    return list(range(23, 0, -1))


def archive(world: World) -> list[int]:
    world.sql(
        "insert into public.giftcard_jobs_archive select i, 'default', 'flow', 'email', i::text, now(),"
        " jsonb_build_object('status', 'completed', 'last_error', repeat('x', 300000)) from generate_series(1, 230) i"
    )
    return list(range(1, 231))


def schedules(world: World) -> list[int]:
    world.sql(
        "insert into public.giftcard_schedules (schedule, stage, payload, check_at) select '* * * * *', 'email',"
        " jsonb_build_object('t', repeat('x', 400000)), null from generate_series(1, 23) i"
    )
    return list(range(23, 0, -1))


def endpoints(world: World) -> list[int]:
    world.sql(
        "insert into public.giftcard_webhook_endpoints (tenant_id, url, events, enabled, disabled_reason,"
        " secret_encrypted, created_at, updated_at) select i, 'u', '{job.completed}', false, repeat('x', 300000), '',"
        " now(), now() from generate_series(1, 205) i"
    )
    return list(range(205, 0, -1))


def reports(world: World) -> list[str]:
    world.sql(
        "insert into public.giftcard_reports select i, '2026-01-01', now(), jsonb_build_object('totals',"
        " jsonb_build_object('orders', i), 'x', repeat('x', 100000)) from generate_series(100, 305) i"
    )
    return [str(number) for number in range(305, 99, -1)]


def circuits(world: World) -> list[str]:
    world.sql("insert into giftcard_circuits (circuit, failures) select 'c' || i, 1 from generate_series(100, 350) i")
    return [f"c{number}" for number in range(100, 351)]


def history(world: World) -> list[int]:
    world.sql(
        "insert into public.giftcard_jobs (id, correlation_id, stage) overriding system value values (1, 'c', 's')"
    )
    world.sql(
        "insert into public.giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
        " finished_at, detail) select 1, i, 1 + i %% 3, 's', 'FAILED', now(), now(), now(), jsonb_build_object('t',"
        " repeat('x', 4000)) from generate_series(1, 1200) i"
    )
    return list(range(1200, 0, -1))


def scheduled(world: World) -> list[tuple[int, int]]:
    """Jobs of two occurrences an hour, those with an even id in the archive; two runs each. Their runs."""
    (one, _) = (
        world.value(
            "insert into public.giftcard_schedules (schedule, stage) values ('* * * * *', 'email') returning id"
        )
        for _ in range(2)
    )
    ids = range(1, 31)
    for i in ids:
        columns = f"{i}, 'default', 'schedule:{one}:2026-01-{i:02}T00:00:00Z', 'email', ''"
        if i % 2:
            world.sql(
                "insert into public.giftcard_jobs (id, tenant_id, correlation_id, stage, dedup_key, trigger_type)"
                f" overriding system value values ({columns}, 'schedule')"
            )
        else:
            world.sql(
                f"insert into public.giftcard_jobs_archive values ({columns}, now(),"
                """ '{"trigger_type": "schedule", "status": "completed"}')"""
            )
    world.sql(
        "insert into public.giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at,"
        " finished_at, error) select i, n, n, 'email', 'FAILED', now(), now(), now(), 'E: kate@example.com'"
        " from generate_series(1, 30) i, generate_series(1, 2) n"
    )
    # Neither another schedule's jobs nor what follows in the same flow.
    world.enqueue("email", id=1001, correlation_id=f"schedule:{one}1:2026-01-01T00:00:00Z", trigger_type="schedule")
    world.enqueue("other", id=1002, correlation_id=f"schedule:{one}:2026-01-01T00:00:00Z", trigger_type="next")
    return [(i, n) for i in reversed(ids) for n in (2, 1)]


LISTS: dict[str, tuple[Callable[[World], list[Any]], str, str, Callable[[Any], Any]]] = {
    "/api/v1/jobs": (jobs, "/api/v1/jobs", "jobs", lambda row: row["id"]),
    "/api/v1/giftcards/{correlation_id}": (archive, "/api/v1/giftcards/flow", "jobs", lambda row: row["id"]),
    "/api/v1/schedules": (schedules, "/api/v1/schedules", "schedules", lambda row: row["id"]),
    "/api/v1/webhook-endpoints": (endpoints, "/api/v1/webhook-endpoints", "endpoints", lambda row: row["id"]),
    "/api/v1/reports": (reports, "/api/v1/reports", "reports", lambda row: row["tenant_id"]),
    "/api/v1/audit": (long_acts, "/api/v1/audit", "acts", lambda row: row["id"]),
    "/api/v1/tokens": (long_tokens, "/api/v1/tokens", "tokens", lambda row: row["id"]),
    "/api/v1/operations": (long_operations, "/api/v1/operations", "operations", lambda row: row["id"]),
    "/api/v1/batches": (long_batches, "/api/v1/batches", "batches", lambda row: row["id"]),
    "/api/v1/circuits": (circuits, "/api/v1/circuits", "circuits", lambda row: row["circuit"]),
    "/api/v1/limits": (limits, "/api/v1/limits", "limits", lambda row: (row["kind"], row["name"])),
    "/api/v1/jobs/{job_id}/history": (history, "/api/v1/jobs/1/history", "runs", lambda row: row["run_no"]),
    "/api/v1/schedules/{schedule_id}/history": (
        *(scheduled, "/api/v1/schedules/1/history", "runs"),
        lambda row: (row["job_id"], row["run_no"]),
    ),
    "/api/v1/schedules/{schedule_id}/occurrences": (
        *(lambda world: [i for i, run in scheduled(world) if i % 2 and run == 1], "/api/v1/schedules/1/occurrences"),
        *("occurrences", lambda row: row["id"]),
    ),
}


def test_every_list_of_the_document_is_walked() -> None:
    answers = openapi_document()["components"]["schemas"]
    lists = set()
    for path, method, operation in operations(openapi_document()):
        content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if method == "get" and "older" in answers.get(name, {}).get("properties", {}):
            lists.add(path)
            assert {"older", "limit"} <= {parameter["name"] for parameter in operation["parameters"]}, path
    assert lists == set(LISTS)


@pytest.mark.parametrize("name", LISTS)
def test_pages_are_bounded_and_together_they_are_the_list(world: World, name: str) -> None:
    fill, path, rows, key = LISTS[name]
    made = fill(world)
    found = [key(row) for row in walk(world, path, rows, limit=200)]
    assert (sorted(found) if rows == "jobs" and "giftcards" in path else found) == made
    few = get(world, path, limit=2)
    assert (len(few[rows]), few["older"] is None) == (2, False)


def test_pages_of_large_jobs_go_back_the_way_they_came(world: World) -> None:
    made = jobs(world)
    page, back = get(world, "/api/v1/jobs", older=2, limit=200), list[int]()
    while page["newer"] is not None:
        page = get(world, "/api/v1/jobs", newer=page["newer"], limit=200)
        back = [job["id"] for job in page["jobs"]] + back
    assert [*back, 1] == made


def test_a_job_of_three_megabytes_is_shown_and_a_larger_one_says_how_large_it_is(world: World) -> None:
    for size in (3_000_000, 5_000_000):
        world.sql(
            "insert into public.giftcard_jobs (correlation_id, stage, payload)"
            " select %s, 'email', jsonb_build_object('t', repeat('x', %s))", str(size), size
        )  # fmt: skip
    large, small = walk(world, "/api/v1/jobs", "jobs")
    assert len(small["payload"]["t"]) == 3_000_000
    assert large["payload"]["unreadable"] == "too large"
    assert large["payload"]["bytes"] > 5_000_000
    assert large["payload"]["text"].startswith('{"t": "xxx')


def test_runs_of_a_schedule_count_retries_from_0_and_mask_errors(world: World) -> None:
    scheduled(world)
    newest, first = get(world, "/api/v1/schedules/1/history", limit=2)["runs"]
    assert [(run["attempt"], run["retry_count"]) for run in (newest, first)] == [(2, 1), (1, 0)]
    assert (newest["time"], newest["error"], newest["status"]) == ("2026-01-30T00:00:00Z", "E: [email]", "FAILED")


def test_history_of_a_schedule_passes_over_jobs_without_runs_in_bounded_steps(world: World) -> None:
    scheduled(world)
    world.sql(
        "insert into public.giftcard_jobs (id, correlation_id, stage, trigger_type) select i, 'schedule:1:2027-' || i,"
        " 'email', 'schedule' from generate_series(2000, 4100) i"
    )
    page = get(world, "/api/v1/schedules/1/history", limit=1000)
    assert (page["runs"], page["older"] is None) == ([], False)
    assert len(walk(world, "/api/v1/schedules/1/history", "runs", limit=1000)) == 60


def test_status_names_the_lists_that_it_cuts(world: World) -> None:
    assert get(world, "/api/status")["truncated"] == []
    circuits(world)
    world.enqueue("email", status="error", count=21)
    world.sql(
        "insert into public.giftcard_stages (stage, paused_at) select 's' || i, now() from generate_series(1, 201) i"
    )
    world.sql(
        "insert into public.giftcard_jobs (correlation_id, stage) select i, 's' || i from generate_series(1, 201) i"
    )
    found = get(world, "/api/status")
    assert sorted(found["truncated"]) == ["circuits", "dead_letters", "paused", "queues"]
    assert [len(found[name]) for name in ("circuits", "dead_letters", "paused", "queues")] == [200, 20, 200, 200]


@pytest.mark.parametrize("payload", ['{"n": 1.10}', '{"n": %s}' % ("9" * 5000)])
def test_an_update_of_a_schedule_keeps_an_odd_payload(make_world: Callable[..., World], payload: str) -> None:
    world = make_world(handlers={"work": lambda payload, context: Complete()})
    world.sql("alter table public.giftcard_schedules disable trigger user")
    insert = "insert into public.giftcard_schedules (schedule, stage, payload) values ('* * * * *', 'work', %s::jsonb)"
    world.sql(insert, payload)
    world.sql("alter table public.giftcard_schedules enable trigger user")
    response = world.client.patch("/api/v1/schedules/1", json={"name": "other"}, headers=bearer(ADMIN))
    assert (response.status_code, response.json["name"]) == (200, "other")
    assert world.value("select payload::text from public.giftcard_schedules") == payload


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/schedules"])
def test_a_long_number_is_refused_with_its_field(world: World, path: str) -> None:
    body = '{"stage": "email", "correlation_id": "c", "schedule": "* * * * *", "payload": {"n": [%s]}}' % ("9" * 400)
    response = world.client.post(path, data=body, content_type="application/json", headers=bearer(ADMIN))
    assert (response.status_code, response.json["field"]) == (400, "payload.n.0")


def test_a_snooze_keeps_an_error_within_its_limit() -> None:
    job = Job.__new__(Job)
    object.__setattr__(job, "id", 1)
    object.__setattr__(job, "lease_id", None)
    object.__setattr__(job, "interrupted", False)
    assert len(encode_result(Result(job=job, outcome=Snooze(delay=1, waiting_for="x" * 500)))["error"]) == 500
