"""Functions of the shop that commit with the settle of a job, on each wire: refused, too slow, repeated."""

from collections.abc import Iterator
from typing import Any

import pytest

from lib.job import Call, Complete, NextJob
from lib.store.codec import Result
from lib.store.store import Store
from lib.store.supabase import SupabaseWire
from lib.store.wire import Wire
from tests.support import factory
from tests.support.world import World, a_world
from tests.wires.proxy import Proxy

SHOP = """
    create schema shop;
    create table shop.paid (order_id bigint primary key, amount integer not null check (amount > 0));
    create function shop.mark_paid(p_arguments jsonb) returns void language plpgsql set search_path = shop as $$
    begin
      insert into paid values ((p_arguments ->> 'order')::bigint, 1 - (p_arguments ? 'refused')::integer);
      if p_arguments ? 'sleep' then
        perform pg_sleep((p_arguments ->> 'sleep')::float8);
      end if;
      while p_arguments ? 'loop' loop
      end loop;
    end $$;
    create function shop.secret(p_arguments jsonb) returns void language sql as '';
    insert into public.giftcard_settle_functions values ('shop.mark_paid'), ('shop.secret');
    grant usage on schema shop to service_role;
    grant select, insert on shop.paid to service_role;
    revoke execute on function shop.secret from public
"""


def pays(payload: Any, context: Any) -> Complete:
    """The payload is the function's argument, or names another function."""
    arguments = payload.model_dump() | {"order": context.job.id}
    return Complete(then=Call(arguments.pop("function", "shop.mark_paid"), arguments), next=(NextJob(stage="after"),))


@pytest.fixture
def shop(wire: Wire, database_url: str, world: factory.World) -> Iterator[World]:
    world.run(SHOP)
    options = {"GIFTCARD_CONCURRENCY": 10, "GIFTCARD_JOBS_PER_CRON_RUN": 10}
    with a_world(database_url, wire=wire, handlers={"pay": pays}, **options) as shop:
        yield shop


def paid(shop: World) -> set[int]:
    return {row["order_id"] for row in shop.sql("select order_id from shop.paid")}


def test_a_refusal_in_the_middle_of_ten_is_an_error_of_that_job_alone(shop: World) -> None:
    ids = [shop.add("pay", {"refused": 1} if n == 4 else {}) for n in range(10)]
    report = shop.tick()
    assert (report["completed"], report["errored"], report["lease_lost"]) == (9, 1, 0)
    assert paid(shop) == {*ids} - {ids[4]}
    refused = shop.job(ids[4])
    assert (refused["status"], refused["revive_at"]) == ("error", None)
    assert refused["last_error"].startswith("PermanentError: shop.mark_paid refused: new row for relation")
    assert refused["last_error"].endswith("(SQLSTATE 23514)")
    (run,) = shop.history(ids[4])
    assert (run["result"], run["error"]) == ("FAILED", refused["last_error"])
    assert shop.value("select count(*) from giftcard_jobs where stage = 'after'") == 9
    (tick,) = shop.sql("select completed, errored, lease_lost from giftcard_ticks")
    assert tick == {"completed": 9, "errored": 1, "lease_lost": 0}


@pytest.mark.parametrize("stuck", [{"sleep": 60}, {"loop": True}])
def test_one_that_does_not_return_is_ended_and_retried_and_nothing_waits_for_it(
    shop: World, stuck: dict[str, Any]
) -> None:
    late = shop.add("pay", stuck)
    ids = shop.enqueue("pay", count=9)
    report = shop.tick()
    assert (report["completed"], report["retried"]) == (9, 1)
    assert paid(shop) == set(ids)
    job = shop.job(late)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].startswith("TransientError: shop.mark_paid did not return: canceling statement due to")
    (run,) = shop.history(late)
    others = "select max(finished_at) as at from giftcard_job_history where result = 'SUCCESS'"
    assert run["finished_at"] > shop.sql(others)[0]["at"]
    assert shop.store._wire.call("wire_setting", name="statement_timeout") in ("10s", "8s", "0")


def test_one_that_may_not_be_called_is_refused(shop: World) -> None:
    job_id = shop.add("pay", {"function": "shop.secret"})
    shop.tick()
    over_supabase = isinstance(shop.store._wire, SupabaseWire)  # the owner may call everything
    assert shop.job(job_id)["status"] == ("error" if over_supabase else "completed")
    if over_supabase:
        assert "permission denied for function secret (SQLSTATE 42501)" in shop.job(job_id)["last_error"]
        denied = {"name": "shop.secret", "problem": "denied"}
        assert denied in shop.store.doctor(stages={})["unusable_settle_functions"]


@pytest.mark.parametrize("cut", [1, 2])
def test_a_settle_whose_answer_is_lost_calls_the_function_once(
    line: tuple[Wire, Proxy], world: factory.World, cut: int
) -> None:
    wire, between = line
    world.run(SHOP)
    (tick,) = [world.begin(limit=1) for _ in [world.enqueue()]]
    (job,) = tick.step.jobs
    between.cut(cut)
    result = Result(job=job, outcome=Complete(then=Call("shop.mark_paid", {"order": job.id})))
    done = Store(wire).settle_with_call(tick.step.tick_id, result=result, cooldown_seconds=60)
    assert done.settled is not None
    assert (done.settled.settled, done.settled.status, between.cuts) == ("settled", "completed", cut)
    assert world.rows("select amount from shop.paid") == [{"amount": 1}]
    assert world.rows("select completed from giftcard_ticks") == [{"completed": 1}]
