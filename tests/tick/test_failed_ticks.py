"""Ticks that do not end well: recorded with their error, and no reason to stay green."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Refused, Unavailable
from lib.job import Complete, Outcome
from lib.store.postgres import PostgresWire
from tests.support.working import ADVANCES
from tests.support.world import ADMIN, CRON, World, bearer

Make = Callable[..., World]
METRICS = "metrics-token-of-tests"


class Faulty(PostgresWire):
    """Postgres, with calls that fail as the test says."""

    fails: Callable[[str, dict[str, Any]], BaseException | None] = staticmethod(lambda function, arguments: None)

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if failure := self.fails(function, arguments):
            raise failure
        return super().call(function, repeat=repeat, **arguments)


def good(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def wire(database_url: str) -> Faulty:
    return Faulty(database_url)


@pytest.fixture
def world(make_world: Make, wire: Faulty, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("lib.tick.steps.PATIENCE_SECONDS", 0.5)
    return make_world(
        handlers={"work": good}, wire=wire, GIFTCARD_METRICS_TOKEN=METRICS, GIFTCARD_TICK_BUDGET_SECONDS=1
    )


def failing(function: str) -> Callable[[str, dict[str, Any]], BaseException | None]:
    return lambda called, arguments: Unavailable("it is away") if called == function else None


@pytest.mark.parametrize("function", ["giftcard_begin_tick", "giftcard_step"])
def test_tick_that_fails_is_recorded_with_its_error(world: World, wire: Faulty, function: str) -> None:
    world.enqueue("work")
    wire.fails = failing(function)
    response = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON) | {"x-vercel-execution-id": "one"})
    assert response.status_code == 503
    (tick,) = world.sql("select stopped_because, error, ended_at is not null as ended from giftcard_ticks")
    assert tick == {"stopped_because": "failed", "error": "it is away", "ended": True}
    wire.fails = lambda function, arguments: None
    world.move(120)
    assert world.tick(**{"x-vercel-execution-id": "one"})["duplicate"] is False, "one that failed may be repeated"


def test_bug_in_the_middle_of_a_tick_is_recorded_too(world: World, wire: Faulty) -> None:
    world.enqueue("work")
    wire.fails = lambda called, _: KeyError("jobs") if called in ADVANCES else None
    assert world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 500
    (tick,) = world.sql("select stopped_because, error from giftcard_ticks")
    assert tick == {"stopped_because": "failed", "error": "KeyError: 'jobs'"}


def test_no_tick_that_ended_well_is_seen_everywhere(world: World, wire: Faulty) -> None:
    world.tick()
    assert world.client.get("/api/health/deep", headers=bearer(METRICS)).status_code == 200
    wire.fails = failing("giftcard_begin_tick")
    for _ in range(6):
        world.move(60)
        assert world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 503
    response = world.client.get("/api/health/deep", headers=bearer(METRICS))
    (alert,) = response.json["alerts"]
    assert (response.status_code, alert["condition"], alert["detail"]["error"]) == (503, "no_tick", "it is away")
    doctor = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
    (line,) = [line for line in doctor if line["check"] == "ticks"]
    assert line["level"] == "red"
    assert line["message"].startswith("no tick has ended well for 6 min, although the clock calls")
    assert "it is away" in line["message"]
    exposed = world.client.get("/api/metrics", headers=bearer(METRICS)).text
    (age,) = [line for line in exposed.splitlines() if line.startswith("giftcard_last_tick_age_seconds ")]
    assert 360 <= float(age.split()[1]) < 420
    wire.fails = lambda function, arguments: None
    world.tick()
    exposed = world.client.get("/api/metrics", headers=bearer(METRICS)).text
    (age,) = [line for line in exposed.splitlines() if line.startswith("giftcard_last_tick_age_seconds ")]
    assert float(age.split()[1]) < 60


def test_paused_ticks_end_well_and_alerts_and_pruning_go_on(make_world: Make) -> None:
    world = make_world(
        handlers={"work": good},
        GIFTCARD_PAUSED=1,
        GIFTCARD_METRICS_TOKEN=METRICS,
        GIFTCARD_ALERT_URL="http://127.0.0.1:9",
    )
    world.enqueue("work")
    for _ in range(6):
        report = world.tick()
        assert (report["stopped_because"], report["started"]) == ("paused", 0)
        world.move(60)
    assert {"alerts", "prune"} & set(report["maintenance"])
    response = world.client.get("/api/health/deep", headers=bearer(METRICS))
    assert "no_tick" not in [alert["condition"] for alert in response.json["alerts"]]
    assert world.sql("select distinct stopped_because from giftcard_ticks") == [{"stopped_because": "paused"}]
    assert world.value("select attempts from giftcard_jobs") == 0


def test_results_outlive_an_outage_within_the_budget(make_world: Make, wire: Faulty, monkeypatch: Any) -> None:
    monkeypatch.setattr("lib.tick.steps._PAUSES", (0.05, 0.1, 0.1))
    world = make_world(handlers={"work": good}, wire=wire, GIFTCARD_TICK_BUDGET_SECONDS=20)
    jobs = [world.add("work", semantics="at_most_once") for _ in range(5)]
    left = iter(range(8))
    wire.fails = lambda called, _: (
        Unavailable("it is away") if called in ADVANCES and next(left, None) is not None else None
    )
    assert world.tick()["completed"] == 5
    assert {world.job(job)["status"] for job in jobs} == {"completed"}


def test_results_are_kept_while_other_handlers_run(make_world: Make, wire: Faulty) -> None:
    import threading

    away, go_on = threading.Event(), threading.Event()

    def slow(payload: Any, context: Any) -> Outcome:
        away.wait(10)
        go_on.wait(10)
        return Complete()

    world = make_world(handlers={"work": good, "slow": slow}, wire=wire, GIFTCARD_TICK_BUDGET_SECONDS=20)
    quick = [world.add("work", semantics="at_most_once") for _ in range(2)]
    world.add("slow", semantics="at_most_once")
    refused = []

    def fails(called: str, _: Any) -> BaseException | None:
        if called not in ADVANCES or go_on.is_set():
            return None
        away.set()
        refused.append(called)
        if len(refused) == 3:
            go_on.set()
        return Unavailable("it is away")

    wire.fails = fails
    assert world.tick()["completed"] == 3
    assert {world.job(job)["status"] for job in quick} == {"completed"}


class Late(PostgresWire):
    """Postgres, whose answers to claims arrive late."""

    def __init__(self, url: str, seconds: float) -> None:
        super().__init__(url)
        self.seconds = seconds

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        import time

        answer = super().call(function, repeat=repeat, **arguments)
        if function == "giftcard_begin_tick":
            time.sleep(self.seconds)
        return answer


def test_claim_whose_answer_comes_after_its_time_starts_no_handler(make_world: Make, database_url: str) -> None:
    ran = []
    world = make_world(
        handlers={"work": lambda payload, context: ran.append(context.remaining()) or Complete()},
        wire=Late(database_url, 1.2),
        GIFTCARD_JOBS_PER_CRON_RUN=2,
    )
    late, in_time = world.add("work", ttr_seconds=1), world.add("work", ttr_seconds=60)
    report = world.tick()
    assert (report["released"], report["completed"]) == (1, 2)
    assert [run["result"] for run in world.history(late)] == ["RELEASED", "SUCCESS"], "claimed again, in time"
    assert world.job(late)["attempts"] == 1
    assert [run["result"] for run in world.history(in_time)] == ["SUCCESS"]
    assert max(ran) < 59, "its time began when its claim was sent"


def test_tick_that_does_not_linger_does_not_wait_for_rows_that_others_hold(make_world: Make, database_url: str) -> None:
    import psycopg

    world = make_world(handlers={"work": good})
    world.enqueue("work", count=3)
    with psycopg.connect(database_url) as other:
        other.execute("select * from giftcard_jobs for update")
        report = world.tick()
    assert (report["started"], report["stopped_because"], report["calls"]) == (0, "drained", 1)


def test_circuit_of_a_stage_whose_threshold_is_0_closes_at_the_next_tick(make_world: Make) -> None:
    world = make_world(handlers={"work": good}, GIFTCARD_CIRCUIT_THRESHOLD=0)
    world.enqueue("work")
    world.sql("insert into giftcard_circuits (circuit, state, open_until) values ('work', 'open', now() + '1 hour')")
    report = world.tick()
    assert (report["completed"], report["circuits_closed"]) == (1, ["work"])


@pytest.mark.parametrize("name", ["GIFTCARD_FAILED_JOB_RETRY_HOURS", "GIFTCARD_MAX_REVIVALS"])
def test_dead_letter_that_waits_does_not_revive_while_the_settings_say_so(make_world: Make, name: str) -> None:
    world = make_world(handlers={"work": good}, **{name: "0"})
    job_id = world.add("work", status="error", revive_at="2020-01-01T00:00:00Z", finished_at="2020-01-01T00:00:00Z")
    assert world.run(linger=True, budget=3).stopped_because == "drained"
    assert world.job(job_id)["status"] == "error"
    other = make_world(handlers={"work": good})
    assert other.tick()["completed"] == 1


def test_words_of_the_database_come_out_without_addresses_and_secrets(
    world: World, wire: Faulty, log: Callable[[], list[dict[str, Any]]]
) -> None:
    text = f'invalid input "kate@example.com", token {CRON}'
    wire.fails = lambda called, _: Refused(text, sqlstate="22P02") if called == "giftcard_begin_tick" else None
    answer = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    error = world.value("select error from giftcard_ticks")
    for shown in (answer.text, error, str(log())):
        assert "kate@example.com" not in shown
        assert CRON not in shown
    assert "[email]" in error
