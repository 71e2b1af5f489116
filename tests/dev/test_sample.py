"""The sample data of `make dev`: planted once, with trouble that the page can fix."""

import pytest

from dev.sample import plant
from tests.support.world import CRON, World, bearer


@pytest.mark.slow
def test_an_empty_database_gets_orders_and_trouble_once(world: World) -> None:
    orders = plant(world.services, world.url)
    assert orders > 100
    assert world.value("select count(*) from public.giftcard_orders") == orders
    assert plant(world.services, world.url) == 0
    assert [row["name"] for row in world.sql("select name from public.giftcard_schedules")] == ["daily report"]
    assert world.statuses() == {"queued": orders + 4}
    tick = world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
    assert tick.status_code == 200
    dead = world.sql("select stage, last_error from public.giftcard_jobs where status = 'error'")
    assert [row["stage"] for row in dead] == ["report"]


def test_a_database_with_orders_stays_as_it_is(world: World) -> None:
    assert world.submit().status_code == 202
    before = world.row_counts()
    assert plant(world.services, world.url) == 0
    assert world.row_counts() == before
