"""Rules of single stages: how many run at once, how long, how often; what a run keeps."""

import threading
from collections.abc import Callable
from typing import Any

from lib.errors import LeaseLost, TransientError
from lib.job import Complete, Outcome
from lib.jobs.registry import Registry
from tests.support.world import ADMIN, World, a_stage, bearer

Make = Callable[..., World]


def nothing(payload: Any, context: Any) -> Outcome:
    return Complete()


class Crowd:
    """A handler that counts how many of it run at once."""

    def __init__(self) -> None:
        self.most = self.now = 0
        self._lock = threading.Lock()
        self._pause = threading.Event()

    def __call__(self, payload: Any, context: Any) -> Outcome:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self._pause.wait(0.05)
        with self._lock:
            self.now -= 1
        return Complete()


def test_limited_stage_never_has_more_runs_at_once(make_world: Make) -> None:
    crowd, free = Crowd(), Crowd()
    stages = [a_stage("narrow", crowd, concurrency=2), a_stage("wide", free)]
    registry = Registry({stage.name: stage for stage in stages})
    world = make_world(
        registry=registry, GIFTCARD_CONCURRENCY=8, GIFTCARD_JOBS_PER_CRON_RUN=100, GIFTCARD_TICK_LINGER=1
    )
    world.enqueue("narrow", count=7)
    world.enqueue("wide", count=12)
    report = world.tick()
    assert (report["completed"], crowd.most) == (19, 2)
    assert free.most > 2


def test_setting_limits_a_stage_and_unlimited_jobs_do_not_wait_for_it(make_world: Make) -> None:
    world = make_world(handlers={"narrow": nothing, "wide": nothing}, GIFTCARD_STAGE_NARROW_CONCURRENCY=1)
    held, *_ = world.enqueue("narrow", count=3)
    world.enqueue("wide", count=3)
    world.sql(
        "update giftcard_jobs set status = 'running', lease_expires_at = now() + interval '1 minute' where id = %s",
        held,
    )
    report = world.tick()
    assert (report["started"], report["completed"]) == (3, 3)
    shown = world.client.get(f"/api/v1/jobs/{held + 1}", headers=bearer(ADMIN)).json
    assert shown["waiting_for"]["reason"] == "stage_full"
    assert shown["waiting_for"]["text"] == "stage narrow has 1 running, which is its limit"


def test_limit_held_by_a_killed_run_is_free_when_its_lease_ends(make_world: Make) -> None:
    world = make_world(handlers={"narrow": nothing}, GIFTCARD_STAGE_NARROW_CONCURRENCY=1)
    held, free = world.enqueue("narrow", count=2)
    world.sql(
        "update giftcard_jobs set status = 'running', lease_expires_at = now() + interval '1 minute' where id = %s",
        held,
    )
    assert world.tick()["started"] == 0
    world.move(61)
    world.tick()
    assert world.job(free)["status"] == "completed"


def test_limit_holds_for_the_probe_of_a_half_open_circuit(make_world: Make) -> None:
    world = make_world(handlers={"narrow": nothing}, GIFTCARD_STAGE_NARROW_CONCURRENCY=1)
    held, free = world.enqueue("narrow", count=2)
    world.sql(
        "update giftcard_jobs set status = 'running', lease_expires_at = now() + interval '1 minute' where id = %s",
        held,
    )
    world.sql("""insert into giftcard_circuits (circuit, state, changed_at, open_until)
                 values ('narrow', 'open', now() - interval '2 min', now() - interval '1 min')""")
    assert world.tick()["started"] == 0
    world.sql("update giftcard_jobs set status = 'completed' where id = %s", held)
    world.tick()
    assert world.job(free)["status"] == "completed"


# Heartbeats


def beating(*, times: int, seen: list[Any]) -> Any:
    def handler(payload: Any, context: Any) -> Outcome:
        for _ in range(times):
            context.cancelled.wait(0.6)
            seen.append(context.heartbeat())
        return Complete()

    return handler


def test_heartbeat_draws_a_run_out_beyond_its_ttr(make_world: Make) -> None:
    seen: list[float] = []
    stage = a_stage("long", beating(times=3, seen=seen), ttr=1, longest=10)
    world = make_world(registry=Registry({"long": stage}))
    (job_id,) = world.enqueue("long")
    assert world.tick()["completed"] == 1
    assert world.job(job_id)["status"] == "completed"
    assert all(0.9 < left <= 1 for left in seen)


def test_heartbeat_goes_no_further_than_the_limit_of_the_stage(make_world: Make) -> None:
    seen: list[float] = []
    stage = a_stage("long", beating(times=9, seen=seen), ttr=1, longest=2)
    world = make_world(registry=Registry({"long": stage}))
    (job_id,) = world.enqueue("long")
    assert world.tick()["retried"] == 1
    assert world.job(job_id)["last_error"].startswith("TtrExceeded")
    assert len(seen) == 3  # the fourth finds its run given up


def test_heartbeat_of_a_stage_without_a_limit_changes_nothing(make_world: Make) -> None:
    seen: list[float] = []

    def handler(payload: Any, context: Any) -> Outcome:
        before = context.deadline
        seen.append(context.heartbeat())
        assert context.deadline == before
        return Complete()

    world = make_world(handlers={"work": handler})
    world.enqueue("work")
    assert world.tick()["completed"] == 1
    assert 59 < seen[0] <= 60


def test_heartbeat_tells_that_the_job_is_not_ours_any_more(make_world: Make) -> None:
    lost: list[bool] = []

    def handler(payload: Any, context: Any) -> Outcome:
        world.sql("update giftcard_jobs set status = 'queued', scheduled_at = now() + interval '1 hour'")
        context.cancelled.wait(0.01)
        try:
            context.heartbeat()
        except LeaseLost:
            lost.append(True)
        return Complete()

    world = make_world(registry=Registry({"long": a_stage("long", handler, ttr=10, longest=60)}))
    world.enqueue("long")
    assert (world.tick()["lease_lost"], lost) == (1, [True])


def test_lease_in_the_database_follows_the_heartbeat(make_world: Make) -> None:
    leases: list[Any] = []
    read = "select lease_expires_at from giftcard_jobs"

    def handler(payload: Any, context: Any) -> Outcome:
        leases.append(world.value(read))
        context.cancelled.wait(0.3)
        context.heartbeat()
        leases.append(world.value(read))
        return Complete()

    world = make_world(registry=Registry({"long": a_stage("long", handler, ttr=10, longest=60)}))
    world.enqueue("long")
    world.tick()
    assert 0.25 < (leases[1] - leases[0]).total_seconds() < 9


# At most once


def test_stage_that_runs_at_most_once_makes_each_of_its_jobs_so(make_world: Make) -> None:
    def fails(payload: Any, context: Any) -> Outcome:
        raise TransientError("no")

    world = make_world(handlers={"work": fails}, GIFTCARD_STAGE_WORK_SEMANTICS="at_most_once")
    (job_id,) = world.enqueue("work")
    world.tick()
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)


def test_what_code_enqueues_for_such_a_stage_says_so_in_its_row(make_world: Make) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_STAGE_WORK_SEMANTICS="at_most_once")
    world.client.post("/api/v1/jobs", json={"stage": "work", "correlation_id": "one"}, headers=bearer(ADMIN))
    assert world.job(stage="work")["semantics"] == "at_most_once"


# What a run keeps


def test_run_keeps_what_its_handler_says_of_it(make_world: Make) -> None:
    def works(payload: Any, context: Any) -> Outcome:
        if context.job.attempts == 1:
            raise TransientError("no", detail={"status": 503, "body": "of kate@example.com\x00" + "x" * 5000})
        return Complete(detail={"status": 200})

    world = make_world(handlers={"work": works})
    (job_id,) = world.enqueue("work")
    world.tick()
    world.move(6)
    world.tick()
    first, second = (run["detail"] for run in world.history(job_id))
    assert (first["status"], second) == (503, {"status": 200})
    assert first["body"].startswith("of [email]")
    assert len(first["body"]) == 2048
    runs = world.client.get(f"/api/v1/jobs/{job_id}/history", headers=bearer(ADMIN)).json["runs"]
    assert runs[0]["detail"] == {"status": 200}
