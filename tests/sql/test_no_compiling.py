"""Nothing that is called often is compiled (JIT): that costs 60 ms, and saves nothing.

Before PostgreSQL 18 a forbidden scan costs so much on paper that each plan with one in it would be. On 18 and later
this holds by itself.
"""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Error
from tests.support.factory import STAGES, World, done, each

CALLS: dict[str, Callable[[World], Any]] = {
    "an idle tick": lambda world: world.begin(),
    "a tick with jobs": lambda world: a_tick(world),
    "status": lambda world: world.call("status", stages=STAGES),
    "stuck": lambda world: world.call("stuck", stages=STAGES),
    "errors": lambda world: world.call("errors", since="2020-01-01Z"),
    "doctor": lambda world: world.call("doctor", stages=STAGES),
    "metrics": lambda world: world.call("metrics"),
    "alerts": lambda world: world.call("check_alerts", stages=STAGES),
}


def a_tick(world: World) -> None:
    each(world.enqueue, 10)
    tick = world.begin(limit=4)
    failed, *others = tick.jobs
    results = [done(failed, Error(error="TransientError: no", counts=True), trips=1), *map(done, others)]
    tick.advance(*results, limit=4)
    tick.advance(limit=0)


@pytest.mark.parametrize("what", CALLS)
def test_nothing_is_compiled(world: World, what: str) -> None:
    plans: list[str] = []

    def heard(notice: psycopg.errors.Diagnostic) -> None:
        plans.append(notice.message_primary or "")

    world.run("load 'auto_explain'")
    for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on", "log_timing = off"):
        world.run(f"set auto_explain.{setting}")
    world.connection.add_notice_handler(heard)
    world.run("set client_min_messages = log")
    CALLS[what](world)
    assert any("giftcard_" in plan for plan in plans), "plans are told"
    compiled = [re.sub(r"\s+", " ", plan)[:200] for plan in plans if "JIT:" in plan]
    assert compiled == []
