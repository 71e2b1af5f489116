"""What was configured wrongly, and a whole deployment on which nothing is."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dev import ROOT
from lib.job import Complete
from lib.jobs.registry import Registry
from lib.monitoring.doctor.examine import examine
from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.world import World, a_stage, settings_of

Make = Callable[..., World]

VERCEL = json.loads((ROOT / "vercel.json").read_text())


def test_a_healthy_deployment_is_green_in_every_line(healthy: World, examined: Examine) -> None:
    lines = examined(healthy)
    assert levels(lines) == {}
    assert len(lines) == 24


def test_a_deployment_that_did_its_work_is_still_green(healthy: World, examined: Examine) -> None:
    healthy.submit()
    while healthy.tick()["started"]:
        pass
    assert healthy.statuses() == {"completed": 5}
    assert levels(examined(healthy)) == {}
    assert examined(healthy)["keys"]["message"] == "the keys decrypt the cards"


# Time


@pytest.mark.parametrize(
    "wrong",
    [
        {"GIFTCARD_TICK_BUDGET_SECONDS": 221},
        {"GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": 231},
    ],
)
def test_a_run_that_the_function_does_not_outlive_is_red(
    make_world: Make, examined: Examine, wrong: dict[str, int]
) -> None:
    line = examined(make_world(**wrong))["time"]
    assert line["level"] == "red"
    assert "more than maxDuration, 300 s" in line["message"]


def test_a_run_that_just_fits_is_green(make_world: Make, examined: Examine) -> None:
    assert examined(make_world(GIFTCARD_TICK_BUDGET_SECONDS=220))["time"]["level"] == "green"


def test_the_longest_stage_counts(make_world: Make, examined: Examine) -> None:
    stages = {name: a_stage(name, lambda _, __: Complete(), ttr=ttr) for name, ttr in (("one", 30), ("two", 240))}
    line = examined(make_world(registry=Registry(stages)))["time"]
    assert (line["level"], "240 s" in line["message"], "stage two" in line["message"]) == ("red", True, True)


# vercel.json


def test_without_a_maxduration_the_platforms_default_counts(healthy: World, examined: Examine) -> None:
    assert examined(healthy, vercel=VERCEL | {"functions": {}})["time"]["level"] == "yellow"


@pytest.mark.parametrize("crons", [[], [{"path": "/api/cron", "schedule": "* * * * *"}]])
def test_without_the_cron_and_without_another_clock_nobody_calls(world: World, examined: Examine, crons: Any) -> None:
    line = examined(world, vercel=VERCEL | {"crons": crons})["cron"]
    assert line["level"] == "red"
    assert '"path": "/api/cron/giftcard-jobs", "schedule": "* * * * *"' in line["fix"]


def test_a_schedule_is_as_good_as_a_cron(world: World, examined: Examine) -> None:
    schedules = {"any": {"path": "/api/cron/giftcard-jobs", "schedule": "* * * * *"}}
    assert examined(world, vercel=VERCEL | {"crons": [], "schedules": schedules})["cron"]["level"] == "green"


def test_a_cron_that_does_not_call_each_minute_is_red(world: World, examined: Examine) -> None:
    crons = [{"path": "/api/cron/giftcard-jobs", "schedule": "0 * * * *"}]
    assert "at 0 * * * *, not each minute" in examined(world, vercel=VERCEL | {"crons": crons})["cron"]["message"]


def test_without_the_cron_another_clock_will_do(healthy: World, examined: Examine) -> None:
    line = examined(healthy, vercel=VERCEL | {"crons": []})["cron"]
    assert (line["level"], line["message"][-19:]) == ("green", "another clock calls")


@pytest.mark.parametrize("text", ["{", "[]", '{"functions": 3}', '{"crons": [{}]}', "\xff"])
def test_a_vercel_json_that_is_none_is_red_and_stops_nothing(healthy: World, examined: Examine, text: str) -> None:
    assert levels(examined(healthy, vercel=text)) == {"time": "red", "cron": "red"}


def test_where_there_is_no_vercel_json_it_is_not_checked(healthy: World, examined: Examine, tmp_path: Any) -> None:
    lines = examine(healthy.store, healthy.registry, healthy.settings, root=tmp_path)
    assert {line["message"] for line in lines if line["check"] in ("time", "cron")} == {
        "not checked: there is no vercel.json"
    }


# The address

POOLER = "postgresql://postgres.abc:secret@aws-0-eu-central-1.pooler.supabase.com"


@pytest.mark.parametrize(
    ("url", "level", "message"),
    [
        (f"{POOLER}:6543/postgres", "green", "transaction mode"),
        (f"{POOLER}:5432/postgres", "yellow", "session mode (port 5432)"),
        (f"{POOLER}/postgres", "yellow", "session mode (port 5432)"),
        ("postgresql://postgres:secret@db.abc.supabase.co:5432/postgres", "yellow", "directly to the database"),
        ("postgresql://kate:secret@database.example.com/shop", "green", "no pooler of Supabase"),
    ],
)
def test_the_address_tells_which_pooler_it_is(
    healthy: World, examined: Examine, url: str, level: str, message: str
) -> None:
    healthy.settings = settings_of(DATABASE_URL=url)
    line = examined(healthy)["pooler"]
    assert line["level"] == level
    assert message in line["message"]
    assert "secret" not in str(line)


def test_over_postgrest_no_pooler_matters(healthy: World, examined: Examine) -> None:
    supabase = {"SUPABASE_URL": "https://abc.supabase.co", "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_0123456789"}
    healthy.settings = settings_of(DATABASE_URL=f"{POOLER}:5432/postgres", **supabase)
    assert examined(healthy)["pooler"]["level"] == "green"


@pytest.mark.parametrize(("port", "level"), [(6543, "red"), (5432, "green")])
def test_prepared_statements_are_seen(make_world: Make, examined: Examine, port: int, level: str) -> None:
    """The test's own connection is direct: there they are."""
    world = make_world()
    for _ in range(4):
        world.store.check_health()
    world.settings = settings_of(DATABASE_URL=f"postgresql://kate@database.example.com:{port}/shop")
    line = examined(world)["pooler"]
    assert line["level"] == level
    assert line["message"].startswith("this connection has 1 prepared statements") == (level == "red")
