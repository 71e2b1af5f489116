"""Whatever one row of any table holds, the rest goes on: values that Postgres stores, one row at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lib.job import Complete, Outcome
from tests.support.base import keep, restore, script
from tests.support.world import ADMIN, CRON, World, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]
METRICS = "metrics-token-of-tests"

TABLES = (
    *("giftcard_jobs", "giftcard_job_history", "giftcard_jobs_archive", "giftcard_circuits"),
    *("giftcard_circuit_changes", "giftcard_stages", "giftcard_ticks", "giftcard_maintenance_tasks"),
    *("giftcard_prune_cursors", "giftcard_effects", "giftcard_orders", "giftcard_customers", "giftcard_payments"),
    *("giftcard_cards", "giftcard_audit", "giftcard_schedules", "giftcard_reports", "giftcard_webhook_endpoints"),
    *("giftcard_inbound_events", "giftcard_counters", "giftcard_counter_watermarks", "giftcard_alerts"),
    *("giftcard_faulty_rows", "giftcard_payment_events", "giftcard_accepted_differences", "giftcard_operations"),
)
DEEP = "[" * 3_000 + "]" * 3_000
LONG_NUMBER = "9" * 5_000
VALUES: dict[str, tuple[str | None, ...]] = {
    "text": ("*", "a\x01{x}%s\n'\"", "é" * 100_000),
    "jsonb": ("null", "[1,null]", f'{{"n": {LONG_NUMBER}}}', f'{{"d": {DEEP}}}'),
    "timestamp with time zone": ("infinity", "-infinity", "294276-12-31"),
    "integer": ("-2147483648", "0", "2147483647", "1000000", "1000000000"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "double precision": ("NaN", "-Infinity", "1.7e308"),
    "boolean": ("true", "false"),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
    "interval": ("1 microsecond", "178000000 years"),
    "date": ("infinity", "5874897-12-31"),
    "ARRAY": ("{}", "{NULL}"),
}


# Rows of stage `good` are what has to go on; all others are planted in.
_BASE = """
insert into giftcard_jobs (id, correlation_id, stage, status, attempts, run_no, locked_at, lease_id, lease_expires_at,
                           lock_owner, revive_at, last_error, finished_at) values
  (1, 'good-1', 'good', 'queued', 0, 0, null, null, null, null, null, null, null),
  (2, 'good-2', 'good', 'running', 1, 1, now() - interval '5 min', gen_random_uuid(), now() - interval '4 min', 'w',
   null, null, null),
  (3, 'good-3', 'good', 'error', 5, 5, null, null, null, null, now() - interval '1 min', 'E: no',
   now() - interval '1 day'),
  (101, 'planted-1', 'other', 'queued', 1, 1, null, null, null, null, null, null, null),
  (102, 'planted-2', 'other', 'running', 1, 1, now() - interval '5 min', gen_random_uuid(), now() - interval '4 min',
   'w', null, null, null),
  (103, 'planted-3', 'other', 'error', 1, 1, null, null, null, null, now() - interval '1 min', 'E: no',
   now() - interval '1 day'),
  (104, 'planted-4', 'other', 'completed', 1, 1, null, null, null, null, null, null, now() - interval '60 days');
insert into giftcard_job_history (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
  values (101, 1, 1, 'other', 'FAILED', now(), now(), now() - interval '1 min');
insert into giftcard_jobs_archive
  select 999, 'default', 'old', 'other', '', now() - interval '400 days', to_jsonb(j)
    from giftcard_jobs j where id = 104;
insert into giftcard_circuits (circuit, state, failures, changed_at, open_until)
  values ('other', 'open', 0, now() - interval '1 hour', now() - interval '1 min');
insert into giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause)
  values ('other', 'closed', 'open', now() - interval '1 hour', 'three failures');
insert into giftcard_stages (stage, resumed_at) values ('other', now());
insert into giftcard_ticks (key, source, owner, started_at, live_until, ended_at, stopped_because, stages)
  values (gen_random_uuid(), 'cron', 'w', now() - interval '1 min', now(), now() - interval '50 s', 'drained', '{}');
insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key, started_at)
  values ('default', 'planted-1', 'other', '', 'charge', 'gc_1', now());
insert into giftcard_customers (email, given_name, external_id, created_at, updated_at)
  values ('kate@example.com', 'Kate', '1', now(), now());
insert into giftcard_audit (at, by, tenant_id, action, subject)
  values (now(), 'ann', 'default', 'free_of_charge', 'order planted-9');
insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at, free_of_charge)
  values ('planted-1', 'x', 2500, 'USD', now(), false), ('planted-9', 'x', 2500, 'USD', now(), true);
insert into giftcard_payments (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount, currency,
                               created_at)
  values ('default', 'planted-1', 'k', 'ledger', 'r', 2500, 'USD', now() - interval '1 hour');
insert into giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
  select 'default', 'ledger', 'captured:r', id, 'captured', 2500, now() - interval '1 hour' from giftcard_payments;
insert into giftcard_cards (tenant_id, correlation_id, provider, provider_ref, number_encrypted, number_hash, last4,
                            amount, balance, currency, created_at, free_of_charge)
  values ('default', 'planted-9', 'ledger', 'r', 'x', 'h', '1234', 2500, 2500, 'USD', now(), true);
insert into giftcard_accepted_differences values ('paid_twice', 'default', 'r', 1, 'ann', 'why', now());
insert into giftcard_schedules (id, schedule, stage, next_at) values
  (1, '* * * * *', 'good', date_trunc('minute', now())), (101, '* * * * *', 'other', now() - interval '1 s');
insert into giftcard_reports values ('default', '2026-01-01', now(), '{}');
insert into giftcard_webhook_endpoints (tenant_id, url, events, secret_encrypted, created_at, updated_at)
  values ('default', 'https://example.com/', '{job.completed}', 'x', now(), now());
insert into giftcard_inbound_events values
  ('square', 'e1', 'payment.updated', 'payment', 'default', 'planted-1', '{}', now());
insert into giftcard_audit (at, by, action, subject) values (now(), 'ann', 'reveal', 'job 1');
insert into giftcard_operations (action, filter, reason, created_by, total, capped, until_id, created_at)
  values ('cancel', '{"stage": "none"}', 'why', 'ann', 0, false, 200, now());
insert into giftcard_counters values ('runs', 'other', 'SUCCESS', 1);
insert into giftcard_alerts (condition, since, detail) values ('late:other', now(), '{}');
insert into giftcard_faulty_rows values ('job', '5', 'E', now() - interval '2 days', now() - interval '2 days', null);
select setval(oid::regclass, 10000) from pg_class where relkind = 'S' and relname like 'giftcard%';
"""


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def world(make_world: Make) -> World:
    """A world with a row in each table; `base` keeps a copy of all."""
    world = make_world(
        handlers={"good": good, "other": good},
        GIFTCARD_CONCURRENCY=20,
        GIFTCARD_JOBS_PER_CRON_RUN=100,
        GIFTCARD_METRICS_TOKEN=METRICS,
    )
    script(world, _BASE)
    # Only the owner of the database can still write such values there.
    script(world, "alter table giftcard_audit disable trigger giftcard_audit_is_append_only")
    keep(world)
    return world


def plants(world: World, table: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each hostile value in each column: a description, a statement for all rows, and one for each row.

    Rows that are good stay as they are.
    """
    columns = world.sql(
        "select attname as name, format_type(atttypid, null) as type, typtype = 'd' as is_domain, attnotnull as filled,"
        " format_type(coalesce(nullif(typbasetype, 0), atttypid), null) as base"
        " from pg_attribute join pg_type t on t.oid = atttypid"
        " where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum",
        table,
    )
    is_good = "id < 100" if table in ("giftcard_jobs", "giftcard_schedules") else "false"
    rows = world.value(f"select count(*) from {table} where not ({is_good})")
    for column in columns:
        values = VALUES["ARRAY"] if column["base"].endswith("[]") else VALUES.get(column["base"], ())
        for value in (*values, *([] if column["filled"] else [None])):
            literal = "null" if value is None else sql.Literal(value).as_string(None)
            update = f"update {table} set {column['name']} = {literal} where not ({is_good})"
            one = f"{update} and ctid = (select ctid from {table} where not ({is_good}) order by 1 offset %d limit 1)"
            name = f"{table}.{column['name']} = {(value or 'null')[:30]}"
            yield name, update, [one.replace("%d", str(number)) for number in range(rows)]


def planted(world: World, statement: str) -> bool:
    """Whether the value could be stored in the rows of the base."""
    restore(world)
    try:
        script(world, statement)
    except psycopg.DatabaseError:
        return False
    return True


def what_stopped(world: World, log: Log) -> list[str]:
    """Work that did not go on, in a tick and in what operators look at; and a row at fault that nobody names."""
    before = len(log())
    report = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    if report.status_code != 200:
        return [f"the tick: {report.text}"]
    jobs = {row["id"]: row for row in world.sql("select * from giftcard_jobs where stage = 'good'")}
    made = [job for job in jobs.values() if job["trigger_type"] == "schedule"]
    wrong = [f"job {number}: {jobs[number]}" for number in (1, 3) if jobs[number]["status"] != "completed"]
    wrong += [f"the interrupted run: {jobs[2]}"] if jobs[2]["last_error"] is None else []
    wrong += [f"the schedule: {made}"] if "completed" not in [job["status"] for job in made] else []
    looks = {"/api/status": ADMIN, "/api/health/deep": METRICS, "/api/metrics": METRICS}
    for path, token in looks.items():
        response = world.client.get(path, headers=bearer(token))
        if response.status_code not in (200, 503) or response.content_type == "application/problem+json":
            wrong.append(f"{path}: {response.text}")
        elif path == "/api/status" and "one_by_one" in [line["event"] for line in log()[before:]]:
            (line,) = [line for line in response.json["doctor"] if line["check"] == "rows"]
            wrong += [] if line["level"] == "yellow" else ["nobody names the row at fault"]
    return wrong


@pytest.mark.parametrize("table", TABLES)
def test_no_value_of_one_row_stops_the_rest(world: World, table: str, log: Log) -> None:
    restore(world)
    assert what_stopped(world, log) == []
    stopped = {}
    tried = 0
    restore(world)
    for description, everywhere, each in list(plants(world, table)):
        if planted(world, everywhere):
            tried += 1
            before = len(log())
            if wrong := what_stopped(world, log):
                stopped[description] = wrong
            # Work that goes on row by row because of one row would hide what another does to the rest.
            if len(each) == 1 or "one_by_one" not in [line["event"] for line in log()[before:]]:
                continue
        for number, statement in enumerate(each):
            if planted(world, statement):
                tried += 1
                if wrong := what_stopped(world, log):
                    stopped[f"{description} in row {number}"] = wrong
    assert tried > 0
    assert stopped == {}
