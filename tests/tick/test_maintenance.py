"""Chores: what a tick sees to after its jobs."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Complete, Outcome
from lib.tick import maintenance
from tests.support.world import World

Make = Callable[..., World]


def nothing(payload: Any, context: Any) -> Outcome:
    return Complete()


@pytest.fixture
def chores(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done. One of them fails."""
    done: list[str] = []

    def bad(desk: maintenance.Desk) -> dict[str, object]:
        done.append("bad")
        raise RuntimeError("no")

    def good(desk: maintenance.Desk) -> dict[str, object]:
        done.append("good")
        return {"kept": 3}

    monkeypatch.setattr(maintenance, "CHORES", {"bad": maintenance.Chore(bad), "good": maintenance.Chore(good)})
    return done


def test_chore_is_done_once_in_its_interval_and_one_that_fails_stops_nothing(
    make_world: Make, chores: list[str]
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
    assert chores == ["bad", "good", "good"]


def test_two_ticks_at_once_do_a_chore_once(make_world: Make, chores: list[str]) -> None:
    world = make_world(handlers={"work": nothing}, GIFTCARD_TICK_LINGER=0)
    world.sql("delete from giftcard_maintenance_tasks")
    world.sql("insert into giftcard_maintenance_tasks (task, every) values ('good', '1 hour')")
    both = threading.Barrier(2)
    begin = world.store.begin_maintenance

    def together(chore: str) -> bool:
        both.wait(10)
        return begin(chore)

    world.store.begin_maintenance = together  # type: ignore[method-assign]
    threads = [threading.Thread(target=world.run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert chores == ["good"]
