"""Threshold 0: a stage without a circuit, and what becomes of one that is open."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Complete
from lib.jobs.registry import Registry
from tests.support.factory import World
from tests.support.world import a_stage, settings_of

CIRCUITS = {
    "email": ("open", 0),
    "http_call:a.example": ("half_open", 0),
    "http_call:b.example": ("closed", 2),
    "payment": ("open", 0),
    "webhook:7": ("closed", 0),
}


@pytest.fixture
def circuits(world: World) -> Callable[[], dict[str, tuple[str, int]]]:
    """The circuits, as they stand."""
    for circuit, (state, failures) in CIRCUITS.items():
        until = None if state == "closed" else world.now
        world.run(
            "insert into giftcard_circuits (circuit, state, failures, open_until) values (%s, %s, %s, %s)",
            circuit, state, failures, until,
        )  # fmt: skip
    query = "select circuit, state, failures from giftcard_circuits"
    return lambda: {row["circuit"]: (row["state"], row["failures"]) for row in world.rows(query)}


def changes(world: World) -> list[dict[str, Any]]:
    return world.rows(
        "select circuit, from_state, to_state, cause, changed_at from giftcard_circuit_changes order by id"
    )


def test_circuits_of_stages_without_one_close_and_their_count_is_forgotten(
    world: World, circuits: Callable[[], dict[str, tuple[str, int]]]
) -> None:
    assert world.call("close_circuits_of", stages=("email", "http_call")) == ["email", "http_call:a.example"]
    off = dict.fromkeys(["email", "http_call:a.example", "http_call:b.example"], ("closed", 0))
    assert circuits() == CIRCUITS | off
    common = {"to_state": "closed", "cause": "its threshold is 0", "changed_at": world.now}
    assert changes(world) == [
        {"circuit": "email", "from_state": "open"} | common,
        {"circuit": "http_call:a.example", "from_state": "half_open"} | common,
    ]
    assert world.call("close_circuits_of", stages=("email", "http_call")) == []
    assert len(changes(world)) == 2


@pytest.mark.parametrize("stages", [None, (), ("http", "emai", "webhook")])
def test_circuits_of_other_stages_stay_as_they_are(
    world: World, circuits: Callable[[], dict[str, tuple[str, int]]], stages: tuple[str, ...] | None
) -> None:
    assert world.call("close_circuits_of", stages=stages) == []
    assert (circuits(), changes(world)) == (CIRCUITS, [])


def test_jobs_behind_a_closed_circuit_are_claimed_at_once(world: World) -> None:
    job_id = world.enqueue("email")
    until = "2035-01-01 13:00Z"
    world.run("insert into giftcard_circuits (circuit, state, open_until) values ('email', 'open', %s)", until)
    assert world.claim() == []
    world.call("close_circuits_of", stages=("email",))
    assert [job.id for job in world.claim()] == [job_id]


def test_circuit_that_another_transaction_holds_is_left_to_the_next_call(
    world: World, circuits: Callable[[], dict[str, tuple[str, int]]], database_url: str
) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("select from giftcard_circuits where circuit = 'email' for update")
        assert world.call("close_circuits_of", stages=("email", "payment")) == ["payment"]
    assert world.call("close_circuits_of", stages=("email", "payment")) == ["email"]


def test_stages_without_a_circuit_are_those_whose_threshold_is_0() -> None:
    def nothing(payload: Any, context: Any) -> Complete:
        return Complete()

    registry = Registry(
        {name: a_stage(name, nothing, threshold=threshold) for name, threshold in (("a", None), ("b", 0), ("c", 10))}
    )
    assert registry.without_circuit(settings_of()) == ["b"]
    assert registry.without_circuit(settings_of(GIFTCARD_CIRCUIT_THRESHOLD=0)) == ["a", "b", "c"]
