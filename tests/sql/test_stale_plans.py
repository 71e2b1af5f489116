"""A plan made while a table was tiny must not become a sequential scan when it has grown and nobody has analyzed it."""

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, NextJob, Release, Retry, Snooze
from tests.support import books
from tests.support.factory import World, done

pytestmark = pytest.mark.slow

# A connection keeps a plan after at most this many calls (five custom ones, then the generic one).
OFTEN = 8

# Tables that grow with the business; the others have a row a stage or a circuit.
TABLES = ("jobs", "job_history", "ticks", "orders", "customers", "payments", "payment_events", "cards", "effects")

GROW = {
    "jobs": """
        insert into giftcard_jobs (correlation_id, stage, circuit, status, run_no, finished_at, revive_at)
        select 'old-' || to_char(n, 'FM000000'), 'parked', 'parked',
               (array['completed', 'error', 'queued'])[1 + n %% 3], 1, now(),
               case when n %% 3 = 1 then timestamptz '2040-01-01' end
          from generate_series(1, %(n)s) n""",
    "job_history": """
        insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
        select 1000000 + n, 1, 1, 'email', 'SUCCESS', now(), now(), now() from generate_series(1, %(n)s / 4) n""",
    "ticks": """
        insert into giftcard_ticks (key, source, owner, started_at, live_until, ended_at, stages)
        select gen_random_uuid(), 'cron', 'w', now(), now(), now(), '{}' from generate_series(1, %(n)s / 10) n""",
    "orders": """
        insert into giftcard_orders (correlation_id, idempotency_key, body_hash, amount, currency, created_at)
        select 'old-' || n, 'old-' || n, 'x', 1, 'USD', now() from generate_series(1, %(n)s / 10) n""",
    "customers": """
        insert into giftcard_customers (external_id, email, given_name, personal_code, created_at, updated_at)
        select case when n %% 2 = 0 then n::text end, n || '@example.org', 'Kate', 'OLD' || to_char(n, 'FM000000'),
               now(), now()
          from generate_series(1, %(n)s / 10) n""",
    "payments": """
        insert into giftcard_payments (tenant_id, correlation_id, named_order, idempotency_key, provider, provider_ref,
                                       amount, currency, worth, created_at)
        select 'default', 'old-' || n, 'old-' || n, 'old-' || n, 'ledger', 'old-' || n, 1, 'USD', 1, now()
          from generate_series(1, %(n)s / 10) n""",
    "payment_events": """
        insert into giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
        select tenant_id, provider, provider_ref, id, 'captured', 1, now()
          from giftcard_payments where provider_ref like 'old-%%'""",
    "cards": """
        insert into giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref, number_encrypted,
          number_hash, last4, amount, balance, currency, created_at)
        select tenant_id, correlation_id, id, 'ledger', provider_ref, 'x', provider_ref, '0000', 1, 1, 'USD', now()
          from giftcard_payments where provider_ref like 'old-%%'""",
    "effects": """
        insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key)
        select 'default', 'old-' || n, 'payment', '', 'charge', 'old-' || n from generate_series(1, %(n)s / 10) n""",
}


def unique() -> str:
    return uuid.uuid4().hex


def order(world: World, *, key: str | None = None) -> str:
    flow = unique()
    payload = {"amount": {"amount": 2500, "currency": "USD"}, "customer": {"given_name": "Kate"}}
    for _ in range(2):
        world.call(
            "submit_order",
            tenant_id="default",
            correlation_id=flow,
            body_hash="x",
            payload=payload,
            idempotency_key=key,
        )
    return flow


def customer(world: World, external_id: str | None) -> int:
    email = f"{unique()}@example.org"
    saved = world.call(
        "save_customer", tenant_id="default", external_id=external_id, email=email, given_name="Kate", family_name=None
    )
    customer_id: int = saved["id"]
    return customer_id


def claim_and_settle(world: World) -> None:
    for outcome in (
        Complete(next=(NextJob(stage="payment"),)),
        Retry(delay=9, error="x"),
        Error(error="x"),
        Snooze(delay=9, waiting_for="x"),
        Release(),
    ):
        world.enqueue()
        tick = world.begin(limit=1, only_stage="email")
        (job,) = tick.jobs
        result = done(job, outcome, trips=1000 if isinstance(outcome, Retry) else None)
        tick.advance(result, limit=1)
        tick.advance(result, busy=1)
        world.begin(limit=1, key=tick.key)


def take_over(world: World) -> None:
    job = world.claimed()
    world.run("update giftcard_jobs set lease_expires_at = '2035-01-01' where id = %s", job.id)
    (job,) = world.take_over()
    world.settle(job, Error(error="Interrupted"))


def effect(world: World) -> None:
    job = world.claimed("payment")
    for name in ("charge", "other"):
        begun = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name=name)
        world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name=name)
        if name == "charge":
            world.call("finish_effect", vendor_key=begun["vendor_key"], result={"reference": "x"})
    world.ask("decide_effect", job_id=job.id, name="other", happened=False)
    world.settle(job, Complete())


def paid(world: World) -> str:
    flow = order(world)
    payment = books.pay(world, flow, idempotency_key=unique())
    world.ask("find_payment", idempotency_key=unique())
    for _ in range(2):
        books.issue(world, flow)
    name = {"tenant_id": "default", "correlation_id": flow}
    world.ask("books", **name)
    event = {"kind": "refunded", "amount": 5, "by": "kate", "provider_ref": payment["reference"]}
    for event_id in (unique(), unique()):
        world.call("record_order_event", **name, **event, event_id=event_id)
    world.call("request_block", **name, by="kate")
    world.call("block_card", **name, balance=0)
    world.call("accept_difference", kind="refunded_after_issue", item=f"default {flow}", tenant_id="default",
               by="kate", reason="x")  # fmt: skip
    world.call("cancel_flow", **name)
    return flow


def decided(world: World) -> None:
    flow = {"tenant_id": "default", "correlation_id": order(world)}
    world.call("correct_recipient", **flow, customer={"given_name": "Eve"}, by="kate")
    world.call("make_free_of_charge", **flow, by="kate", reason="x")


def code(world: World) -> None:
    candidates = tuple(f"KATE{int(unique(), 16) % 10_000:04}" for _ in range(5))
    world.call("assign_code", customer_id=customer(world, unique()), candidates=candidates)
    customer(world, None)


WORK: dict[str, Callable[[World], Any]] = {
    "claim and settle": claim_and_settle,
    "take over": take_over,
    "revive": lambda w: (w.dead_letter(revive=0), w.call("revive")),
    "enqueue the same again": lambda w: [w.enqueue(correlation_id="same", delay_seconds=9**6) for _ in range(2)],
    "enqueue to replace": lambda w: w.call(
        "enqueue", jobs=[{"stage": "email", "correlation_id": w.job(w.cancelled())["correlation_id"]}], replace=True
    ),
    "cancel": lambda w: w.cancelled(),
    "requeue": lambda w: w.call("requeue", job_id=w.dead_letter(), payload={"n": 1}),
    "requeue dead letters": lambda w: w.call("requeue_dead_letters", limit=5),
    "effects": effect,
    "orders": lambda w: (order(w), order(w, key=unique())),
    "payments and cards": paid,
    "decisions": decided,
    "personal codes": code,
    "status": lambda w: w.call("status", stages={"email": 60}),
    "counts": lambda w: w.rows("select * from giftcard_counts()"),
    "stuck jobs": lambda w: w.rows("select * from giftcard_stuck_jobs(p_now => %s)", w.now),
    "many attempts": lambda w: w.rows("select * from giftcard_jobs_with_many_attempts()"),
    "differences": lambda w: w.rows("select * from giftcard_reconcile()"),
    "flow": lambda w: w.ask("flow", tenant_id="default", correlation_id=order(w)),
    "show a job": lambda w: (w.call("show_job", job_id=w.completed()), w.ask("history", job_id=1)),
    "list jobs": lambda w: w.call("list_jobs", filter={"status": "error"}),
    "requeue by filter": lambda w: w.call("requeue_jobs", filter={"stage": "email"}, dry_run=True),
    "cancel a flow": lambda w: w.call("cancel_flow", tenant_id="default", correlation_id=order(w)),
    "a second delivery": lambda w: [w.begin(limit=0, execution_id="e1") for _ in range(2)],
}


def scans(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Sequential scans of this transaction, by table."""
    query = "select relname, seq_scan from pg_stat_xact_user_tables where relname = any(%s)"
    return dict(connection.execute(query, [[f"giftcard_{table}" for table in TABLES]]).fetchall())


# What every tick does and everybody looks at; the others are tried on a smaller scale.
HOT = ("claim and settle", "take over", "revive", "status", "stuck jobs")


@pytest.mark.parametrize("name", WORK)
def test_no_table_is_scanned_after_it_grew_under_a_cached_plan(database_url: str, name: str) -> None:
    # The caller's own statements are planned each time: what is cached here are the plans inside the functions.
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as connection:
        world = World(connection)
        for table in TABLES:
            world.run(f"alter table giftcard_{table} set (autovacuum_enabled = off)")
        WORK[name](world)
        connection.execute("vacuum analyze")  # one page each: nothing is cheaper than reading all of it
        for _ in range(OFTEN):
            WORK[name](world)
        for statement in GROW.values():
            connection.execute(statement.encode(), {"n": 200_000 if name in HOT else 20_000})
        with connection.transaction():
            before = scans(connection)
            WORK[name](world)
            after = scans(connection)
    assert {table: n - before.get(table, 0) for table, n in after.items() if n > before.get(table, 0)} == {}
