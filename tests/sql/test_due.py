"""When the next thing is due, for a tick that waits; and dead letters that come due again."""

from datetime import datetime

from lib.job import Retry
from lib.store.codec import Step
from tests.support.factory import World, each


def due_in(world: World, step: Step) -> float | None:
    """Seconds until something may start; both forms of the answer agree."""
    if step.next_due_at is None:
        assert step.next_due_in is None
        return None
    assert step.next_due_in == world.from_now(datetime.fromisoformat(step.next_due_at))
    return step.next_due_in


def test_a_retry_is_due_after_its_delay(world: World) -> None:
    world.settled(Retry(delay=7, error="no"))
    assert due_in(world, world.begin().step) == 7


def test_the_nearest_of_several_is_due(world: World) -> None:
    world.enqueue(delay_seconds=30)
    world.enqueue("payment", delay_seconds=20)
    world.dead_letter("issue_card", revive=25)
    assert due_in(world, world.begin().step) == 20


def test_a_job_behind_an_open_circuit_is_due_when_it_half_opens(world: World) -> None:
    world.open_circuit()
    world.later(10)
    world.enqueue()
    assert due_in(world, world.begin().step) == 50


def test_a_job_that_is_due_after_the_circuit_half_opens_is_due_then(world: World) -> None:
    world.open_circuit()
    world.enqueue(delay_seconds=90)
    assert due_in(world, world.begin().step) == 90


def test_an_open_circuit_without_jobs_is_nothing_to_wait_for(world: World) -> None:
    world.open_circuit()
    assert due_in(world, world.begin().step) is None


def test_a_lease_is_due_when_it_ends(world: World) -> None:
    world.claimed(ttr_seconds=20)
    world.later(10)
    assert due_in(world, world.begin().step) == 20


def test_a_dead_letter_is_due_when_it_revives(world: World) -> None:
    world.dead_letter(revive=40)
    world.later(15)
    assert due_in(world, world.begin().step) == 25


def test_parked_jobs_are_nothing_to_wait_for(world: World) -> None:
    world.enqueue("payment", delay_seconds=5)
    world.call("pause", stage="payment", by="kate")
    world.enqueue("email", delay_seconds=6)
    assert due_in(world, world.begin(stages={"payment": 60}).step) is None


def test_the_next_job_of_a_circuit_just_claimed_from_is_due(world: World) -> None:
    world.enqueue()
    world.enqueue(delay_seconds=8)
    step = world.begin(limit=5).step
    assert len(step.jobs) == 1
    assert due_in(world, step) == 8


def test_with_a_full_claim_nobody_asks_what_is_next(world: World) -> None:
    each(world.enqueue, 3)
    assert due_in(world, world.begin(limit=2).step) is None


def test_a_probes_neighbour_is_looked_for_again_in_a_second(world: World) -> None:
    world.open_circuit()
    world.later(60)
    each(world.enqueue, 2)
    step = world.begin(limit=5).step
    assert (len(step.jobs), due_in(world, step)) == (1, 1)


def test_a_tick_waits_for_what_is_due_within_its_patience_and_no_longer(world: World) -> None:
    world.enqueue(delay_seconds=20)
    assert world.begin(linger_seconds=20).step.stopped_because is None
    assert world.begin(linger_seconds=19.9).step.stopped_because == "drained"
    assert world.begin(linger_seconds=0).step.stopped_because == "drained"


def test_a_tick_that_waits_revives_what_comes_due_meanwhile(world: World) -> None:
    dead = world.dead_letter(revive=10)
    tick = world.begin(linger_seconds=50)
    world.later(10)
    step = tick.advance(limit=5, linger_seconds=40)
    assert [job.id for job in step.jobs] == [dead]
    assert tick.row["revived"] == 1


# Revival


def test_revival_is_bounded(world: World) -> None:
    for _ in range(101):
        world.dead_letter(revive=1)
    world.later(1)
    assert world.call("revive") == 100
    assert world.call("revive") == 1
    assert world.call("revive") == 0


def test_ten_at_once_come_at_once(world: World) -> None:
    dead = each(lambda: world.dead_letter(revive=1), 10)
    world.later(1)
    world.call("revive")
    assert {world.job(i)["scheduled_at"] for i in dead} == {world.now}


def test_more_than_ten_at_once_are_spread_over_five_minutes(world: World) -> None:
    dead = each(lambda: world.dead_letter(revive=1), 20)
    world.later(1)
    world.call("revive")
    waits = [world.from_now(world.job(i)["scheduled_at"]) for i in dead]
    assert waits == [n * 15 for n in range(20)]
    assert {world.job(i)["revivals"] for i in dead} == {1}


def test_the_one_that_waited_longest_comes_first(world: World) -> None:
    later, sooner = world.dead_letter(revive=20), world.dead_letter(revive=10)
    world.later(30)
    assert world.call("revive", limit=1) == 1
    assert (world.job(sooner)["status"], world.job(later)["status"]) == ("queued", "error")


def test_what_is_not_due_and_what_never_revives_stays_dead(world: World) -> None:
    dead = [world.dead_letter(revive=10), world.dead_letter(revive=None)]
    world.later(9.9)
    before = world.snapshot(*dead)
    assert world.call("revive") == 0
    assert world.snapshot(*dead) == before
