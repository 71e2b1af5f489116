"""Why a job waits that a limit holds back: which, who set it, and until when."""

import pytest

from tests.support.world import World
from tests.web.test_waiting import due, waits

LIMITS = {
    "stage_full": ("stage", "payment", "", "stage payment has 1 running, which is its limit"),
    "circuit_full": ("circuit", "payment", "", "circuit payment has 1 running, which is its limit"),
    "tenant_full": ("tenant", "payment", "default", "tenant default in stage payment has 1 running"),
    "key_busy": ("key", "kate", "default", "concurrency key kate has 1 running"),
}


@pytest.mark.parametrize("expected", LIMITS)
def test_job_held_back_by_a_limit_says_which_and_who_set_it(world: World, expected: str) -> None:
    kind, name, tenant_id, text = LIMITS[expected]
    world.sql(
        "insert into giftcard_limits (kind, name, tenant_id, runs, set_by, reason)"
        " values (%s, %s, %s, 1, 'ann', 'slow')",
        *(kind, name, tenant_id),
    )
    world.tick()
    running = world.add("payment", concurrency_key="kate")
    held = [running, world.add("payment", concurrency_key="kate")]
    taken = world.value("select giftcard_begin_tick(gen_random_uuid(), 'w', 't', '{\"payment\": 60}', 9, 60, 1)")
    (job_id,) = set(held) - {job[0] for job in taken["jobs"]}
    told = waits(world, job_id)["waiting_for"]
    assert (told["reason"], told["by"]) == (expected, "ann")
    assert told["text"].startswith(text)
    assert told["text"].endswith("(set by ann: slow)")


def test_limit_of_each_tenant_says_until_when(world: World) -> None:
    world.sql(
        "insert into giftcard_limits (kind, name, tenant_id, runs, set_by, until)"
        " values ('tenant', 'payment', '*', 0, 'ann', '2050-01-01T12:00:00Z')"
    )
    told = waits(world, due(world))["waiting_for"]
    assert (told["reason"], told["by"], told["until"][:4]) == ("tenant_full", "ann", "2050")
    assert told["text"].endswith("its limit is 0 runs (set by ann; until 2050-01-01 12:00:00Z)")


def test_key_without_a_limit_of_its_own_lets_one_run(world: World) -> None:
    due(world, concurrency_key="kate")
    world.value("select giftcard_begin_tick(gen_random_uuid(), 'w', 't', '{\"payment\": 60}', 9, 60, 1)")
    told = waits(world, world.add("payment", concurrency_key="kate"))["waiting_for"]
    assert (told["reason"], told["text"]) == ("key_busy", "concurrency key kate has 1 running, which is its limit")


def test_job_that_waits_for_a_rate_says_until_when(world: World) -> None:
    world.sql("insert into giftcard_limits (kind, name, per_second) values ('stage', 'payment', 0.001)")
    due(world)
    world.value("select giftcard_begin_tick(gen_random_uuid(), 'w', 't', '{\"payment\": 60}', 9, 60, 1)")
    told = waits(world, world.add("payment"))["waiting_for"]
    assert told["reason"] == "rate_limited"
    assert told["text"].startswith("stage payment may start 0.001 a second: the next at ")
    assert told["until"] > world.value("select to_json(now() + interval '10 minutes')")


def test_rate_that_lets_it_start_is_not_when_a_limit_of_runs_ends(world: World) -> None:
    """The first limit has a rate with starts left; what holds the job back is the second, which has an end."""
    world.sql("insert into giftcard_limits (kind, name, per_second) values ('stage', 'payment', 100)")
    due(world)
    world.sql(
        "insert into giftcard_limits (kind, name, runs, until) values ('circuit', 'payment', 0, '2050-01-01T12:00:00Z')"
    )
    world.sql("insert into giftcard_rates (key) values ('stage payment') on conflict do nothing")
    told = waits(world, world.add("payment"))["waiting_for"]
    assert (told["reason"], told["until"][:4]) == ("circuit_full", "2050")


def test_job_of_a_stage_whose_limit_is_0_says_so(world: World) -> None:
    world.sql("insert into giftcard_limits (kind, name, runs) values ('stage', 'payment', 0)")
    told = waits(world, due(world))["waiting_for"]
    assert (told["reason"], told["text"]) == ("stage_full", "stage payment starts nothing: its limit is 0 runs")
