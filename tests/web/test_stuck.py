"""What does not move, each kind with its reason and the command that helps: `GET /api/v1/jobs/stuck`."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.job import Outcome, Snooze
from tests.support.world import ADMIN, World, an_order, bearer

Make = Callable[..., World]
OLD = "2026-01-31T12:00:00Z"


def stuck(world: World, **query: Any) -> dict[str, Any]:
    response = world.client.get("/api/v1/jobs/stuck", headers=bearer(ADMIN), query_string=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json
    return found


def due(world: World, stage: str = "payment") -> None:
    """Three jobs that have been due for long; the last tick has just been."""
    world.tick()
    world.enqueue(stage, count=3, scheduled_at=OLD)


def killed(world: World) -> None:
    world.tick()
    job_id = world.add("payment")
    world.sql("update giftcard_jobs set status = 'running', lease_expires_at = %s where id = %s", OLD, job_id)


def pause(world: World, stage: str) -> None:
    world.sql("insert into giftcard_stages (stage, paused_at, paused_by) values (%s, now(), 'ann')", stage)


def killed_while_all_is_paused(world: World) -> None:
    killed(world)
    pause(world, "*")


def due_in_a_paused_stage(world: World) -> None:
    due(world)
    pause(world, "payment")


def due_behind_a_circuit(world: World) -> None:
    due(world)
    world.sql("insert into giftcard_circuits (circuit, state, open_until) values ('payment', 'open', '2050-01-01Z')")


def due_without_ticks(world: World) -> None:
    due(world)
    world.sql("update giftcard_ticks set started_at = %s", OLD)


def dead(world: World) -> None:
    world.enqueue("email", count=2, status="error", last_error="E: kate@example.com", finished_at=OLD)
    world.enqueue("email", status="error", revive_at="2050-01-01T00:00:00Z", finished_at=OLD)


def faulty(kind: str) -> Callable[[World], None]:
    def plant(world: World) -> None:
        row = "(%s, '7', 'E: kate@example.com', %s, now(), now() + interval '9 min')"
        world.sql(f"insert into giftcard_faulty_rows values {row}", kind, OLD)

    return plant


def an_order_without_a_job(world: World) -> None:
    world.submit(an_order(correlation_id="flow"))
    world.sql("update giftcard_jobs set status = 'cancelled'")
    world.sql("update giftcard_orders set created_at = %s", OLD)


def a_paused_schedule(world: World) -> None:
    world.sql(
        "insert into giftcard_schedules (schedule, stage, paused_at, paused_by, pause_reason)"
        " values ('* * * * *', 'email', %s, 'ann', 'holidays')", OLD
    )  # fmt: skip


# What stands in the database, and of the first line: kind, subject, reason, part of the sentence, command.
CASES: dict[str, tuple[Callable[[World], None], str, str, str, str, str]] = {
    "killed": (killed, "killed", "job 1", "killed", "lease ended 2026-01-31 12:00:00Z", "flask jobs tick"),
    "killed, paused": (
        killed_while_all_is_paused, "killed", "job 1", "all_paused", "paused by ann", "flask jobs resume '*'"
    ),
    "due": (due, "due", "queue payment", "next_tick", "the next tick takes it", "flask jobs doctor"),
    "paused": (
        due_in_a_paused_stage, "due", "queue payment", "stage_paused", "paused by ann", "flask jobs resume payment"
    ),
    "circuit": (
        *(due_behind_a_circuit, "due", "queue payment", "circuit_open", "is open until 2050-01-01 00:00:00Z"),
        "flask jobs circuits reset payment",
    ),
    "unknown": (
        *(lambda world: due(world, "teleport"), "due", "queue teleport", "stage_unknown", "knows no stage teleport"),
        "flask jobs list --status queued --stage teleport",
    ),
    "no ticks": (
        *(due_without_ticks, "due", "queue payment", "no_tick", "no tick since 2026-01-31 12:00:00Z"),
        "flask jobs doctor",
    ),
    "dead": (dead, "dead", "dead letters of email", "dead", "do not revive", "flask jobs errors --stage email"),
    "faulty": (faulty("circuit"), "faulty", "circuit 7", "faulty", "E: [email]; ticks pass", "flask jobs doctor"),
    "faulty job": (faulty("job"), "faulty", "job 7", "faulty", "E: [email]; ticks pass", "flask jobs show 7"),
    "order": (
        *(an_order_without_a_job, "order", "order flow", "no_job", "job 1 of customer_ingest is cancelled"),
        "flask jobs orders show flow --tenant default",
    ),
    "schedule": (
        *(a_paused_schedule, "schedule", "schedule 1", "schedule_paused", "it is paused by ann: holidays"),
        "flask jobs schedules resume 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_stuck_has_its_reason_and_a_command(world: World, case: str) -> None:
    plant, kind, subject, reason, why, fix = CASES[case]
    plant(world)
    (thing,) = stuck(world)["stuck"]
    assert (thing["kind"], thing["subject"], thing["reason"], thing["fix"]) == (kind, subject, reason, fix)
    assert why in thing["why"]
    if case != "faulty":
        assert thing["since"].startswith("2026-01-31T12:00:00")
    assert thing["count"] == {"due": 3, "dead": 2}.get(kind, 1)


def test_nothing_is_stuck_that_moves(world: World) -> None:
    world.submit()
    world.drain()
    world.add("email", an_order(), scheduled_at="2050-01-01T00:00:00Z")
    world.submit(an_order(correlation_id="new"))
    assert stuck(world) | {"now": None} == {"now": None, "stuck": [], "truncated": []}


def test_the_due_time_is_given_in_seconds(world: World) -> None:
    world.tick()
    world.add("payment", scheduled_at=OLD)
    assert stuck(world, due_seconds=10**7) != []
    world.sql("update giftcard_jobs set scheduled_at = now() - interval '1 minute'")
    assert [len(stuck(world, due_seconds=seconds)["stuck"]) for seconds in (30, 300)] == [1, 0]


def test_a_job_that_snoozes_for_long_is_stuck(make_world: Make) -> None:
    def handler(payload: Any, context: Any) -> Outcome:
        return Snooze(delay=600, waiting_for="the payment service")

    world = make_world(handlers={"work": handler})
    job_id = world.add("work")
    world.tick()
    assert stuck(world)["stuck"] == []
    world.sql("update giftcard_job_history set started_at = now() - interval '2 hours'")
    (thing,) = stuck(world)["stuck"]
    assert (thing["kind"], thing["job_id"], thing["why"]) == ("snoozed", job_id, "waiting for the payment service")
    assert thing["fix"] == f"flask jobs show {job_id}"
    assert stuck(world, snoozed_seconds=10_000)["stuck"] == []


def test_the_worst_comes_first(world: World) -> None:
    for plant in (a_paused_schedule, dead, faulty("circuit"), killed):
        plant(world)
    world.add("payment", scheduled_at=OLD)
    assert [thing["kind"] for thing in stuck(world)["stuck"]] == ["killed", "due", "faulty", "dead", "schedule"]


def test_a_stage_that_lacks_a_setting_and_the_setting_that_pauses_all(world: World, make_world: Make) -> None:
    due(world, "email")
    (thing,) = stuck(make_world(GIFTCARD_ENV="production"))["stuck"]
    assert (thing["reason"], "SMTP_URL" in thing["why"], thing["fix"]) == (
        *("stage_not_configured", True), "flask jobs doctor"
    )  # fmt: skip
    (thing,) = stuck(make_world(GIFTCARD_PAUSED=1))["stuck"]
    assert (thing["reason"], thing["fix"]) == ("all_paused", "unset GIFTCARD_PAUSED and deploy again")


def test_of_each_kind_the_oldest_twenty_are_listed(world: World) -> None:
    world.tick()
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, circuit, scheduled_at)"
        " select i, 'payment', 'payment:' || i, now() - make_interval(hours => i) from generate_series(1, 30) i"
    )
    found = stuck(world)
    assert [thing["name"] for thing in found["stuck"]] == [f"payment:{number}" for number in range(30, 10, -1)]
    assert found["truncated"] == ["due"]
    world.sql(
        "insert into giftcard_jobs (correlation_id, stage, scheduled_at)"
        " select 'm' || i, 'email', '2020-01-01Z' from generate_series(1, 1100) i"
    )
    first = stuck(world)["stuck"][0]
    assert (first["name"], first["count"], first["capped"]) == ("email", 1000, True)
