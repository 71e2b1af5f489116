"""Bulk statements find rows by a condition, and check it again once they hold them."""

import pytest

from tests.support.factory import World
from tests.support.race import Race


def test_a_requeue_in_bulk_leaves_what_was_cancelled_meanwhile(world: World, race: Race) -> None:
    jobs = [world.dead_letter() for _ in range(3)]
    race.first.call("cancel", job_id=jobs[1])
    waiting = race.second_waits(lambda w: w.call("requeue_jobs", filter={}, dry_run=False))
    race.commit()
    assert waiting.result()["requeued"] == 2
    assert [world.job(job)["status"] for job in jobs] == ["queued", "cancelled", "queued"]


@pytest.mark.parametrize(
    ("change", "filter_"),
    [
        ("last_error = 'E: another'", {"error": "transient"}),
        ("circuit = 'email:b'", {"circuit": "email"}),
        ("created_at = '2001-01-01'", {"created_after": "2002-01-01T00:00:00Z"}),
        ("created_at = '2099-01-01'", {"created_before": "2098-01-01T00:00:00Z"}),
    ],
)
def test_a_requeue_in_bulk_takes_only_what_fits_once_it_is_locked(
    world: World, race: Race, change: str, filter_: dict[str, str]
) -> None:
    jobs = [world.dead_letter() for _ in range(2)]
    race.first.run(f"update giftcard_jobs set {change} where id = %s", jobs[0])
    waiting = race.second_waits(lambda w: w.call("requeue_jobs", filter=filter_, dry_run=False))
    race.commit()
    assert waiting.result()["ids"] == [jobs[1]]
    assert world.job(jobs[0])["status"] == "error"
