"""Each act of an operator is one row of the audit: who, as which role, of which tenant, what, on what."""

import json
from typing import Any

import psycopg
import pytest

from tests.support.acts import ACTS, FLOW, PERSONAL, SHOP, an_endpoint, an_order, dead, update, version
from tests.support.factory import World

Row = dict[str, Any]

# The helpers that write the rows.
WRITERS = {
    "actor", "record_act", "record_jobs", "record_schedule", "record_schedule_update", "record_endpoint",
    "record_token", "record_limit", "enqueue_and_wake",
}  # fmt: skip


def acts(world: World) -> list[Row]:
    return world.rows("select * from public.giftcard_audit order by id")


def new_acts(world: World, before: int) -> list[Row]:
    return acts(world)[before:]


def test_every_function_of_an_act_is_walked(world: World) -> None:
    """An act takes p_by and changes something: whoever adds one adds it to the walk."""
    functions = world.rows(
        "select substr(proname, 10) as name from pg_proc where pronamespace = 'public'::regnamespace"
        " and provolatile = 'v' and 'p_by' = any (proargnames)"
    )
    assert {f["name"] for f in functions} - WRITERS == set(ACTS)


@pytest.mark.parametrize("function", ACTS)
def test_each_act_is_one_row(world: World, function: str) -> None:
    act = ACTS[function]
    row_id = act.before(world)
    arguments, before = act.arguments(world, row_id), len(acts(world))
    answer = world.call(function, **arguments, by="token of kim")
    (row,) = new_acts(world, before)
    new = answer[0]["id"] if isinstance(answer, list) else answer.get("id")
    assert (row["by"], row["tenant_id"], row["action"]) == ("token of kim", act.tenant, act.action)
    assert row["subject"] == act.subject.format(row_id, new=new)
    (who,) = world.rows("select session_user::text as role")
    assert (row["role"], row["at"]) == (who["role"], world.now)
    assert [text for text in PERSONAL if text in json.dumps(row["details"])] == []


@pytest.mark.parametrize("function", sorted(set(ACTS) - {"enqueue", "make_report"}))
def test_an_act_of_no_name_is_that_of_the_database_role(world: World, function: str) -> None:
    act = ACTS[function]
    arguments = act.arguments(world, act.before(world))
    before = len(acts(world))
    world.call(function, **arguments)
    (row,) = new_acts(world, before)
    assert row["by"] == row["role"]


# Those of jobs, stages and circuits, and the decisions that an operator has to explain.
WITH_A_REASON = (
    *("requeue", "requeue_jobs", "requeue_dead_letters", "create_operation", "cancel", "cancel_flow", "restore_job"),
    *("pause", "resume", "reset_circuit", "record_reveal", "make_free_of_charge", "accept_difference", "resend_mail"),
    *("pause_schedule", "set_limit", "remove_limit"),
)


def test_every_function_with_a_reason_is_walked(world: World) -> None:
    functions = world.rows(
        "select substr(proname, 10) as name from pg_proc where pronamespace = 'public'::regnamespace"
        " and provolatile = 'v' and 'p_reason' = any (proargnames) and 'p_by' = any (proargnames)"
    )
    assert {f["name"] for f in functions} == set(WITH_A_REASON)


@pytest.mark.parametrize("function", WITH_A_REASON)
def test_the_reason_of_an_act_is_kept(world: World, function: str) -> None:
    act = ACTS[function]
    arguments = act.arguments(world, act.before(world)) | {"reason": "the vendor is back"}
    before = len(acts(world))
    world.call(function, **arguments, by="kim")
    (row,) = new_acts(world, before)
    assert row["details"]["reason"] == "the vendor is back"


@pytest.mark.parametrize("function", ["enqueue", "make_report"])
def test_what_a_program_does_is_no_act(world: World, function: str) -> None:
    world.call(function, **ACTS[function].arguments(world, None))
    assert acts(world) == []


# The second call of any other is refused, or does its work once more.
REPEATABLE = (
    *("enqueue", "cancel", "cancel_flow", "pause", "reset_circuit", "record_order_event", "make_free_of_charge"),
    *(
        "correct_recipient",
        "request_block",
        "resend_mail",
        "pause_schedule",
        "update_webhook_endpoint",
        "create_token",
        "revoke_token",
        "set_limit",
    ),
)


@pytest.mark.parametrize("function", REPEATABLE)
def test_an_act_that_changes_nothing_is_none(world: World, function: str) -> None:
    act = ACTS[function]
    arguments = act.arguments(world, act.before(world))
    world.call(function, **arguments, by="kim")
    before = acts(world)
    world.call(function, **arguments, by="kim")
    assert acts(world) == before


@pytest.mark.parametrize("function", ACTS)
def test_an_act_that_is_undone_leaves_no_row(world: World, function: str) -> None:
    """The row is of the act's own transaction."""
    act = ACTS[function]
    arguments = act.arguments(world, act.before(world))
    before = acts(world)
    with world.connection.transaction() as undone:
        world.call(function, **arguments, by="kim")
        assert len(acts(world)) == len(before) + 1
        raise psycopg.Rollback(undone)
    assert acts(world) == before


def test_a_corrected_payload_is_named_by_its_fields(world: World) -> None:
    job_id = dead(world)
    payload = {"to": "anna@example.com", "copy": None}
    world.call("requeue", job_id=job_id, payload=payload, reason="a typing error", by="kim")
    (row,) = acts(world)
    details = {"was": "error", "changed": ["copy", "to"], "reason": "a typing error"}
    assert (row["action"], row["details"]) == ("payload", details)


def test_a_job_that_is_replaced_by_an_enqueue_is_part_of_it(world: World) -> None:
    job_id = dead(world)
    job = {name: world.job(job_id)[name] for name in ("tenant_id", "correlation_id", "stage")}
    world.call("enqueue", jobs=[job | {"payload": {}}], replace=True, by="kim")
    assert [(row["action"], row["subject"]) for row in acts(world)] == [("enqueue", f"job {job_id}")]


def test_a_bulk_act_is_one_row_for_each_tenant(world: World) -> None:
    mine = [dead(world) for _ in range(3)]
    other = world.dead_letter(tenant_id="other")
    world.call("requeue_jobs", filter={"stage": "email", "error": "NO"}, dry_run=False, by="kim")
    one, two = acts(world)
    assert (one["tenant_id"], one["subject"], one["details"]["by_error"]) == ("other", f"job {other}", True)
    assert (two["tenant_id"], two["subject"]) == ("shop", f"jobs {mine[0]} to {mine[-1]}")
    assert (two["details"]["jobs"], two["details"]["filter"]) == (3, {"stage": "email"})
    world.call("requeue_jobs", filter={"stage": "email"}, dry_run=True, by="kim")
    assert len(acts(world)) == 2


def test_a_cancelled_flow_is_one_row(world: World) -> None:
    an_order(world)
    world.enqueue(**FLOW)
    world.call("cancel_flow", **FLOW, by="kim")
    assert [(row["action"], row["details"]) for row in acts(world)] == [("cancel_flow", {"jobs": 2})]


def test_a_request_to_cancel_a_run_is_recorded_once(world: World) -> None:
    job = world.claimed(**SHOP)
    for _ in range(2):
        assert world.call("cancel", job_id=job.id, by="kim")["cancel_requested"]
    assert [row["details"] for row in acts(world)] == [{"was": "running"}]


def test_who_pauses_is_kept_beside_the_name_that_is_shown(world: World) -> None:
    shown = world.call("pause", stage="email", paused_by="Kim Lee", reason="vendor moves", by="token of kim")
    assert shown["paused_by"] == "Kim Lee"
    world.call("resume", stage="email", by="token of kim")
    paused, resumed = acts(world)
    assert (paused["by"], paused["details"]) == ("token of kim", {"paused_by": "Kim Lee", "reason": "vendor moves"})
    assert (resumed["by"], resumed["details"]) == ("token of kim", {})


def test_an_update_names_what_it_changed(world: World) -> None:
    number = an_endpoint(world)
    world.call("update_webhook_endpoint", endpoint_id=number, enabled=False, url="https://new.example/", by="kim")
    assert acts(world)[-1]["details"] == {"changed": ["disabled_reason", "enabled", "url"]}


def test_an_update_of_a_schedule_that_changes_nothing_is_no_act(world: World) -> None:
    schedule_id = ACTS["save_schedule"].before(world)
    for _ in range(2):
        world.call("save_schedule", **update(world, schedule_id), by="kim")
    assert version(world, schedule_id) == 3
    assert [row["details"]["changed"] for row in acts(world)] == [["payload", "source", "ttr_seconds"]]


@pytest.mark.parametrize(
    "statement",
    [
        "update giftcard_audit set by = 'eve'",
        "delete from giftcard_audit",
        "delete from giftcard_audit where false",
        "truncate giftcard_audit",
    ],
)
def test_the_audit_is_append_only_even_for_its_owner(world: World, statement: str) -> None:
    world.call("pause", stage="email")
    with pytest.raises(psycopg.Error, match="append-only") as caught:
        world.run(statement)
    assert caught.value.sqlstate == "GC409"


@pytest.mark.parametrize("action", ["Requeue", "re queue", "", "x" * 51])
def test_an_action_is_a_name(world: World, action: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="giftcard_audit_action_is_a_name"):
        world.ask("record_act", by="kim", tenant_id=None, action=action, subject="job 1")


# Listing


def test_a_page_of_the_audit_has_the_newest_first_and_fits_its_filters(world: World) -> None:
    for index, name in enumerate(("kim", "lee", "kim", "kim")):
        tenant = ("shop", "other")[index % 2]
        world.call("record_act", by=name, tenant_id=tenant, action=f"act_{'ab'[index // 2]}", subject=f"job {index}")
        world.later(60)

    def found(**wanted: Any) -> list[str]:
        return [act["subject"] for act in world.ask("list_audit", **wanted)["acts"]]

    assert found() == ["job 3", "job 2", "job 1", "job 0"]
    assert found(by="kim") == ["job 3", "job 2", "job 0"]
    assert found(tenant_id="shop") == ["job 2", "job 0"]
    assert found(action="act_a") == ["job 1", "job 0"]
    assert found(subject="job 1") == ["job 1"]
    assert world.now
    assert found(since=world.now.replace(minute=2)) == ["job 3", "job 2"]
    assert found(by="kim", tenant_id="other") == ["job 3"]
    page = world.ask("list_audit", limit=3)
    assert world.ask("list_audit", older=page["older"])["acts"][0]["subject"] == "job 0"
    assert world.ask("list_audit", older=page["older"])["older"] is None
