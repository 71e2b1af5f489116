"""Runs that end with a call: what their stage's policy, inline mode and an unavailable database make of it."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.errors import PermanentError, Unavailable
from lib.job import Call, Complete, NextJob
from lib.jobs import hooks
from lib.store.postgres import PostgresWire
from lib.tick.inline import InlineStore
from tests.support.world import World, a_world

Make = Callable[..., World]

SHOP = """
    create table public.paid (flow text primary key);
    create function public.pay(p_arguments jsonb) returns void language plpgsql as $$
    begin
      insert into public.paid values (p_arguments ->> 'flow');
      if p_arguments ? 'code' then
        raise exception 'no' using errcode = p_arguments ->> 'code';
      end if;
      perform pg_sleep(coalesce((p_arguments ->> 'sleep')::float8, 0));
    end $$;
    insert into public.giftcard_settle_functions values ('pay')
"""


def pay(payload: Any, context: Any) -> Complete:
    arguments = payload.model_dump()
    call = Call(arguments.pop("function", "pay"), {"flow": context.job.correlation_id} | arguments)
    return Complete(then=call, next=(NextJob(stage="after", payload={}),))


def after(payload: Any, context: Any) -> Complete:
    return Complete()


HANDLERS = {"pay": pay, "after": after}


@pytest.fixture
def shop(make_world: Make) -> World:
    world = make_world(handlers=HANDLERS, GIFTCARD_CONCURRENCY=4)
    world.sql(SHOP)
    return world


def paid(world: World) -> int:
    count: int = world.value("select count(*) from paid")
    return count


def test_the_report_counts_the_call_and_the_circuit_its_success(shop: World) -> None:
    job = shop.run_job("pay")
    assert (job["status"], paid(shop)) == ("completed", 1)
    report = shop.run()
    assert (report.completed, report.lease_lost, shop.statuses()) == (1, 0, {"completed": 2})


def test_a_job_without_a_call_has_no_call_more(shop: World) -> None:
    shop.add("after")
    assert shop.run().calls == 2
    shop.add("pay")
    assert shop.run(limit=1).calls == 3


@pytest.mark.parametrize("code", ["GC409", "23514", "P0001", "42501", "XX000"])
def test_a_refusal_is_no_failure_of_the_circuit_and_is_not_revived(shop: World, code: str) -> None:
    for _ in range(4):
        job = shop.run_job("pay", {"code": code})
        assert (job["status"], job["revive_at"], job["attempts"]) == ("error", None, 1)
        assert job["last_error"] == f"PermanentError: pay refused: no (SQLSTATE {code})"
    assert (paid(shop), shop.sql("select * from giftcard_circuits")) == (0, [])
    assert shop.statuses() == {"error": 4}


def test_a_function_that_was_dropped_is_refused_and_works_again_once_it_is_back(shop: World) -> None:
    shop.sql("alter function pay rename to pay_later")
    job = shop.run_job("pay")
    assert (job["status"], "the database has no function of this name" in job["last_error"]) == ("error", True)
    shop.sql("alter function pay_later rename to pay")
    shop.requeue(job["id"])
    shop.drain()
    assert (shop.job(job["id"])["status"], paid(shop)) == ("completed", 1)


def test_a_time_out_is_retried_by_the_policy_and_never_revives_an_at_most_once_job(shop: World) -> None:
    job = shop.run_job("pay", {"sleep": 60}, semantics="at_most_once")
    assert (job["status"], job["revive_at"], job["attempts"]) == ("error", None, 1)
    assert "canceling statement due to statement timeout (SQLSTATE 57014)" in job["last_error"]
    again = shop.run_job("pay", {"sleep": 60}, max_attempts=1)
    assert (again["status"], again["revive_at"] is not None) == ("error", True)
    assert (paid(shop), shop.sql("select * from giftcard_circuits")) == (0, [])


def test_another_transaction_in_the_way_does_not_cost_the_run(shop: World) -> None:
    """Its lock is gone at the second try or a later one."""
    with psycopg.connect(shop.url) as other:
        other.execute("lock table paid")
        ends = threading.Timer(1.5, other.rollback)
        ends.start()
        job = shop.run_job("pay")
        ends.join()
    assert (job["status"], job["attempts"], paid(shop)) == ("completed", 1, 1)


def test_what_stays_in_the_way_is_a_failure_of_that_run_alone(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.tick.settle_calls._PAUSES", (0.01, 0.02, 0.02))
    stuck, well = shop.add("pay", {"code": "53200"}), shop.add("pay")
    shop.run(limit=2)
    assert (shop.job(stuck)["status"], shop.job(well)["status"]) == ("queued", "completed")
    assert shop.job(stuck)["last_error"] == "TransientError: pay did not return: no (SQLSTATE 53200)"
    assert (paid(shop), shop.sql("select * from giftcard_circuits where failures > 0")) == (1, [])


@pytest.mark.parametrize("then", ["pay", {"function": "pay"}, Call("pay", {"not": {1, 2}}), Call(7)])  # type: ignore[arg-type]
def test_a_call_that_is_none_is_the_handlers_mistake(make_world: Make, then: Any) -> None:
    world = make_world(handlers={"pay": lambda payload, context: Complete(then=then)})
    job = world.run_job("pay")
    assert job["status"] == "error"
    assert job["last_error"].startswith(("PermanentError: its result cannot be stored", "PermanentError: 7 refused"))


class _Away(PostgresWire):
    """Loses its first calls of a settle with a call, and the answers of the next ones."""

    before, behind = 4, 1

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if function != "giftcard_settle_with_call":
            return super().call(function, repeat=repeat, **arguments)
        if self.before:
            self.before -= 1
            raise self.lost()
        answer = super().call(function, repeat=repeat, **arguments)
        if self.behind:
            self.behind -= 1
            raise self.lost()
        return answer

    @staticmethod
    def lost() -> Exception:
        return Unavailable("the database cannot be reached")


def test_an_outage_is_waited_for_and_the_function_called_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lib.tick.settle_calls._PAUSES", (0.01, 0.01))
    with a_world(database_url, wire=_Away(database_url), handlers=HANDLERS) as world:
        world.sql(SHOP)
        job = world.run_job("pay")
        assert (job["status"], job["attempts"], paid(world)) == ("completed", 1, 1)


def test_a_hook_decides_about_a_refusal_too(shop: World) -> None:
    def again(run: hooks.FailedRun) -> None:
        run.retry, run.delay = "refused" in str(run.error), 7

    with hooks.after_error.connected_to(again):
        job = shop.run_job("pay", {"code": "P0001"})
    assert (job["status"], job["attempts"]) == ("queued", 1)


def test_inline_mode_calls_it_and_raises_a_refusal_in_the_caller(make_world: Make) -> None:
    world = make_world(handlers=HANDLERS, GIFTCARD_INLINE=1)
    world.sql(SHOP)
    store = InlineStore.over(world.store, lambda: world.registry, world.settings)
    (good,) = store.enqueue([{"stage": "pay", "correlation_id": "good", "payload": {}}])
    assert (good["status"], paid(world), world.statuses()) == ("completed", 1, {"completed": 2})
    with pytest.raises(PermanentError, match=r"pay refused: no \(SQLSTATE P0001\)"):
        store.enqueue([{"stage": "pay", "correlation_id": "bad", "payload": {"code": "P0001"}}])
    assert (paid(world), world.statuses()) == (1, {"completed": 2, "error": 1})
