"""Operations on many jobs: created once, carried out in steps, stopped, and fair to what came later."""

from typing import Any

import pytest

from lib.job import Error, Retry
from tests.support.bulk import carry_out, create, shown, statuses, step
from tests.support.factory import World, each

Row = dict[str, Any]


def test_it_goes_up_by_id_in_steps_that_each_count(world: World) -> None:
    ids = each(world.dead_letter, 5)
    operation = create(world, filter={"stage": "email"})
    assert (operation["total"], operation["capped"], operation["state"]) == (5, False, "running")
    assert statuses(world, ids) == ["error"] * 5
    first = step(world, limit=2)
    assert first == {"id": operation["id"], "state": "running", "matched": 2, "changed": 2, "waits": False}
    assert (statuses(world, ids), shown(world, operation)["after_id"]) == (["queued"] * 2 + ["error"] * 3, ids[1])
    assert [row["state"] for row in carry_out(world, limit=2)][-1] == "completed"
    done = shown(world, operation)
    assert (done["matched"], done["changed"], done["finished_at"] is None) == (5, 5, False)
    assert statuses(world, ids) == ["queued"] * 5
    assert step(world) is None


def test_a_preview_counts_by_stage_and_changes_nothing(world: World) -> None:
    each(world.dead_letter, 2)
    world.dead_letter("payment")
    world.enqueue()
    found = world.ask("preview_operation", action="requeue")
    assert found == {
        "count": 3,
        "capped": False,
        "by_stage": [{"stage": "email", "count": 2}, {"stage": "payment", "count": 1}],
    }
    assert world.ask("preview_operation", action="cancel")["count"] == 4
    assert world.rows("select * from giftcard_operations") == []


@pytest.mark.slow
def test_counts_are_capped_and_say_so(world: World) -> None:
    world.run(
        "insert into giftcard_jobs (correlation_id, stage, status, finished_at) select i, 'email', 'error', now()"
        " from generate_series(1, 10001) i"
    )
    found = world.ask("preview_operation", action="requeue", filter={"status": "error"})
    assert (found["count"], found["capped"], found["by_stage"]) == (10_000, True, [{"stage": "email", "count": 10_000}])
    operation = create(world)
    assert (operation["total"], operation["capped"]) == (10_000, True)
    assert carry_out(world)[-1]["changed"] == 10_001


def test_the_same_key_is_the_same_operation(world: World) -> None:
    world.dead_letter()
    first = create(world, idempotency_key="k")
    again = create(world, idempotency_key="k", reason="another")
    assert (again["id"], first["created"], again["created"]) == (first["id"], True, False)
    assert len(world.rows("select * from giftcard_audit where action = 'create_operation'")) == 1
    carry_out(world)
    assert create(world, idempotency_key="k")["state"] == "completed"
    with pytest.raises(Exception, match="used for another operation"):
        create(world, idempotency_key="k", filter={"stage": "email"})
    assert create(world, idempotency_key="k", tenant_id="shop")["id"] != first["id"]
    assert create(world)["id"] != create(world)["id"]


def test_only_jobs_that_were_there_are_touched(world: World) -> None:
    """What enters the filter later stays: a new job, an old one that dies or is requeued and dies again."""
    one, two = each(world.dead_letter, 2)
    dies_later = world.claimed()
    create(world, filter={"stage": "email"})
    world.later(1)
    world.settle(dies_later, Error(error="E: no"))
    world.call("requeue", job_id=two)
    world.settle(world.claim_one(two), Error(error="E: again"))
    new = world.dead_letter()
    carry_out(world, limit=1)
    assert statuses(world, [one, two, dies_later.id, new]) == ["queued", "error", "error", "error"]


def test_a_new_job_is_not_cancelled(world: World) -> None:
    old = world.enqueue()
    create(world, "cancel")
    new = world.enqueue()
    carry_out(world)
    assert statuses(world, [old, new]) == ["cancelled", "queued"]


@pytest.mark.parametrize(
    "change",
    [
        "update giftcard_jobs set stage = 'payment', circuit = 'payment' where id = %s",
        "update giftcard_jobs set last_error = 'E: other' where id = %s",
        "update giftcard_jobs set tenant_id = 'other' where id = %s",
        "update giftcard_jobs set status = 'completed' where id = %s",
        "update giftcard_jobs set status = 'cancelled' where id = %s",
        "delete from giftcard_jobs where id = %s",
        "select giftcard_archive_jobs(array[%s::bigint], now())",
    ],
)
def test_what_fits_no_more_is_passed_over(world: World, change: str) -> None:
    kept, other = each(lambda: world.dead_letter(tenant_id="shop"), 2)
    operation = create(
        world, filter={"stage": "email", "error": "no", "error_kind": "TransientError: no"}, tenant_id="shop"
    )
    world.run(change, other)
    before = world.rows("select * from giftcard_jobs where id = %s", other)
    carry_out(world)
    assert world.rows("select * from giftcard_jobs where id = %s", other) == before
    assert world.job(kept)["status"] == "queued"
    assert shown(world, operation)["changed"] == 1


def test_selected_jobs_are_requeued_in_error_and_cancelled(world: World) -> None:
    wanted = [world.dead_letter(), world.cancelled(), world.completed(), world.enqueue()]
    other = world.dead_letter()
    operation = create(world, job_ids=(*wanted, 2**60))
    assert (operation["total"], operation["selected"], operation["job_ids"]) == (2, 5, [*wanted, 2**60])
    carry_out(world)
    assert statuses(world, [*wanted, other]) == ["queued", "queued", "completed", "queued", "error"]


def test_cancel_asks_running_jobs_to_end(world: World) -> None:
    queued, dead, done = world.enqueue(), world.dead_letter(), world.completed()
    running = world.claimed()
    operation = create(world, "cancel")
    carry_out(world)
    assert statuses(world, [queued, dead, done, running.id]) == ["cancelled", "cancelled", "completed", "running"]
    assert shown(world, operation)["changed"] == 3
    world.settle(running, Retry(delay=1, error="E: no"))
    assert world.job(running.id)["status"] == "cancelled"


def test_a_stop_keeps_the_rest_as_it_is(world: World) -> None:
    ids = each(world.dead_letter, 3)
    operation = create(world)
    step(world, limit=1)
    stopped = world.call("stop_operation", id=operation["id"], by="kim")
    assert (stopped["state"], stopped["stopped_because"], stopped["changed"]) == ("stopped", "stopped by kim", 1)
    assert step(world) is None
    assert statuses(world, ids) == ["queued", "error", "error"]
    assert world.call("stop_operation", id=operation["id"], by="ann") == stopped
    acts = world.rows(
        "select action, subject, details from giftcard_audit where subject like 'operation%%' order by id"
    )
    assert [act["action"] for act in acts] == ["create_operation", "stop_operation"]
    assert acts[0]["details"] == {
        "action": "requeue", "filter": {}, "total": 3, "reason": "the vendor is back"
    }  # fmt: skip


def test_what_has_ended_is_not_stopped(world: World) -> None:
    operation = create(world)
    carry_out(world)
    with pytest.raises(Exception, match=f"operation {operation['id']} is completed: there is nothing to stop"):
        world.call("stop_operation", id=operation["id"])
    with pytest.raises(Exception, match="operation 99 does not exist"):
        world.call("stop_operation", id=99)


def test_operations_take_turns(world: World) -> None:
    each(lambda: world.dead_letter("email"), 2)
    each(lambda: world.dead_letter("payment"), 2)
    first, second = (create(world, filter={"stage": stage}) for stage in ("email", "payment"))
    done = []
    for _ in range(4):
        world.later(1)
        done.append((step(world, limit=1) or {})["id"])
    assert done == [first["id"], second["id"]] * 2


def test_a_step_that_fails_ends_its_operation_alone(world: World) -> None:
    world.dead_letter()
    other = world.dead_letter("payment")
    bad, good = (create(world, filter={"stage": stage}) for stage in ("email", "payment"))
    world.run('update giftcard_operations set filter = \'{"created_after": "then"}\' where id = %s', bad["id"])
    carry_out(world)
    failed = shown(world, bad)
    assert failed["state"] == "failed"
    assert failed["error"] == "created_after must be a time with its zone, like 2026-01-31T12:00:00Z (SQLSTATE GC400)"
    assert (shown(world, good)["state"], world.job(other)["status"]) == ("completed", "queued")


def test_it_is_due_while_one_runs_and_pruned_a_month_later(world: World) -> None:
    def due() -> bool:
        return "operations" in world.rows("select giftcard_due_maintenance(%s) as due", world.now)[0]["due"]

    assert due() is False
    operation, running = create(world), create(world)
    world.run("update giftcard_operations set created_at = '-infinity' where id = %s", running["id"])
    assert due() is True
    assert world.call("begin_maintenance", task="operations") is True
    step(world)
    world.later(1)
    assert due() is True
    world.later(29 * 86_400)
    world.call("prune", dry_run=False)
    assert shown(world, operation)["state"] == "completed"
    world.later(86_400)
    world.call("prune", dry_run=False)
    assert [row["id"] for row in world.ask("list_operations")["operations"]] == [running["id"]]
    step(world)
    assert due() is False


def test_a_tenant_has_its_own_operations_and_jobs_only(world: World) -> None:
    own, other = world.dead_letter(tenant_id="a"), world.dead_letter(tenant_id="b")
    of_a = create(world, tenant_id="a")
    by_ids = create(world, tenant_id="a", job_ids=(own, other), action="cancel")
    of_all = create(world, filter={"tenant_id": "b"}, action="requeue_slowly")
    assert (of_a["total"], by_ids["total"], of_all["tenant_id"]) == (1, 1, "b")
    assert world.ask("preview_operation", action="requeue", tenant_id="a")["count"] == 1
    listed = world.ask("list_operations", tenant_id="a")["operations"]
    assert [row["id"] for row in listed] == [by_ids["id"], of_a["id"]]
    for call in (world.ask, world.call):
        name = "show_operation" if call == world.ask else "stop_operation"
        with pytest.raises(Exception, match="does not exist"):
            call(name, id=of_all["id"], tenant_id="a")
    world.call("stop_operation", id=of_all["id"])
    carry_out(world)
    assert statuses(world, [own, other]) == ["cancelled", "error"]


def test_a_list_has_pages_and_states(world: World) -> None:
    made = [create(world)["id"] for _ in range(3)]
    world.call("stop_operation", id=made[1])
    page = world.ask("list_operations", limit=2)
    assert ([row["id"] for row in page["operations"]], page["older"]) == ([made[2], made[1]], made[1])
    assert [row["id"] for row in world.ask("list_operations", older=page["older"])["operations"]] == [made[0]]
    assert [row["id"] for row in world.ask("list_operations", state="stopped")["operations"]] == [made[1]]
