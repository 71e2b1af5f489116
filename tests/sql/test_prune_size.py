"""Pruning at size: each step is short, however much waits and whatever lies in the way."""

import json
import uuid

import pytest

from tests.support.factory import Row, World

pytestmark = pytest.mark.slow

FINISHED = """
    insert into giftcard_jobs (correlation_id, stage, circuit, dedup_key, status, run_no, finished_at, updated_at)
    select %s || n / %s, 'email', 'email', n::text, 'completed', 1, ended, ended
      from generate_series(0, %s) n, lateral (select now() - interval '40 days') x(ended)
"""
RUNS = """
    insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
    select id, 1, 1, stage, 'SUCCESS', finished_at, finished_at, finished_at from giftcard_jobs
    on conflict do nothing
"""
STEP = "select giftcard_prune('30 days', '90 days', '35 days', p_limit => 1000, p_dry_run => false)"
# Beside other programs, on the slowest machine that tests run on.
SECONDS = 1.0


def step(world: World) -> Row:
    """One step: what it answers, its `seconds`, and the `pages` that it touched."""
    (row,) = world.rows(f"explain (analyze, buffers, verbose, format json) {STEP}")
    plan = row["QUERY PLAN"][0]
    pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return {"seconds": plan["Execution Time"] / 1000, "pages": pages}


def left(world: World) -> int:
    (row,) = world.rows("select count(*) as n from giftcard_jobs")
    return int(row["n"])


def test_a_hundred_thousand_jobs_and_their_runs_leave_in_a_hundred_short_steps(world: World) -> None:
    world.run(FINISHED, "flow-", 5, 99_999)
    world.run(RUNS)
    steps = [step(world) for _ in range(100)]
    assert left(world) == 0
    seconds = sorted(one["seconds"] for one in steps)
    assert seconds[len(seconds) // 2] < SECONDS
    # Nothing is read but what leaves, the next rows and their flows: as much for the last step as for the first.
    assert max(one["pages"] for one in steps) < 40_000
    assert world.rows("select count(*) as n from giftcard_job_history") == [{"n": 0}]
    assert world.rows("select count(*) as n from giftcard_jobs_archive") == [{"n": 100_000}]


def test_a_flow_of_fifty_thousand_jobs_is_asked_once_a_step(world: World) -> None:
    world.run(FINISHED, "report-", 50_000, 49_999)
    world.run(FINISHED, "flow-", 5, 999)
    world.enqueue(correlation_id="report-0", delay_seconds=9**9)
    steps = [step(world) for _ in range(52)]
    assert left(world) == 50_001
    assert sorted(one["seconds"] for one in steps)[len(steps) // 2] < SECONDS


def test_nothing_is_scanned_after_the_tables_grew_under_a_cached_plan(world: World) -> None:
    tables = ("jobs", "job_history", "jobs_archive", "payments")
    for table in tables:
        world.run(f"alter table giftcard_{table} set (autovacuum_enabled = off)")
    world.completed()
    world.run("vacuum analyze")  # a page each: nothing is cheaper than reading all of it
    for _ in range(8):
        world.run(STEP)
        world.ask("prune")
    world.run(FINISHED, "flow-", 5, 49_999)
    world.run(RUNS)
    world.run(
        "insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at)"
        " select 'flow-' || n, '', 1, 'USD', now() from generate_series(1, 20000) n"
    )
    world.run(
        "insert into giftcard_payments"
        " (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount, currency, card_id, created_at)"
        " select 'default', 'flow-' || n, n::text, 'ledger', n, 1, 'USD', n, now()"
        " from generate_series(1, 20000) n"
    )
    query = "select relname, seq_scan from pg_stat_xact_user_tables where relname = any(%s)"
    names = [f"giftcard_{table}" for table in tables]
    with world.connection.transaction():
        before = world.rows(query, names)
        world.run(STEP)
        world.ask("prune")
        (job,) = world.rows("select id from giftcard_jobs_archive order by id desc limit 1")
        world.call("restore_job", job_id=job["id"])
        world.call("show_job", job_id=job["id"] - 1)
        world.ask("flow", tenant_id="default", correlation_id="flow-3")
        assert world.rows(query, names) == before


def test_an_order_sent_again_finds_its_job_in_a_large_archive(world: World) -> None:
    order = {"tenant_id": "default", "body_hash": "x", "payload": {"amount": {"amount": 2500, "currency": "USD"}}}
    flow = uuid.uuid4().hex
    first = world.call("submit_order", correlation_id=flow, **order)
    world.run("update giftcard_jobs set status = 'completed', updated_at = now() - interval '40 days'")
    world.run(FINISHED, "flow-", 5, 19_999)
    while step(world) and left(world):
        pass
    call = "explain (analyze, buffers, format json) select giftcard_submit_order(%s, %s, %s, %s)"
    for _ in range(7):
        (row,) = world.rows(call, "default", flow, "x", json.dumps(order["payload"]))
    plan = row["QUERY PLAN"][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100
    assert world.call("submit_order", correlation_id=flow, **order)["job_id"] == first["job_id"]
