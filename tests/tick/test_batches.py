"""Ticks end a batch whose last job plain SQL has ended, and a batch under way costs a tick no further call."""

from tests.support.world import ADMIN, World, bearer


def create(world: World) -> int:
    job = {"stage": "report", "correlation_id": "a", "payload": {}, "delay_seconds": 3600}
    body = {"jobs": [job], "follow_up": {"stage": "report", "delay_seconds": 3600}}
    return int(world.client.post("/api/v1/batches", json=body, headers=bearer(ADMIN)).json["id"])


def test_a_tick_ends_what_an_update_has_ended_and_the_next_does_not_look(world: World) -> None:
    number = create(world)
    world.sql("update giftcard_jobs set status = 'cancelled' where batch_id = %s", number)
    assert world.tick()["maintenance"]["batches"] == {"ended": 1}
    assert world.value("select follow_up_job_id is not null from giftcard_batches")
    world.sql("update giftcard_maintenance_tasks set last_at = '-infinity' where task = 'batches'")
    assert "batches" not in world.tick()["maintenance"]


def test_while_a_batch_is_under_way_ticks_look_every_five_minutes(world: World) -> None:
    create(world)
    assert world.tick()["maintenance"]["batches"] == {"ended": 0}
    assert "batches" not in world.tick()["maintenance"]
