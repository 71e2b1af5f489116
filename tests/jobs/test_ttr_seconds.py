"""A job's ttr_seconds is a number like any other: null is the stage's, 60 is 60, by whichever way the job comes."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.cli import jobs
from lib.config import vercel
from lib.errors import InvalidJob
from lib.job import Complete, NextJob
from lib.jobs import hooks
from lib.jobs.context import Context
from lib.jobs.enqueue import prepare, prepare_unattended
from lib.jobs.registry import Registry
from tests.support.world import ADMIN, World, a_stage, bearer, settings_of

STAGE_TTR = 30
FLOW = {"stage": "work", "correlation_id": "f"}

Way = Callable[[World, int | None], None]


def with_ttr(ttr: int | None) -> dict[str, int]:
    return {} if ttr is None else {"ttr_seconds": ttr}


def by_api(world: World, ttr: int | None) -> None:
    body = {"jobs": [FLOW | with_ttr(ttr)]}
    assert world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code == 202


def by_cli(world: World, ttr: int | None) -> None:
    world.app.cli.add_command(jobs)
    option = [] if ttr is None else ["--ttr-seconds", str(ttr)]
    ended = world.app.test_cli_runner().invoke(args=["jobs", "enqueue", "work", "f", *option])
    assert ended.exit_code == 0, ended.output


def by_sql(world: World, ttr: int | None) -> None:
    world.sql("insert into giftcard_jobs (stage, correlation_id, ttr_seconds) values ('work', 'f', %s)", ttr)


def by_schedule(world: World, ttr: int | None) -> None:
    body = {"schedule": "0 0 1 1 *", "stage": "work", "payload": {}} | with_ttr(ttr)
    made = world.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
    assert made.status_code == 201, made.text
    run = world.client.post(f"/api/v1/schedules/{made.json['id']}/run", headers=bearer(ADMIN))
    assert run.status_code == 202, run.text


def by_next_job(world: World, ttr: int | None) -> None:
    world.add("first", {"ttr": ttr}, correlation_id="f")
    world.tick()


@pytest.mark.parametrize("ttr", [60, 59, None])
@pytest.mark.parametrize("way", [by_api, by_cli, by_sql, by_schedule, by_next_job], ids=lambda way: way.__name__)
def test_a_job_gets_the_ttr_that_it_asks_for(make_world: Callable[..., World], way: Way, ttr: int | None) -> None:
    seen: list[float] = []

    def work(payload: Any, context: Context) -> Complete:
        seen.append(context.job.ttr)
        return Complete()

    def first(payload: Any, context: Context) -> Complete:
        return Complete(next=(NextJob(stage="work", payload={}, ttr_seconds=payload.ttr),))

    stages = {"work": a_stage("work", work, ttr=STAGE_TTR), "first": a_stage("first", first)}
    world = make_world(registry=Registry(stages))
    way(world, ttr)
    while world.tick()["started"]:
        pass
    assert seen == [STAGE_TTR if ttr is None else ttr]


# What the function cannot live: vercel.json has 300 s, the budget is 50 s.

LIMIT = 230
TOO_LONG = "231 is longer than a run can live here: at most 230 (maxDuration 300 − budget 50 − margin 20)"

Refusal = Callable[[World, int], str]


def refused_by_api(world: World, ttr: int) -> str:
    response = world.client.post("/api/v1/jobs", json={"jobs": [FLOW | with_ttr(ttr)]}, headers=bearer(ADMIN))
    assert (response.status_code, response.json["field"]) == (422, "jobs.0.ttr_seconds")
    return str(response.json["detail"])


def refused_by_cli(world: World, ttr: int) -> str:
    world.app.cli.add_command(jobs)
    ended = world.app.test_cli_runner().invoke(args=["jobs", "enqueue", "work", "f", "--ttr-seconds", str(ttr)])
    assert ended.exit_code != 0
    return str(ended.output)


def refused_by_schedule(world: World, ttr: int) -> str:
    body = {"schedule": "0 0 1 1 *", "stage": "work", "payload": {}} | with_ttr(ttr)
    response = world.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
    assert (response.status_code, response.json["field"]) == (422, "ttr_seconds")
    return str(response.json["detail"])


def refused_by_schedule_of_plain_sql(world: World, ttr: int) -> str:
    world.sql(
        "insert into giftcard_schedules (schedule, stage, ttr_seconds, next_at)"
        " values ('* * * * * *', 'work', %s, now() - interval '2 seconds')",
        ttr,
    )
    world.tick()
    return str(world.value("select pause_reason from giftcard_schedules"))


def refused_by_next_job(world: World, ttr: int) -> str:
    job_id = world.add("first", {"ttr": ttr}, correlation_id="f")
    world.tick()
    assert (world.job(job_id)["status"], world.job(job_id)["revive_at"]) == ("error", None)
    return str(world.job(job_id)["last_error"])


@pytest.mark.parametrize("ttr", [LIMIT, LIMIT + 1])
@pytest.mark.parametrize(
    ("way", "refusal"),
    [
        (by_api, refused_by_api),
        (by_cli, refused_by_cli),
        (by_schedule, refused_by_schedule),
        (by_next_job, refused_by_next_job),
        (None, refused_by_schedule_of_plain_sql),
    ],
    ids=lambda way: getattr(way, "__name__", ""),
)
def test_a_ttr_that_the_function_cannot_live_is_refused_with_the_number(
    make_world: Callable[..., World], way: Way | None, refusal: Refusal, ttr: int
) -> None:
    def first(payload: Any, context: Context) -> Complete:
        return Complete(next=(NextJob(stage="work", payload={}, ttr_seconds=payload.ttr),))

    stages = {"work": a_stage("work", lambda payload, context: Complete()), "first": a_stage("first", first)}
    world = make_world(registry=Registry(stages))
    if ttr > LIMIT:
        assert TOO_LONG in refusal(world, ttr)
        assert world.value("select count(*) from giftcard_jobs where stage = 'work'") == 0
    elif way is not None:
        way(world, ttr)
        assert world.job(stage="work")["ttr_seconds"] == ttr


@pytest.mark.parametrize("ttr", [0, -1, -60])
@pytest.mark.parametrize("prepared", [lambda *of: prepare([of[0]], *of[1:]), prepare_unattended])
def test_no_ttr_is_zero_or_negative(prepared: Callable[..., Any], ttr: int) -> None:
    with pytest.raises(InvalidJob, match=f"^{ttr} is not a positive number of seconds$"):
        prepared(FLOW | with_ttr(ttr), Registry({}), settings_of())


@pytest.mark.parametrize(("budget", "most"), [(50, LIMIT), (0.5, 279), (279, 1), (280, 0), (780, 0)])
def test_the_longest_ttr_follows_the_budget(budget: float, most: int) -> None:
    assert settings_of(GIFTCARD_TICK_BUDGET_SECONDS=budget).longest_ttr == most


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (None, 800),
        ("not JSON", 800),
        ("[]", 800),
        ("{}", 800),
        ('{"functions": {"api/index.py": {"maxDuration": 60}}}', 60),
        ('{"functions": {"api/index.py": {"maxDuration": 900}}}', 800),
        ('{"functions": {"api/index.py": {"maxDuration": "max"}}}', 800),
    ],
)
def test_the_functions_life_is_that_of_vercel_json_or_the_longest_there_is(
    tmp_path: Any, written: str | None, seconds: int
) -> None:
    if written is not None:
        (tmp_path / "vercel.json").write_text(written)
    assert vercel.max_duration(tmp_path) == seconds


def test_a_hook_cannot_set_a_ttr_that_the_function_cannot_live() -> None:
    def bend(draft: hooks.Draft) -> None:
        draft.ttr_seconds = {"fits": LIMIT, "does_not": LIMIT + 1}[draft.stage]

    with hooks.before_enqueue.connected_to(bend):
        rows = [{"stage": stage, "correlation_id": "f", "payload": {}} for stage in ("fits", "does_not")]
        fits, does_not = prepare(rows, Registry({}), settings_of())
    assert (fits.get("ttr_seconds"), does_not.get("ttr_seconds")) == (LIMIT, None)
