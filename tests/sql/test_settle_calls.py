"""A stage's own rows commit with the settle of its job: the SQL of it. Time-outs: tests/wires."""

from typing import Any

import psycopg
import pytest

from lib.job import Call, Complete, Job, NextJob
from lib.store.codec import Result
from lib.store.encode import encode_result
from tests.support.factory import Row, World

SHOP = """
    create schema shop;
    create table shop.paid (order_id text primary key, amount integer check (amount > 0));
    create table shop.checked (order_id text references shop.paid deferrable initially deferred);
    create function shop.mark_paid(p_arguments jsonb) returns void language plpgsql set search_path = shop as $$
    begin
      insert into paid values (p_arguments ->> 'order', (p_arguments ->> 'amount')::integer);
    end $$;
    create function public.shop_plain(p_arguments jsonb) returns integer language sql set search_path = shop as
      'insert into paid values (''plain'', 1); select 7';
    insert into giftcard_settle_functions values ('shop.mark_paid'), ('shop_plain')
"""


@pytest.fixture
def shop(world: World) -> World:
    world.run(SHOP)
    return world


def settle(world: World, job: Job, call: Call, **more: Any) -> Row:
    """What the settle of a job with a call answers for it."""
    written = encode_result(Result(job=job, outcome=Complete(then=call, **more)))
    (tick,) = world.rows("select max(id) as id from giftcard_ticks")
    answer = world.call("settle_with_call", tick_id=tick["id"], result=written)
    (settled,) = answer["settled"]
    return dict(settled)


def mark(amount: Any = 5, order: str = "a") -> Call:
    return Call("shop.mark_paid", {"order": order, "amount": amount})


def paid(world: World) -> list[Row]:
    return world.rows("select * from shop.paid order by 1")


def test_it_is_called_and_the_job_is_settled(shop: World) -> None:
    job = shop.claimed()
    settled = settle(shop, job, mark(), next=(NextJob(stage="payment"),), context={"a": 1})
    assert settled == {"id": job.id, "settled": "settled", "status": "completed", "next_run_at": None}
    assert paid(shop) == [{"order_id": "a", "amount": 5}]
    assert (shop.job(job.id)["context"], [run["result"] for run in shop.history(job.id)]) == ({"a": 1}, ["SUCCESS"])
    assert shop.rows("select stage from giftcard_jobs where status = 'queued'") == [{"stage": "payment"}]
    assert shop.rows("select completed from giftcard_ticks order by id desc limit 1") == [{"completed": 1}]


def test_a_function_of_public_needs_no_schema(shop: World) -> None:
    assert settle(shop, shop.claimed(), Call("shop_plain"))["settled"] == "settled"
    assert paid(shop) == [{"order_id": "plain", "amount": 1}]


def test_a_settle_that_is_repeated_calls_nothing_again(shop: World) -> None:
    job = shop.claimed()
    assert [settle(shop, job, mark(order=order))["settled"] for order in "ab"] == ["settled", "settled"]
    assert [row["order_id"] for row in paid(shop)] == ["a"]
    assert shop.rows("select completed from giftcard_ticks order by id desc limit 1") == [{"completed": 1}]


def test_a_run_that_has_lost_its_lease_calls_nothing(shop: World) -> None:
    job = shop.interrupted()
    assert [taken.id for taken in shop.take_over()] == [job.id]
    assert settle(shop, job, mark())["settled"] == "lease_lost"
    assert paid(shop) == []


REFUSED = {
    "a check": (mark(-1), "23514", "violates check constraint"),
    "a value": (mark("many"), "22P02", "invalid input syntax for type integer"),
    "not in the list": (Call("shop.refund"), "GC404", "giftcard_settle_functions does not have it"),
    "one of ours": (Call("giftcard_pause"), "GC404", "giftcard_settle_functions does not have it"),
    "a name that is none": (Call("shop.mark_paid(null); select 1; --"), "GC404", "does not have it"),
    "dropped": (Call("shop.gone"), "GC404", "no function of this name with one argument, a jsonb"),
    "a procedure": (Call("shop.procedure"), "GC404", "no function of this name"),
    "commit": (Call("shop.commits"), "2D000", "invalid transaction termination"),
    "assert": (Call("shop.asserts"), "P0004", "assertion failed"),
    "its own code": (Call("shop.raises", {"code": "GC409"}), "GC409", "no, kate"),
    "another code of its own": (Call("shop.raises", {"code": "P0001"}), "P0001", "no, kate"),
    "another role": (Call("shop.becomes"), "GC409", "it leaves the role pg_monitor set"),
    "the row of its own job": (Call("shop.takes"), "GC409", "it changes the row of the job that calls it"),
    "a column of its own job": (Call("shop.hurries"), "GC409", "it changes the row of the job that calls it"),
    "a settle of its own job": (Call("shop.settles"), "GC409", "it changes the row of the job that calls it"),
    "a deferred constraint": (Call("shop.defers"), "23503", "violates foreign key constraint"),
}
ODD = """
    create procedure shop.procedure(p_arguments jsonb) language sql as 'select 1';
    create function shop.commits(p_arguments jsonb) returns void language plpgsql as 'begin commit; end';
    create function shop.asserts(p_arguments jsonb) returns void language plpgsql as 'begin assert false; end';
    create function shop.becomes(p_arguments jsonb) returns void language plpgsql as
      'begin set role pg_monitor; end';
    create function shop.takes(p_arguments jsonb) returns void language sql as
      'update public.giftcard_jobs set status = ''cancelled'', lease_id = null, lease_expires_at = null,
                                       finished_at = now()';
    create function shop.hurries(p_arguments jsonb) returns void language sql as
      'update public.giftcard_jobs set priority = 5';
    create function shop.settles(p_arguments jsonb) returns void language sql as
      'select public.giftcard_settle(jsonb_agg(
         jsonb_build_object(''id'', id, ''lease_id'', lease_id, ''outcome'', ''complete'')))
         from public.giftcard_jobs';
    create function shop.defers(p_arguments jsonb) returns void language sql as
      'insert into shop.checked values (''none'')';
    create function shop.raises(p_arguments jsonb) returns void language plpgsql as
      'begin raise exception ''no, % kate@example.com'', ''kate'' using errcode = p_arguments ->> ''code''; end';
    insert into giftcard_settle_functions select 'shop.' || name from unnest(
      '{gone,procedure,commits,asserts,becomes,takes,hurries,settles,defers,raises,pg_sleep}'::text[]) name
"""


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_changes_nothing(shop: World, why: str) -> None:
    shop.run(ODD)
    call, state, words = REFUSED[why]
    job = shop.claimed()
    before = shop.snapshot(job.id)
    settled = settle(shop, job, call, next=(NextJob(stage="payment"),))
    assert (settled["settled"], settled["kind"], settled["sqlstate"]) == ("called_off", "refused", state)
    assert words in settled["error"]
    assert "example.com" not in settled["error"]
    assert shop.snapshot(job.id) == before
    assert paid(shop) == shop.rows("select * from shop.checked") == []
    assert shop.rows("select current_user = session_user as same") == [{"same": True}]


@pytest.mark.parametrize("state", ["40001", "40P01", "53200", "53100", "57P03", "08006", "55P03"])
def test_what_is_not_its_own_fault_may_be_tried_again(shop: World, state: str) -> None:
    shop.run(ODD)
    settled = settle(shop, shop.claimed(), Call("shop.raises", {"code": state}))
    assert (settled["settled"], settled["kind"], settled["sqlstate"]) == ("called_off", "unavailable", state)


def test_a_lock_that_it_waits_for_is_given_up(shop: World, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("lock table shop.paid")
        settled = settle(shop, shop.claimed(), mark())
    assert (settled["kind"], settled["sqlstate"]) == ("unavailable", "55P03")


def test_the_doctor_knows_what_cannot_be_called(shop: World) -> None:
    shop.run(ODD)
    listed = shop.ask("unusable_settle_functions")
    assert [row["name"] for row in listed] == ["shop.gone", "shop.pg_sleep", "shop.procedure"]
    assert {row["problem"] for row in listed} == {"missing"}


@pytest.mark.parametrize("name", ["giftcard_pause", "public.giftcard_pause", "pg_sleep", "Shop", "a.b.c", "a b", "."])
def test_a_name_that_cannot_be_one_is_not_listed(world: World, name: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        world.run("insert into giftcard_settle_functions values (%s)", name)
