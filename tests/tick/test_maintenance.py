"""Maintenance tasks, which a tick runs after its jobs."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lib.config.settings import Settings
from lib.job import Complete, Outcome
from lib.jobs.registry import Registry
from lib.store.store import Store
from lib.tick import maintenance
from tests.support.world import World

Make = Callable[..., World]


def nothing(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def ran_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that ran. One of them fails."""
    ran: list[str] = []

    def bad(store: Store, registry: Registry, settings: Settings) -> dict[str, object]:
        ran.append("bad")
        raise RuntimeError("no")

    def good(store: Store, registry: Registry, settings: Settings) -> dict[str, object]:
        ran.append("good")
        return {"kept": 3}

    tasks = {"bad": maintenance.MaintenanceTask(bad), "good": maintenance.MaintenanceTask(good)}
    monkeypatch.setattr(maintenance, "TASKS", tasks)
    return ran


def test_task_runs_once_in_its_interval_and_one_that_fails_stops_nothing(
    make_world: Make, ran_tasks: list[str]
) -> None:
    world = make_world(handlers={"work": nothing})
    world.sql("delete from giftcard_maintenance_tasks")
    world.sql(
        """insert into giftcard_maintenance_tasks (task, every)
             values ('good', '1 hour'), ('bad', '1 hour'), ('unknown', '1 s')"""
    )
    assert world.tick()["maintenance"] == {"bad": {"failed": "RuntimeError"}, "good": {"kept": 3}}
    assert world.tick()["maintenance"] == {}
    world.sql("update giftcard_maintenance_tasks set last_at = last_at - interval '1 hour' where task = 'good'")
    assert world.tick()["maintenance"] == {"good": {"kept": 3}}
    assert ran_tasks == ["bad", "good", "good"]


def test_two_ticks_at_once_run_a_task_once(make_world: Make, ran_tasks: list[str]) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_TICK_LINGER=0)
    world.sql("delete from giftcard_maintenance_tasks")
    world.sql("insert into giftcard_maintenance_tasks (task, every) values ('good', '1 hour')")
    both = threading.Barrier(2)
    begin = world.store.begin_maintenance

    def together(task: str) -> bool:
        both.wait(10)
        return begin(task)

    world.store.begin_maintenance = together  # type: ignore[method-assign]
    threads = [threading.Thread(target=world.run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ran_tasks == ["good"]


def test_a_tick_counts_the_runs_that_have_ended_and_one_without_work_is_one_call(
    make_world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(handlers={"work": nothing})
    assert "counters" not in world.tick()["maintenance"]
    for _ in range(3):
        world.enqueue("work")
    assert "counters" not in world.tick()["maintenance"]
    world.sql("update giftcard_job_history set finished_at = finished_at - interval '10 seconds' * job_id")
    monkeypatch.setattr(maintenance, "_MOST_RUNS", 2)
    assert world.tick()["maintenance"]["counters"] == {"runs": 2}
    assert world.tick()["maintenance"]["counters"] == {"runs": 1}
    assert world.tick()["maintenance"] == {}
    shown = world.store.overview(stages={}, missing={})
    assert sum(minute["succeeded"] for minute in shown["runs"]["minutes"]) == 3
