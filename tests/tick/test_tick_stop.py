"""What keeps jobs from starting: shutdown, pauses, stages unknown or without their setting, a second delivery."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Outcome
from lib.jobs.registry import Registry
from lib.store.postgres import PostgresWire
from lib.tick.shutdown import Shutdown
from tests.support.world import CRON, World, a_stage, bearer

Make = Callable[..., World]


def quick(payload: Any, context: Any) -> Outcome:
    return Complete()


class Counting(PostgresWire):
    """A real wire that remembers the calls."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: list[str] = []

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.calls.append(function)
        return super().call(function, repeat=repeat, **arguments)


class StopsBetween(PostgresWire):
    """Shutdown is asked for after the claim, before a handler has begun."""

    stop: threading.Event

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        answer = super().call(function, repeat=repeat, **arguments)
        if function == "giftcard_begin_tick":
            self.stop.set()
        return answer


def test_shutdown_releases_what_has_not_begun_and_gives_the_attempt_back(make_world: Make, database_url: str) -> None:
    wire = StopsBetween(database_url)
    world = make_world(handlers={"work": quick}, wire=wire)
    wire.stop = world.stop
    (job_id,) = world.enqueue("work")
    report = world.run()
    assert (report.started, report.released, report.stopped_because) == (0, 1, "shutdown")
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["run_no"]) == ("queued", 0, 1)
    assert [run["result"] for run in world.history(job_id)] == ["RELEASED"]
    world.stop.clear()
    wire.stop = threading.Event()
    assert world.run().completed == 1


def test_shutdown_lets_what_runs_end_and_claims_no_more(make_world: Make) -> None:
    def asks_for_it(payload: Any, context: Any) -> Outcome:
        world.stop.set()
        return Complete()

    world = make_world(handlers={"work": asks_for_it}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("work", count=3)
    report = world.run()
    assert (report.started, report.completed, report.stopped_because) == (1, 1, "shutdown")
    assert world.statuses() == {"completed": 1, "queued": 2}


def test_shutdown_ends_a_lingering_tick_at_once(make_world: Make) -> None:
    world = make_world(handlers={"work": quick}, GIFTCARD_TICK_LINGER=1)
    world.enqueue("work", scheduled_at=world.value("select now() + interval '30 seconds'"))
    threading.Timer(0.3, world.stop.set).start()
    report = world.run()
    assert report.stopped_because == "shutdown"
    assert report.duration_ms < 20_000
    assert world.value("select stopped_because from public.giftcard_ticks") == "shutdown"


def test_shutdown_waits_for_the_ticks_that_run(make_world: Make) -> None:
    begun, go_on = threading.Barrier(6, timeout=10), threading.Event()

    def waits(payload: Any, context: Any) -> Outcome:
        begun.wait()
        assert go_on.wait(10)
        return Complete()

    world = make_world(handlers={"work": waits})
    world.enqueue("work", count=12)
    reports: list[dict[str, Any]] = []
    tick = threading.Thread(target=lambda: reports.append(world.tick()))
    tick.start()
    begun.wait()
    threading.Timer(0.2, go_on.set).start()
    world.services.shutdown.ask()
    assert world.statuses() == {"completed": 5, "queued": 7}
    tick.join(5)
    assert (reports[0]["started"], reports[0]["stopped_because"]) == (5, "shutdown")


def test_shutdown_waits_no_longer_than_it_may() -> None:
    shutdown = Shutdown()
    with shutdown.tick():
        shutdown.ask(timeout=0.01)


def test_pause_by_setting_records_a_tick_that_only_maintains(make_world: Make, database_url: str) -> None:
    wire = Counting(database_url)
    world = make_world(handlers={"work": quick}, wire=wire, GIFTCARD_PAUSED=1)
    world.enqueue("work")
    report = world.tick()
    assert (report["paused"], report["started"], report["stopped_because"]) == (True, 0, "paused")
    assert [call for call in wire.calls if call != "giftcard_prune"] == [
        "giftcard_begin_tick",
        "giftcard_begin_maintenance",
    ]
    assert world.sql("select stopped_because from giftcard_ticks") == [{"stopped_because": "paused"}]
    assert world.job(stage="work")["attempts"] == 0


def test_pause_of_everything_in_the_database_is_in_the_report(make_world: Make) -> None:
    world = make_world(handlers={"work": quick})
    world.enqueue("work")
    world.sql("select public.giftcard_pause('*', 'ann', 'stock-taking')")
    report = world.tick()
    assert (report["paused"], report["started"], report["stopped_because"]) == (True, 0, "paused")
    world.sql("select public.giftcard_resume('*', 'ann')")
    assert world.tick()["completed"] == 1


def test_pause_that_comes_in_the_middle_of_a_tick_stops_its_claiming(make_world: Make) -> None:
    def pauses(payload: Any, context: Any) -> Outcome:
        world.sql("select public.giftcard_pause('*', 'ann')")
        return Complete()

    world = make_world(handlers={"work": pauses}, GIFTCARD_CONCURRENCY=1)
    world.enqueue("work", count=3)
    report = world.tick()
    assert (report["paused"], report["completed"], report["stopped_because"]) == (True, 1, "paused")


def test_paused_stage_waits_while_the_others_go_on(make_world: Make) -> None:
    world = make_world(handlers={"work": quick, "other": quick})
    (waiting,) = world.enqueue("work")
    world.enqueue("other")
    world.sql("select public.giftcard_pause('work', 'ann')")
    report = world.tick()
    assert (report["paused"], report["completed"]) == (False, 1)
    job = world.job(waiting)
    assert (job["status"], job["attempts"], job["run_no"]) == ("queued", 0, 0)


def test_unknown_stage_is_parked_and_uses_up_no_attempt(make_world: Make) -> None:
    world = make_world(handlers={"work": quick})
    (unknown,) = world.enqueue("of_a_later_release")
    world.enqueue("work")
    assert world.tick()["completed"] == 1
    job = world.job(unknown)
    assert (job["status"], job["attempts"], job["last_error"]) == ("queued", 0, None)
    later = make_world(handlers={"of_a_later_release": quick})
    assert later.tick()["completed"] == 1


def test_stage_that_lacks_its_setting_is_parked_and_reported(make_world: Make) -> None:
    parked = a_stage("parked", quick, needs=lambda settings: None if settings.smtp_url else "SMTP_URL")
    registry = Registry({"parked": parked, "work": a_stage("work", quick)})
    world = make_world(registry=registry)
    (waiting,) = world.enqueue("parked")
    world.enqueue("work")
    report = world.tick()
    assert (report["completed"], report["parked"]) == (1, {"parked": "SMTP_URL"})
    assert (world.job(waiting)["status"], world.job(waiting)["attempts"]) == ("queued", 0)
    configured = make_world(registry=registry, SMTP_URL="smtp://localhost")
    report = configured.tick()
    assert (report["completed"], report["parked"]) == (1, {})


def test_production_without_a_mail_server_parks_mail_and_runs_the_rest(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production")
    correlation_id = world.submit().json["correlation_id"]
    report = world.tick()
    assert (report["completed"], report["errored"], report["parked"]["email"]) == (4, 0, "SMTP_URL")
    assert [step["status"] for step in world.flow(correlation_id)["jobs"]] == ["completed"] * 4 + ["queued"]


@pytest.mark.parametrize("missing", ["GIFTCARD_ENCRYPTION_KEYS", "GIFTCARD_LOOKUP_KEY"])
def test_cards_are_not_made_without_their_keys(make_world: Make, missing: str) -> None:
    world = make_world(**{missing: None})
    world.submit()
    report = world.tick()
    assert report["completed"] == 3
    assert report["parked"]["issue_card"] == missing


def test_second_delivery_of_an_execution_does_no_work(make_world: Make) -> None:
    world = make_world(handlers={"work": quick})
    first = world.tick(**{"x-vercel-execution-id": "exec-1"})
    world.enqueue("work")
    second = world.tick(**{"x-vercel-execution-id": "exec-1"})
    other = world.tick(**{"x-vercel-execution-id": "exec-2"})
    assert (first["duplicate"], second["duplicate"], other["duplicate"]) == (False, True, False)
    assert (second["started"], other["started"]) == (0, 1)


def test_second_delivery_works_if_the_first_was_killed(make_world: Make) -> None:
    world = make_world(handlers={"work": quick})
    world.tick(**{"x-vercel-execution-id": "exec-1"})
    world.sql("update public.giftcard_ticks set ended_at = null, stopped_because = null")
    world.enqueue("work")
    assert world.tick(**{"x-vercel-execution-id": "exec-1"})["duplicate"] is True
    world.move(1000)
    assert world.tick(**{"x-vercel-execution-id": "exec-1"})["started"] == 1


def test_two_ticks_at_once_do_each_job_once(make_world: Make) -> None:
    runs: list[int] = []
    both = threading.Barrier(2, timeout=10)

    def counted(payload: Any, context: Any) -> Outcome:
        if context.job.dedup_key in ("a", "b"):
            both.wait()  # each of the two ticks has one
        runs.append(context.job.id)
        return Complete()

    world = make_world(handlers={"work": counted}, GIFTCARD_CONCURRENCY=1, GIFTCARD_JOBS_PER_CRON_RUN=100)
    for name in ("a", "b"):
        world.enqueue("work", dedup_key=name)
    world.enqueue("work", count=20)
    reports: list[Any] = []
    ticks = [
        threading.Thread(
            target=lambda: reports.append(world.app.test_client().get("/api/cron/giftcard-jobs", headers=bearer(CRON)))
        )
        for _ in range(2)
    ]
    for tick in ticks:
        tick.start()
    for tick in ticks:
        tick.join(20)
    assert sorted(runs) == sorted(set(runs))
    assert sum(report.json["completed"] for report in reports) == len(runs) == 22
