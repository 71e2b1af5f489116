"""Batches: the follow-up is enqueued once, in the transaction that ends the last job, however that ends."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.job import Complete, Error, NextJob, Retry
from lib.store.codec import Result
from tests.support.batches import FOLLOW_UP, create, follow_ups, ids, jobs, shown
from tests.support.bulk import carry_out
from tests.support.bulk import create as create_operation
from tests.support.factory import World
from tests.support.race import Race
from tests.support.triggers import refusing, silencing


def _run(world: World, job_id: int, outcome: Any = None) -> None:
    world.settle(world.claim_one(job_id), outcome or Complete())


def test_the_follow_up_is_enqueued_with_the_counts_when_the_last_job_ends(world: World) -> None:
    batch = create(world, 3, name="import 7")
    one, two, three = ids(batch)
    assert (batch["state"], batch["created"], batch["counts"]["queued"]) == ("running", True, 3)
    _run(world, one)
    _run(world, two, Error(error="TransientError: no"))
    assert follow_ups(world) == []
    world.call("cancel", job_id=three)
    expected = {"total": 3, "completed": 1, "error": 1, "cancelled": 1}
    assert follow_ups(world) == [{"id": batch["id"], "name": "import 7"} | expected]
    ended = shown(world, batch)
    assert (ended["state"], ended["ended_with"], ended["error"]) == ("ended", expected, None)
    job = world.job(ended["follow_up_job_id"])
    assert (job["stage"], job["status"], job["scheduled_at"], job["batch_id"]) == ("payment", "queued", world.now, None)


def test_one_settle_may_end_the_jobs_of_several_batches(world: World) -> None:
    batches = [create(world, follow_up=FOLLOW_UP | {"dedup_key": key}, jobs=jobs(2, dedup_key=key)) for key in "ab"]
    claimed = world.claim(10)
    world.settle_all(*(Result(job=job, outcome=Complete()) for job in claimed))
    assert [found["id"] for found in follow_ups(world)] == [batch["id"] for batch in batches]


def test_a_retry_and_a_dead_letter_that_will_revive_have_not_ended(world: World) -> None:
    batch = create(world, 1)
    (job_id,) = ids(batch)
    _run(world, job_id, Retry(error="TransientError: no", delay=0))
    assert follow_ups(world) == []
    _run(world, job_id, Error(error="TransientError: no", revive=60))
    assert (shown(world, batch)["state"], shown(world, batch)["reviving"], follow_ups(world)) == ("running", 1, [])
    world.later(61)
    world.begin(limit=0)
    _run(world, job_id, Error(error="TransientError: no"))
    assert [found["error"] for found in follow_ups(world)] == [1]


def test_next_jobs_belong_to_the_batch_which_ends_with_whole_flows(world: World) -> None:
    batch = create(world, 1)
    _run(world, ids(batch)[0], Complete(next=(NextJob(stage="issue_card"),)))
    assert (follow_ups(world), shown(world, batch)["counts"]["total"]) == ([], 2)
    (card,) = world.claim(10)
    assert (card.stage, world.job(card.id)["batch_id"]) == ("issue_card", batch["id"])
    world.settle(card, Complete())
    assert [found["completed"] for found in follow_ups(world)] == [2]


def test_an_open_batch_ends_only_once_it_is_sealed(world: World) -> None:
    batch = create(world, 1, open=True)
    _run(world, ids(batch)[0])
    assert (shown(world, batch)["state"], follow_ups(world)) == ("open", [])
    added = world.call("add_to_batch", id=batch["id"], jobs=[{"stage": "email", "correlation_id": "late"}])["jobs"]
    assert world.call("seal_batch", id=batch["id"])["state"] == "running"
    with pytest.raises(psycopg.Error) as refused:
        world.call("add_to_batch", id=batch["id"], jobs=[{"stage": "email", "correlation_id": "too late"}])
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("GC409", "batch_id")
    _run(world, added[0]["id"])
    assert [found["total"] for found in follow_ups(world)] == [2]


def test_one_whose_jobs_have_ended_ends_when_it_is_sealed_even_without_any(world: World) -> None:
    batch = create(world, 0, open=True)
    assert world.call("seal_batch", id=batch["id"])["state"] == "ended"
    assert world.call("seal_batch", id=batch["id"])["state"] == "ended"
    assert [found["total"] for found in follow_ups(world)] == [0]


def test_a_job_waits_for_what_seals_the_batch_meanwhile(world: World, race: Race) -> None:
    batch = create(world, 1, open=True)
    race.first.call("seal_batch", id=batch["id"])
    job = [{"stage": "email", "correlation_id": "late", "batch_id": batch["id"]}]
    waiting = race.second_waits(lambda w: w.call("enqueue", jobs=job))
    race.commit()
    with pytest.raises(psycopg.Error, match="is sealed"):
        waiting.result()


def test_the_last_of_two_that_settle_at_once_ends_the_batch(world: World, race: Race) -> None:
    batch = create(world, 2)
    first, second = (world.claim_one(job_id) for job_id in ids(batch))
    race.first.settle(first, Complete())
    waiting = race.second_waits(lambda w: w.settle(second, Complete()))
    assert follow_ups(world) == []
    race.commit()
    waiting.result()
    assert [found["completed"] for found in follow_ups(world)] == [2]


def test_of_two_creations_with_one_name_the_second_is_the_first(world: World) -> None:
    batch = create(world, 2, name="n")
    again = create(world, 2, name="n")
    assert (again["id"], again["created"], ids(again)) == (batch["id"], False, ids(batch))
    assert create(world, 1, name="n", tenant_id="another")["created"]
    with pytest.raises(psycopg.Error) as refused:
        create(world, 3, name="n")
    assert (refused.value.sqlstate, refused.value.diag.message_detail) == ("GC422", "name")


@pytest.mark.parametrize(
    ("given", "sqlstate", "field"),
    [
        ({"jobs": []}, "GC400", "jobs"),
        ({"jobs": {}}, "GC400", "jobs"),
        ({"jobs": [7]}, "GC400", "jobs"),
        ({"name": "x" * 201}, "GC400", "name"),
        ({"follow_up": []}, "GC400", "follow_up"),
        ({"follow_up": {}}, "GC400", "follow_up.stage"),
        ({"follow_up": FOLLOW_UP | {"batch_id": 1}}, "GC400", "follow_up.batch_id"),
        ({"follow_up": FOLLOW_UP | {"priority": 11}}, "23514", None),
        ({"jobs": [{"stage": "email", "correlation_id": "known"}]}, "GC409", "jobs"),
        ({"follow_up": {"stage": "email", "correlation_id": "known"}}, "GC409", "follow_up"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_whole(
    world: World, given: dict[str, Any], sqlstate: str, field: str | None
) -> None:
    world.enqueue(correlation_id="known")
    with pytest.raises(psycopg.Error) as refused:
        create(world, **given)
    assert (refused.value.sqlstate, field and refused.value.diag.message_detail) == (sqlstate, field)
    assert world.rows("select * from giftcard_batches") == []
    assert len(world.rows("select * from giftcard_jobs")) == 1


@pytest.mark.parametrize(("tenant", "sqlstate"), [("default", "GC409"), ("another", "GC404")])
def test_no_job_joins_a_sealed_batch_or_that_of_another_tenant(world: World, tenant: str, sqlstate: str) -> None:
    job = {"stage": "email", "correlation_id": "late", "tenant_id": tenant, "batch_id": create(world)["id"]}
    with pytest.raises(psycopg.Error) as refused:
        world.call("enqueue", jobs=[job])
    assert refused.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "end",
    [
        "update giftcard_jobs set status = 'cancelled' where batch_id = %s",
        "delete from giftcard_jobs where batch_id = %s",
        "update giftcard_jobs set status = 'error', revive_at = null where batch_id = %s",
    ],
)
def test_ticks_end_one_whose_jobs_plain_sql_has_ended(world: World, end: str) -> None:
    batch = create(world)
    assert world.call("end_quiet_batches") == 0
    world.run(end, batch["id"])
    assert (world.call("end_quiet_batches"), world.call("end_quiet_batches")) == (1, 0)
    assert len(follow_ups(world)) == 1


def test_a_tick_is_due_to_look_only_while_a_sealed_batch_has_not_ended(world: World) -> None:
    assert "batches" not in world.begin(limit=0).step.maintenance
    batch = create(world)
    assert "batches" in world.begin(limit=0).step.maintenance
    for job_id in ids(batch):
        world.call("cancel", job_id=job_id)
    assert "batches" not in world.begin(limit=0).step.maintenance


@pytest.mark.parametrize(("trigger", "reason"), [(refusing, "not this row"), (silencing, "leaves the row as it was")])
def test_a_follow_up_that_is_refused_fails_no_settle_and_is_tried_again(
    world: World, trigger: Callable[..., list[str]], reason: str
) -> None:
    batch = create(world, 1)
    refuses = "new.stage = 'payment' and current_setting('test.refuses', true) = 'on'"
    for statement in (*trigger("giftcard_jobs", "insert", refuses), "set local test.refuses = 'on'"):
        world.run(statement)
    _run(world, ids(batch)[0])
    stuck = shown(world, batch)
    assert (world.job(ids(batch)[0])["status"], stuck["state"]) == ("completed", "running")
    assert reason in stuck["error"]
    (fault,) = world.rows("select kind, row_id from giftcard_faulty_rows")
    assert fault == {"kind": "batch", "row_id": str(batch["id"])}
    world.run("set local test.refuses = 'off'")
    assert world.call("end_quiet_batches") == 1
    assert (shown(world, batch)["error"], len(follow_ups(world))) == (None, 1)


def test_a_job_that_is_requeued_after_the_end_brings_no_second_follow_up(world: World) -> None:
    batch = create(world, 1)
    _run(world, ids(batch)[0], Error(error="TransientError: no"))
    world.call("requeue", job_id=ids(batch)[0])
    again = shown(world, batch)
    assert (again["state"], again["counts"]["queued"], again["ended_with"]["error"]) == ("ended", 1, 1)
    _run(world, ids(batch)[0])
    assert (len(follow_ups(world)), shown(world, batch)["counts"]["completed"]) == (1, 1)


def test_an_operation_cancels_or_requeues_the_jobs_of_a_batch_alone(world: World) -> None:
    batch, other = create(world, 5), world.enqueue()
    only = {"batch_id": str(batch["id"])}
    create_operation(world, "cancel", filter=only)
    assert [step["changed"] for step in carry_out(world, limit=2)] == [2, 4, 5]
    assert [found["cancelled"] for found in follow_ups(world)] == [5]
    assert world.job(other)["status"] == "queued"
    assert [job["id"] for job in world.call("list_jobs", filter=only)["jobs"]] == ids(batch)[::-1]
    assert world.call("list_jobs", filter={"batch_id": str(2**63 - 1)})["jobs"] == []
    for number in ("seven", str(2**63)):
        with pytest.raises(psycopg.Error, match="batch_id must be"):
            world.call("list_jobs", filter={"batch_id": number})


def test_jobs_are_archived_only_after_the_end_of_their_batch(world: World) -> None:
    batch = create(world, 2)
    _run(world, ids(batch)[0])
    prune = {"jobs": "1 day", "dry_run": False}
    world.later(2 * 86_400)
    assert world.call("prune", **prune)["jobs"] == 0
    world.call("cancel", job_id=ids(batch)[1])
    assert follow_ups(world)[0]["completed"] == 1
    world.later(2 * 86_400)
    assert world.call("prune", **prune)["jobs"] == 2
    assert shown(world, batch)["ended_with"]["total"] == 2
    world.later(30 * 86_400)
    world.call("prune", **prune)
    assert world.rows("select * from giftcard_batches") == []


def test_pages_of_batches_by_state(world: World) -> None:
    made = [create(world, 1, follow_up=None, jobs=jobs(1, dedup_key=str(n)), open=n == 0)["id"] for n in range(3)]
    world.call("cancel", job_id=world.rows("select max(id) as id from giftcard_jobs")[0]["id"])
    page = world.ask("list_batches", limit=2)
    assert ([row["id"] for row in page["batches"]], page["older"]) == (made[:0:-1], made[1])
    last = world.ask("list_batches", limit=2, older=page["older"])
    assert ([row["id"] for row in last["batches"]], last["older"]) == (made[:1], None)
    by_state = {state: world.ask("list_batches", state=state)["batches"] for state in ("open", "running", "ended")}
    assert {state: [row["id"] for row in rows] for state, rows in by_state.items()} == {
        "open": made[:1],
        "running": made[1:2],
        "ended": made[2:],
    }
