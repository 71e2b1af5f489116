"""Who may do what in the database: the service role everything, the web roles of Supabase nothing."""

import re

import psycopg
import pytest

from lib.job import Complete, Error
from tests.support.factory import World, done

FUNCTIONS = """
    select p.proname as name, p.oid::regprocedure::text as signature, p.prosecdef, p.provolatile::text as volatility,
           p.proconfig, p.prosrc, p.proretset as many, p.prorettype::regtype::text as returns
      from pg_proc p where p.pronamespace = 'public'::regnamespace
     order by 2
"""

TABLES_THAT = """
    select c.relname as name, c.relrowsecurity as rls,
           (select count(*) from pg_policy where polrelid = c.oid) as policies
      from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'm', 'p', 'f') and
"""

WRITES = re.compile(r"\b(insert\s+into|update\s+public|delete\s+from|for\s+update|pg_advisory)", re.IGNORECASE)


@pytest.fixture
def service(owner: World) -> World:
    owner.run("set role service_role")
    return owner


def test_there_is_something_to_guard(owner: World) -> None:
    assert len(owner.rows(FUNCTIONS)) > 30
    assert len(owner.rows(f"{TABLES_THAT} true")) > 10


@pytest.mark.parametrize("role", ["anon", "authenticated", "public"])
def test_a_web_role_may_touch_no_table(owner: World, role: str) -> None:
    assert open_tables(owner, role) == []
    may = "has_sequence_privilege(%s, format('public.%%I', sequencename), 'usage, select, update')"
    assert owner.rows(f"select sequencename from pg_sequences where {may}", role) == []


def open_tables(owner: World, role: str) -> list[str]:
    may = "select, insert, update, delete, truncate, references, trigger"
    return [table["name"] for table in owner.rows(f"{TABLES_THAT} has_table_privilege(%s, c.oid, %s)", role, may)]


@pytest.mark.parametrize("role", ["anon", "authenticated", "public"])
def test_a_web_role_may_call_no_function(owner: World, role: str) -> None:
    assert open_functions(owner, role) == []


def open_functions(owner: World, role: str) -> list[str]:
    functions = "select p.proname as name from pg_proc p where p.pronamespace = 'public'::regnamespace"
    return [f["name"] for f in owner.rows(f"{functions} and has_function_privilege(%s, p.oid, 'execute')", role)]


@pytest.mark.parametrize("role", ["anon", "authenticated"])
@pytest.mark.parametrize(
    "statement",
    [
        "select * from giftcard_jobs",
        "insert into giftcard_jobs (correlation_id, stage) values ('a', 'email')",
        "select * from giftcard_cards",
        "select giftcard_enqueue('[]')",
        "select giftcard_schema_version()",
        "select * from giftcard_stuck_jobs()",
    ],
)
def test_a_web_role_is_refused(owner: World, role: str, statement: str) -> None:
    owner.run(f"set role {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owner.run(statement)


def test_every_table_has_row_security_and_no_policy(owner: World) -> None:
    assert unguarded_tables(owner) == []


def unguarded_tables(owner: World) -> list[str]:
    return [table["name"] for table in owner.rows(f"{TABLES_THAT} true") if not table["rls"] or table["policies"]]


def test_row_security_hides_every_row_from_a_role_that_was_granted_a_table_by_mistake(owner: World) -> None:
    owner.enqueue()
    owner.run("grant select on giftcard_jobs to anon")
    owner.run("set role anon")
    assert owner.rows("select * from giftcard_jobs") == []


def test_every_function_runs_as_its_caller_with_an_empty_search_path(owner: World) -> None:
    assert unsafe_functions(owner) == []


def unsafe_functions(owner: World) -> list[str]:
    functions = owner.rows(FUNCTIONS)
    return [f["name"] for f in functions if f["prosecdef"] or 'search_path=""' not in (f["proconfig"] or [])]


def test_whoever_adds_something_open_is_found_out(owner: World) -> None:
    """Each of the checks above sees what it is for. Supabase's default grants open what is new to its web roles."""
    owner.run("create table public.new_table (id integer)")
    assert (open_tables(owner, "anon"), unguarded_tables(owner)) == (["new_table"], ["new_table"])
    owner.run("alter table public.new_table enable row level security")
    owner.run("create policy all_of_it on public.new_table using (true)")
    assert unguarded_tables(owner) == ["new_table"]
    body = "returns integer language sql as 'select 1'"
    owner.run(f"create function public.new_function() {body}")
    assert [open_functions(owner, role) for role in ("anon", "authenticated", "public")] == [["new_function"]] * 3
    assert unsafe_functions(owner) == ["new_function"]
    owner.run("alter function public.new_function() set search_path = pg_catalog")
    assert unsafe_functions(owner) == ["new_function"]
    owner.run("alter function public.new_function() set search_path = ''")
    assert unsafe_functions(owner) == []
    owner.run("alter function public.new_function() security definer")
    assert unsafe_functions(owner) == ["new_function"]


def test_every_function_that_writes_says_so(owner: World) -> None:
    """PostgREST runs what is not volatile in a read-only transaction. Whoever calls one that writes, writes."""
    functions = [f for f in owner.rows(FUNCTIONS) if f["returns"] != "trigger"]
    writing = {f["name"] for f in functions if WRITES.search(f["prosrc"])}
    while True:
        called = re.compile(rf"public\.({'|'.join(sorted(writing))})\(")
        more = {f["name"] for f in functions if called.search(f["prosrc"])} - writing
        if not more:
            break
        writing |= more
    assert {"giftcard_enqueue", "giftcard_begin_tick", "giftcard_requeue"} <= writing
    assert [f["signature"] for f in functions if f["name"] in writing and f["volatility"] != "v"] == []


def test_every_set_of_rows_has_an_order_and_a_limit(owner: World) -> None:
    """PostgREST cuts what has none at 1,000 rows. The heads of the queues are for other functions only."""
    sets = {f["name"]: f["prosrc"] for f in owner.rows(FUNCTIONS) if f["many"]}
    assert sets.pop("giftcard_queue_heads")
    assert "giftcard_stuck_jobs" in sets
    assert [
        name for name, source in sets.items() if not re.search(r"order by [^()]* limit [^;]*(;\s*end\s*)?$", source)
    ] == []


def test_the_service_role_does_all_of_it(service: World) -> None:
    service.enqueue("payment", delay_seconds=99)
    job_id = service.enqueue()
    tick = service.begin(limit=1, execution_id="e1", only_stage="email")
    effect = service.call("begin_effect", job_id=job_id, lease_id=tick.jobs[0].lease_id, name="send")
    service.call("finish_effect", vendor_key=effect["vendor_key"], result={"a": 1})
    tick.advance(done(tick.jobs[0], Error(error="down", counts=True), trips=1), limit=1)
    assert service.circuit("email")["state"] == "open"
    service.call("reset_circuit", circuit="email")
    service.call("requeue", job_id=job_id)
    assert service.settle(service.claim_one(job_id), Complete())["settled"] == "settled"
    service.call("cancel", job_id=service.enqueue())
    service.call("pause", stage="email", by="kate")
    service.call("resume", stage="email", by="kate")
    service.call("requeue_dead_letters", dry_run=False)
    assert service.call("status", stages={})["counts"]["email"]["completed"] == 1
    assert service.rows("select * from giftcard_stuck_jobs()") == []


def test_the_service_role_may_not_choose_what_a_settle_calls(service: World) -> None:
    assert service.rows("select * from giftcard_settle_functions") == []
    may = "has_table_privilege('giftcard_settle_functions', 'insert, update, delete, truncate')"
    assert service.rows(f"select {may} as may") == [{"may": False}]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        service.run("insert into giftcard_settle_functions values ('shop.mark_paid')")


def test_the_service_role_takes_an_order_all_the_way(service: World) -> None:
    flow = {"tenant_id": "default", "correlation_id": "order-7"}
    money = {"provider": "ledger", "amount": 2500, "currency": "USD"}
    service.call("submit_order", **flow, body_hash="b", payload={"amount": {"amount": 2500, "currency": "USD"}})
    who = {"external_id": "C-1", "email": "kate@example.org", "given_name": "Kate", "family_name": None}
    one = service.call("save_customer", tenant_id="default", **who)["id"]
    service.call("assign_code", customer_id=one, candidates=("KATE0001",))
    service.call("record_payment", **flow, **money, idempotency_key="k")
    card = {"number_encrypted": "x", "number_hash": "x", "last4": "4242", "provider_ref": "x"}
    service.call("record_card", **flow, **money, **card)
    assert service.ask("flow", **flow)["card"]["last4"] == "4242"


def test_a_plain_insert_and_the_update_by_hand_are_open_to_the_service_role(service: World) -> None:
    service.run("insert into giftcard_jobs (correlation_id, stage) values ('a', 'email')")
    (job,) = service.claim()
    service.by_hand(job.id)
    assert service.settle(job, Complete())["settled"] == "lease_lost"
