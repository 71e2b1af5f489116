"""A preview deployment runs no tick, whoever calls it, unless it is allowed to."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Forbidden
from lib.job import Complete
from tests.support.world import ADMIN, World, bearer
from tests.tick.test_commands import complains, run

Make = Callable[..., World]

REFUSAL = "Error: a preview deployment runs no tick: set GIFTCARD_ALLOW_PREVIEW=1 to allow it\n"


def preview(make_world: Make, **more: Any) -> World:
    return make_world(
        handlers={"work": lambda payload, context: Complete()},
        **({"VERCEL_ENV": "preview", "GIFTCARD_ENV": None} | more),
    )


@pytest.mark.parametrize("environment", [None, "development", "production"])
def test_no_tick_runs_whatever_calls_it(make_world: Make, environment: str | None) -> None:
    world = preview(make_world, GIFTCARD_ENV=environment)
    (job_id,) = world.enqueue("work")
    with pytest.raises(Forbidden, match="preview"):
        world.run()
    assert complains(world, "tick", code=2) == REFUSAL
    assert complains(world, "tick", "--job-id", job_id, code=2) == REFUSAL
    assert world.client.post("/api/jobs/run", headers=bearer(ADMIN)).status_code == 403
    assert (world.job(job_id)["status"], world.row_counts()["giftcard_ticks"]) == ("queued", 0)


def test_a_slow_requeue_that_would_run_one_job_first_changes_nothing(make_world: Make) -> None:
    world = preview(make_world)
    (job_id,) = world.enqueue("work", status="error", last_error="no")
    assert complains(world, "requeue", "--slowly", "--all", "--yes", code=2) == REFUSAL
    assert world.job(job_id)["status"] == "error"


def test_it_runs_ticks_once_it_is_allowed(make_world: Make) -> None:
    world = preview(make_world, GIFTCARD_ALLOW_PREVIEW=1)
    (job_id,) = world.enqueue("work")
    assert run(world, "tick").exit_code == 0
    assert world.job(job_id)["status"] == "completed"
