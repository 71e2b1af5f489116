"""Half-open: one job in the whole fleet is the probe."""

import psycopg
import pytest

from lib.job import Complete, Release, Retry, Snooze
from tests.support.factory import World, each, ids


@pytest.fixture
def half_open(world: World) -> World:
    world.open_circuit()
    world.later(60)
    return world


def test_one_probe_is_claimed_and_everything_else_waits(half_open: World) -> None:
    waiting = each(half_open.enqueue, 5)
    assert ids(half_open.claim(limit=10)) == waiting[:1]
    assert half_open.claim(limit=10) == []
    circuit = half_open.circuit("email")
    assert (circuit["state"], circuit["probe_job_id"]) == ("half_open", waiting[0])


def test_other_stages_go_on_beside_the_probe(half_open: World) -> None:
    probe, other = half_open.enqueue(), half_open.enqueue("payment")
    assert sorted(ids(half_open.claim(limit=10))) == [probe, other]


def test_the_probe_is_the_one_with_the_fewest_attempts(half_open: World) -> None:
    tired, fresh, younger = each(half_open.enqueue, 3)
    half_open.run("update giftcard_jobs set attempts = 4 where id = %s", tired)
    assert fresh < younger
    assert ids(half_open.claim(limit=10)) == [fresh]


def test_only_the_first_fifty_due_are_looked_at(half_open: World) -> None:
    waiting = each(half_open.enqueue, 51)
    half_open.run("update giftcard_jobs set attempts = 2 where id = any(%s)", waiting[:50])
    half_open.run("update giftcard_jobs set attempts = 1 where id = %s", waiting[49])
    assert ids(half_open.claim(limit=10)) == [waiting[49]]


def test_a_job_that_is_not_due_is_no_probe(half_open: World) -> None:
    half_open.enqueue(delay_seconds=60)
    assert half_open.claim(limit=10) == []
    assert half_open.circuit("email")["state"] == "open"


def test_the_place_stays_taken_as_long_as_the_lease_runs(half_open: World) -> None:
    each(half_open.enqueue, 2)
    (probe,) = half_open.claim(limit=10)
    half_open.later(69)
    assert half_open.claim(limit=10) == []
    assert half_open.settle(probe, Complete())["settled"] == "settled"
    assert half_open.circuit("email")["state"] == "closed"


@pytest.mark.parametrize(
    "outcome",
    [Retry(delay=60, error="not counted"), Snooze(delay=60, waiting_for="x"), Release()],
)
def test_the_place_is_free_once_its_lease_is_settled(half_open: World, outcome: Retry | Snooze | Release) -> None:
    first, second = each(half_open.enqueue, 2)
    (probe,) = half_open.claim(limit=10)
    assert probe.id == first
    half_open.settle(probe, outcome)
    (next_probe,) = half_open.claim(limit=10)
    assert next_probe.id == (first if isinstance(outcome, Release) else second)


def test_the_place_is_free_once_the_probe_is_taken_back_by_hand(half_open: World) -> None:
    each(half_open.enqueue, 2)
    (probe,) = half_open.claim(limit=10)
    half_open.by_hand(probe.id)
    (again,) = half_open.claim(limit=10)
    half_open.settle(probe, Complete())
    assert half_open.circuit("email")["state"] == "half_open"
    half_open.settle(again, Complete())
    assert half_open.circuit("email")["state"] == "closed"


def test_the_place_is_free_once_the_probes_lease_is_taken_over(half_open: World) -> None:
    dead, waiting = each(half_open.enqueue, 2)
    half_open.claim(limit=10)
    half_open.end_lease(dead)
    (taken,) = half_open.take_over()
    assert (taken.id, taken.interrupted) == (dead, True)
    assert ids(half_open.claim(limit=10)) == [waiting]


def test_the_success_of_a_dead_probe_does_not_close_the_circuit(half_open: World) -> None:
    each(half_open.enqueue, 2)
    (probe,) = half_open.claim(limit=10)
    half_open.end_lease(probe.id)
    half_open.take_over()
    assert half_open.settle(probe, Complete())["settled"] == "lease_lost"
    assert half_open.circuit("email")["state"] == "half_open"


def test_two_claims_at_once_bring_one_probe(half_open: World, database_url: str) -> None:
    each(half_open.enqueue, 3)
    with psycopg.connect(database_url) as other:
        first = World(other, now=half_open.now).claim(limit=10)
        second = half_open.claim(limit=10)
        other.commit()
    assert len(first) == 1
    assert second == []
    assert half_open.claim(limit=10) == []


def test_a_person_may_choose_the_probe(half_open: World) -> None:
    each(half_open.enqueue, 2)
    chosen = half_open.enqueue(delay_seconds=3600)
    assert ids(half_open.claim(limit=1, only_job_id=chosen)) == [chosen]
    assert half_open.circuit("email")["probe_job_id"] == chosen


def test_each_half_open_circuit_has_its_own_probe(world: World) -> None:
    world.open_circuit("webhook:a")
    world.open_circuit("webhook:b")
    world.later(60)
    a = [world.enqueue("webhook", circuit="webhook:a") for _ in range(2)]
    b = [world.enqueue("webhook", circuit="webhook:b") for _ in range(2)]
    assert sorted(ids(world.claim(limit=10))) == [a[0], b[0]]


def test_a_claim_repeated_with_its_key_brings_the_same_probe(half_open: World) -> None:
    each(half_open.enqueue, 2)
    tick = half_open.begin(limit=10)
    again = half_open.begin(limit=10, key=tick.key)
    assert again.jobs == tick.jobs
    assert half_open.circuit("email")["probe_job_id"] == tick.jobs[0].id
