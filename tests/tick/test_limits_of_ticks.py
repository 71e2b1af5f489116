"""What a tick brings to the database: limits of its stages, weights of tenants; and the Retry-After of its failures."""

import json
from typing import Any

import pytest

from lib.cli import jobs
from lib.config.rates import Rate
from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Retry
from lib.jobs.registry import Registry
from lib.store.codec import Result
from lib.store.encode import encode_result
from tests.support.decisions import a_job, decided
from tests.support.world import ADMIN, World, a_stage, bearer

DAY = 24 * 3600.0


def nothing(payload: Any, context: Any) -> Complete:
    return Complete()


STAGES = {
    "free": a_stage("free", nothing),
    "narrow": a_stage("narrow", nothing, concurrency=2),
    "slow": a_stage("slow", nothing, rate=Rate(per_second=10)),
    "both": a_stage("both", nothing, concurrency=1, rate=Rate(per_second=0.5, burst=20)),
}
LIMITS = {
    "narrow": {"runs": 2},
    "slow": {"per_second": 10, "burst": 10},
    "both": {"runs": 1, "per_second": 0.5, "burst": 20},
}


def ticks(world: World) -> list[tuple[Any, Any]]:
    return [(t["limits"], t["tenant_weights"]) for t in world.sql("select * from giftcard_ticks order by id")]


def test_a_tick_brings_the_limits_that_are_set_and_no_others(make_world: Any) -> None:
    world = make_world(registry=Registry(STAGES))
    world.enqueue("free", count=3)
    assert world.tick()["completed"] == 3
    assert ticks(world) == [(LIMITS, {})]


def test_a_tick_without_limits_brings_none(make_world: Any) -> None:
    world = make_world(handlers={"free": nothing})
    world.tick()
    assert ticks(world) == [({}, {})]


def test_settings_override_limits_and_weigh_tenants(make_world: Any) -> None:
    environ = {"GIFTCARD_STAGE_FREE_RATE": "600/min burst 3", "GIFTCARD_STAGE_SLOW_RATE": "1/s"}
    world = make_world(registry=Registry(STAGES), GIFTCARD_TENANT_WEIGHTS="acme=3,beta=2", **environ)
    world.tick()
    ((limits, weights),) = ticks(world)
    assert limits == LIMITS | {"free": {"per_second": 10, "burst": 3}, "slow": {"per_second": 1, "burst": 1}}
    assert weights == {"acme": 3, "beta": 2}


@pytest.mark.parametrize("limit", [{"runs": 1}, 1])
def test_a_limit_of_runs_holds_in_the_form_of_older_code_too(make_world: Any, limit: Any) -> None:
    world = make_world(registry=Registry(STAGES))
    world.enqueue("free", count=3)
    world.enqueue("narrow", count=2)
    begin = "select giftcard_begin_tick(gen_random_uuid(), 'w', 'test', %s, 10, 60, 1, p_limits => %s) as step"
    arguments = (json.dumps({"free": 60, "narrow": 60}), json.dumps({"free": limit}))
    step = world.sql(begin, *arguments)[0]["step"]
    assert sorted(stage for _, _, _, stage, *_ in step["jobs"]) == ["free", "narrow", "narrow"]
    waiting = world.value("select id from giftcard_jobs where stage = 'free' and status = 'queued' order by id")
    shown = world.client.get(f"/api/v1/jobs/{waiting}", headers=bearer(ADMIN)).json
    assert shown["waiting_for"]["text"] == "stage free has 1 running, which is its limit"


# Where operators see a rate


def test_a_rate_is_shown_with_its_source(make_world: Any) -> None:
    world = make_world(registry=Registry(STAGES), GIFTCARD_STAGE_FREE_RATE="600/min burst 3")
    listed = world.client.get("/api/v1/stages", headers=bearer(ADMIN)).json["stages"]
    rates = {stage["stage"]: (stage["rate"], stage["source"]["rate"]) for stage in listed}
    assert rates == {
        "free": ({"per_second": 10, "burst": 3}, "GIFTCARD_STAGE_FREE_RATE"),
        "narrow": (None, "default"),
        "slow": ({"per_second": 10, "burst": 10}, "code"),
        "both": ({"per_second": 0.5, "burst": 20}, "code"),
    }
    world.app.cli.add_command(jobs)
    shown = world.app.test_cli_runner().invoke(args=["jobs", "stages"]).output
    assert "0.5/s burst 20" in shown
    assert "GIFTCARD_STAGE_FREE_RATE" in shown


# Retry-After


def settled(outcome: Any) -> dict[str, Any]:
    result = Result(job=a_job(), outcome=outcome)
    return encode_result(result)


@pytest.mark.parametrize(("asked", "hold"), [(30, 30), (2 * DAY, DAY), (None, None), (0, None), (-1, None)])
def test_a_retry_after_holds_its_rate(asked: float | None, hold: float | None) -> None:
    for attempts in (1, 5):  # with attempts left, and as a dead letter
        outcome = decided(TransientError("busy", retry_after=asked), attempts=attempts)
        assert isinstance(outcome, Retry if attempts == 1 else Error)
        assert settled(outcome).get("hold") == hold
    assert "hold" not in settled(decided(PermanentError("no"), attempts=1))


def test_a_handler_may_hold_its_rate_itself() -> None:
    assert settled(Retry(delay=1, error="busy", hold=9))["hold"] == 9
    assert settled(Retry(delay=1, error="busy", hold=float("inf")))["hold"] == DAY
    assert "hold" not in settled(Retry(delay=1, error="busy", hold=float("nan")))
    assert settled(decided(Retry(delay=1, error="busy", hold=9), attempts=25))["hold"] == 9


def test_a_held_result_is_settled(make_world: Any) -> None:
    def busy(payload: Any, context: Any) -> Complete:
        raise TransientError("busy", retry_after=1000)

    world = make_world(handlers={"work": busy}, GIFTCARD_STAGE_WORK_RATE="10/s burst 1")
    failed, other = world.enqueue("work", count=2)
    assert world.tick()["retried"] == 1
    delay = "select extract(epoch from scheduled_at - clock_timestamp()) from giftcard_jobs where id = %s"
    assert 900 < world.value(delay, failed) <= 1000
    world.move(60)
    assert world.tick()["started"] == 0
    waiting = world.client.get(f"/api/v1/jobs/{other}", headers=bearer(ADMIN)).json["waiting_for"]
    assert waiting["reason"] == "rate_limited"


def test_a_rate_of_a_setting_holds(make_world: Any) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_STAGE_WORK_RATE="1/min burst 2")
    world.enqueue("work", count=5)
    assert [world.tick()["started"], world.tick()["started"]] == [2, 0]


@pytest.mark.parametrize("hold", ["soon", [1], {}])
def test_a_hold_that_is_no_number_fails_its_job_alone(make_world: Any, hold: Any) -> None:
    world = make_world(handlers={"work": lambda payload, context: Retry(delay=1, error="busy", hold=hold)})
    (job_id,) = world.enqueue("work")
    world.tick()
    assert "its result cannot be stored" in world.job(job_id)["last_error"]
