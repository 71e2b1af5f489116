"""The acts of operators, each with what stands before it: for the tests of the audit and of the walls of tenants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lib.caller import Caller
from lib.job import Error
from tests.support.factory import World
from tests.support.schedules import a_schedule

Row = dict[str, Any]

# An operator who may do anything.
KIM = Caller("kim")
SHOP = {"tenant_id": "shop"}
FLOW = SHOP | {"correlation_id": "order-7"}
MONEY = {"provider": "ledger", "amount": 2500, "currency": "USD"}
# What no row of the audit may hold.
PERSONAL = ("kate@example.com", "anna@example.com", "Kate", "s3cret")


@dataclass(frozen=True, slots=True)
class Act:
    """`before` returns what `arguments` gets, and `{}` of the subject. `tenant`: of the row."""

    before: Callable[[World], Any]
    arguments: Callable[[World, Any], Row]
    action: str
    subject: str
    tenant: str | None = "shop"


def nothing(world: World) -> None:
    """No more than an empty database."""


def an_order(world: World) -> None:
    """One that is not paid, with its first job."""
    customer = {"email": "kate@example.com", "given_name": "Kate"}
    payload = {"amount": {"amount": 2500, "currency": "USD"}, "customer": customer}
    world.call("submit_order", **FLOW, body_hash="b", payload=payload)


def a_card(world: World) -> None:
    an_order(world)
    world.call("record_payment", **FLOW, **MONEY, idempotency_key="k")
    card = {"number_encrypted": "x", "number_hash": "x", "last4": "4242", "provider_ref": "x"}
    world.call("record_card", **FLOW, **MONEY, **card)


def a_sent_card(world: World) -> None:
    """Its mail was sent by a job that is gone."""
    a_card(world)
    world.run("delete from giftcard_jobs")


def a_customer(world: World) -> int:
    who = {"external_id": "C-1", "email": "kate@example.com", "given_name": "Kate", "family_name": None}
    return int(world.call("save_customer", **SHOP, **who)["id"])


def a_stray_payment(world: World) -> Row:
    event = {"provider": "ledger", "provider_ref": "stray", "event_id": "e", "kind": "captured", "amount": 7}
    world.call("record_payment_event", **SHOP, **event, currency="USD")
    return SHOP | {"kind": "money_without_order", "item": "stray"}


def dead(world: World) -> int:
    return world.dead_letter(**SHOP, payload={"to": "kate@example.com"})


def an_unknown_outcome(world: World) -> int:
    """A job with an effect that may have happened."""
    job = world.claimed("payment", **SHOP)
    world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge")
    world.settle(job, Error(error="outcome unknown"))
    return job.id


def archived(world: World) -> int:
    job_id = world.completed(**SHOP)
    world.run("select public.giftcard_archive_jobs(array[%s::bigint], now())", job_id)
    return job_id


def tripped(world: World) -> str:
    world.open_circuit()
    return "email"


def limited(world: World) -> None:
    world.call("set_limit", **LIMIT, runs=2)


def an_operation(world: World) -> int:
    return int(world.call("create_operation", action="cancel", filter=SHOP, reason="gone")["id"])


def an_open_batch(world: World) -> int:
    return int(world.call("create_batch", open=True, **SHOP)["id"])


def scheduled(world: World) -> int:
    return a_schedule(world, **SHOP)


def paused(world: World) -> int:
    schedule_id = scheduled(world)
    world.call("pause_schedule", id=schedule_id)
    return schedule_id


def version(world: World, schedule_id: int) -> int:
    (row,) = world.rows("select version from public.giftcard_schedules where id = %s", schedule_id)
    return int(row["version"])


def update(world: World, schedule_id: int) -> Row:
    (row,) = world.rows("select to_jsonb(s) as s from public.giftcard_schedules s where id = %s", schedule_id)
    changed = row["s"] | {"payload": {"to": "kate@example.com"}, "ttr_seconds": 7}
    return {"schedule": changed, "next_at": None, "id": schedule_id, "version": row["s"]["version"]}


def a_plan(world: World, schedule_id: int) -> Row:
    job = SHOP | {"stage": "email", "correlation_id": f"schedule:{schedule_id}:now"}
    return {"id": schedule_id, "version": version(world, schedule_id), "jobs": [job], "next_at": None, "check_in": 1}


def an_endpoint(world: World) -> int:
    return int(world.call("create_webhook_endpoint", **new_endpoint(world, None))["id"])


def new_endpoint(_: World, __: Any) -> Row:
    address = {"url": "https://shop.example/?key=s3cret", "events": ("job.completed",), "enabled": True}
    return SHOP | address | {"secret_encrypted": "s3cret"}


def by_id(column: str, /, **more: Any) -> Callable[[World, Any], Row]:
    """Arguments of an act on one row: its id, and these."""
    return lambda _, row_id: {column: row_id} | more


def of_order(**more: Any) -> Callable[[World, Any], Row]:
    return lambda _, __: FLOW | more


def just(**arguments: Any) -> Callable[[World, Any], Row]:
    return lambda _, __: arguments


LIMIT = {"kind": "stage", "name": "email"}
NEW_JOB = SHOP | {"stage": "email", "correlation_id": "new", "payload": {"to": "kate@example.com"}}
REFUND = {"event_id": "r1", "kind": "refunded", "amount": 100}
TOKEN = {"name": "till", "hash": "s3cret", "prefix": "gct_", "scopes": ("admin",)}
ROTATION = {"secret_encrypted": "s3cret", "former_seconds": 60}

# By function.
ACTS: dict[str, Act] = {
    "enqueue": Act(nothing, just(jobs=[NEW_JOB]), "enqueue", "job {new}"),
    "requeue": Act(dead, by_id("job_id"), "requeue", "job {}"),
    "requeue_jobs": Act(dead, just(filter=SHOP | {"error": "no"}, dry_run=False), "requeue", "job {}"),
    "requeue_dead_letters": Act(dead, just(error="no", dry_run=False), "requeue", "job {}"),
    "create_operation": Act(
        dead,
        just(action="cancel", filter=SHOP | {"error": "Kate"}, reason="gone"),
        "create_operation",
        "operation {new}",
    ),
    "stop_operation": Act(an_operation, by_id("id"), "stop_operation", "operation {}"),
    "create_batch": Act(nothing, just(**SHOP, jobs=[NEW_JOB]), "create_batch", "batch {new}"),
    "add_to_batch": Act(an_open_batch, by_id("id", jobs=[NEW_JOB]), "add_to_batch", "batch {}"),
    "seal_batch": Act(an_open_batch, by_id("id"), "seal_batch", "batch {}"),
    "cancel": Act(lambda world: world.enqueue(**SHOP), by_id("job_id"), "cancel", "job {}"),
    "cancel_flow": Act(an_order, of_order(), "cancel_flow", "flow order-7"),
    "restore_job": Act(archived, by_id("job_id"), "restore", "job {}"),
    "pause": Act(nothing, just(stage="email"), "pause", "stage email", tenant=None),
    "resume": Act(lambda world: world.call("pause", stage="*"), just(stage="*"), "resume", "stage *", tenant=None),
    "set_limit": Act(nothing, just(**LIMIT, runs=2), "set_limit", "limit stage email", tenant=None),
    "remove_limit": Act(limited, just(**LIMIT), "remove_limit", "limit stage email", tenant=None),
    "reset_circuit": Act(tripped, by_id("circuit"), "reset_circuit", "circuit {}", tenant=None),
    "decide_effect": Act(an_unknown_outcome, by_id("job_id", name="charge", happened=False), "decide_effect", "job {}"),
    "record_reveal": Act(nothing, just(subject="job 1", **SHOP), "reveal", "job 1"),
    "record_key_rotation": Act(nothing, just(key_id="0" * 12, texts=7), "rotate_keys", "key 000000000000", tenant=None),
    "erase_customer": Act(a_customer, by_id("customer_id"), "erase_customer", "customer {}"),
    "record_order_event": Act(a_card, of_order(**REFUND), "payment_event", "order order-7"),
    "make_free_of_charge": Act(an_order, of_order(reason="goodwill"), "free_of_charge", "order order-7"),
    "correct_recipient": Act(
        an_order, of_order(customer={"email": "anna@example.com"}), "correct_recipient", "order order-7"
    ),
    "accept_difference": Act(
        a_stray_payment,
        lambda _, found: found | {"reason": "a gift"},
        "accept_difference",
        "money_without_order stray",
    ),
    "resend_mail": Act(a_sent_card, of_order(reason="lost"), "resend", "order order-7"),
    "request_block": Act(a_card, of_order(), "block_card", "order order-7"),
    "save_schedule": Act(scheduled, update, "update_schedule", "schedule {}"),
    "delete_schedule": Act(scheduled, by_id("id"), "delete_schedule", "schedule {}"),
    "pause_schedule": Act(scheduled, by_id("id"), "pause_schedule", "schedule {}"),
    "resume_schedule": Act(
        paused,
        lambda world, i: {"id": i, "version": version(world, i), "next_at": None},
        "resume_schedule",
        "schedule {}",
    ),
    "run_schedule": Act(scheduled, lambda world, i: {"plan": a_plan(world, i)}, "run_schedule", "schedule {}"),
    "make_report": Act(nothing, just(**SHOP, day="2034-12-31"), "make_report", "report 2034-12-31"),
    "create_webhook_endpoint": Act(nothing, new_endpoint, "create_endpoint", "webhook endpoint {new}"),
    "update_webhook_endpoint": Act(
        an_endpoint, by_id("endpoint_id", url="https://a.example/?s3cret"), "update_endpoint", "webhook endpoint {}"
    ),
    "delete_webhook_endpoint": Act(an_endpoint, by_id("endpoint_id"), "delete_endpoint", "webhook endpoint {}"),
    "rotate_webhook_secret": Act(an_endpoint, by_id("endpoint_id", **ROTATION), "rotate_secret", "webhook endpoint {}"),
    "create_token": Act(nothing, just(**TOKEN, **SHOP), "create_token", "token till"),
    "revoke_token": Act(
        lambda world: world.call("create_token", **TOKEN, **SHOP), just(name="till"), "revoke_token", "token till"
    ),
    "test_webhook_endpoint": Act(an_endpoint, by_id("endpoint_id"), "test_endpoint", "webhook endpoint {}"),
}
