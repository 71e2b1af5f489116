"""`context.once`: two runs of one job at once, of which the frozen one has no success."""

from collections.abc import Callable

import pytest

from lib.errors import Declined, PermanentError
from tests.support.effects import Effect
from tests.support.world import World

Make = Callable[..., World]


def refused() -> PermanentError:
    failure = PermanentError("its only request was refused")
    failure.without_effect = True
    return failure


@pytest.mark.parametrize("answer", [refused, lambda: Declined("no money")])
def test_frozen_run_that_was_refused_leaves_the_key_of_the_run_that_took_over(
    make_world: Make, answer: Callable[[], BaseException]
) -> None:
    """The other run has sent the same key: under a new one the next run would charge twice."""
    effect = Effect().then(answer())
    world = make_world(handlers={"work": effect})
    (job_id,) = world.enqueue("work")
    effect.during = lambda context: take_over_and_begin(world, job_id) if len(effect.keys) == 1 else None
    assert world.tick()["lease_lost"] == 1
    assert world.sql("select generation from giftcard_effects") == [{"generation": 1}]
    world.sql("update giftcard_jobs set status = 'queued', scheduled_at = now(), attempts = 0")
    assert world.tick()["completed"] == 1
    assert len(effect.keys) == 2
    assert len(set(effect.keys)) == 1


def take_over_and_begin(world: World, job_id: int) -> None:
    """Another run has the job, and begins the same effect."""
    lease = "00000000-0000-4000-8000-000000000001"
    world.sql("update giftcard_jobs set lease_id = %s where id = %s", lease, job_id)
    (begun,) = world.sql("select giftcard_begin_effect(%s, %s, 'do') as effect", job_id, lease)
    assert begun["effect"]["state"] == "unfinished"
