"""Each act over HTTP is a row of the audit with the caller's name, and the list shows it without personal data."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.openapi_document import openapi_document, operations
from tests.support.world import ADMIN, World, an_order, bearer

FLOW = "order-7"
SCHEDULE = {"schedule": "0 9 * * *", "stage": "customer_ingest", "payload": an_order()}
ENDPOINT = {"url": "https://shop.example/hook?key=s3cret", "events": ["job.completed"]}
TOKEN = {"name": "shop", "scopes": ["orders:write"]}
CANCEL = {"action": "cancel", "filter": {"error": "kate@example.com"}, "reason": "anna@example.com left"}
PERSONAL = ("kate@example.com", "anna@example.com", "Kate", "s3cret")


def ask(world: World, method: str, path: str, body: Any = None) -> Any:
    response = world.client.open(path, method=method, json=body, headers=bearer(ADMIN))
    assert response.status_code < 300, response.text
    return response.json


def nothing(world: World) -> None:
    """No more than an empty database."""


def ordered(world: World) -> str:
    """An order whose jobs have not run."""
    assert world.submit(an_order(correlation_id=FLOW)).status_code == 202
    return FLOW


def issued(world: World) -> str:
    ordered(world)
    while world.tick()["started"]:
        pass
    assert world.value("select count(*) from giftcard_cards") == 1
    return FLOW


def queued(world: World) -> int:
    return world.add("customer_ingest", an_order())


def dead(world: World) -> int:
    return world.add("customer_ingest", an_order(), status="error", last_error="E: kate@example.com")


def an_operation(world: World) -> int:
    return int(ask(world, "POST", "/api/v1/operations", CANCEL)["id"])


def sealed_batch(world: World) -> int:
    return int(ask(world, "POST", "/api/v1/batches", {"jobs": [JOB]})["id"])


def open_batch(world: World) -> int:
    return int(ask(world, "POST", "/api/v1/batches", {"open": True})["id"])


def archived(world: World) -> int:
    job_id = dead(world)
    world.sql("select giftcard_archive_jobs(array[%s::bigint], now())", job_id)
    return job_id


def scheduled(world: World) -> int:
    return int(ask(world, "POST", "/api/v1/schedules", SCHEDULE)["id"])


def paused_schedule(world: World) -> int:
    number = scheduled(world)
    ask(world, "POST", f"/api/v1/schedules/{number}/pause", {"by": "kim"})
    return number


def paused_stage(world: World) -> str:
    ask(world, "POST", "/api/v1/stages/email/pause", {"by": "kim"})
    return "email"


def endpoint(world: World) -> int:
    return int(ask(world, "POST", "/api/v1/webhook-endpoints", ENDPOINT)["id"])


def token(world: World) -> str:
    return str(ask(world, "POST", "/api/v1/tokens", TOKEN)["name"])


def failing(world: World) -> str:
    world.sql("insert into giftcard_circuits (circuit, failures) values ('email', 2)")
    return "email"


def limited(world: World) -> None:
    ask(world, "PUT", "/api/v1/limits", LIMIT | {"runs": 2})


def stray(world: World) -> None:
    world.store.record_payment_event(
        tenant_id="default", provider="ledger", provider_ref="stray", event_id="e", kind="captured", amount=7,
        currency="USD",
    )  # fmt: skip


LIMIT = {"kind": "stage", "name": "email"}
JOB = {"stage": "customer_ingest", "correlation_id": "new", "payload": an_order()}
ACCEPTED = {"kind": "money_without_order", "reference": "stray", "reason": "a gift"}
REFUND = {"event_id": "r1", "kind": "refunded", "amount": {"amount": 100, "currency": "USD"}}
# By method and route: what stands before it, the body, and the action.
WALK: dict[tuple[str, str], tuple[Callable[[World], Any], Any, str]] = {
    ("post", "/api/v1/jobs"): (nothing, JOB, "enqueue"),
    ("post", "/api/v1/jobs/{job_id}/requeue"): (dead, {"payload": an_order(message="anna@example.com")}, "payload"),
    ("post", "/api/v1/jobs/requeue"): (dead, {"filter": {"error": "kate@example.com"}}, "requeue"),
    ("post", "/api/v1/operations"): (dead, CANCEL, "create_operation"),
    ("post", "/api/v1/operations/{operation_id}/stop"): (an_operation, None, "stop_operation"),
    ("post", "/api/v1/batches"): (nothing, {"jobs": [JOB]}, "create_batch"),
    ("post", "/api/v1/batches/{batch_id}/jobs"): (open_batch, {"jobs": [JOB]}, "add_to_batch"),
    ("post", "/api/v1/batches/{batch_id}/seal"): (open_batch, None, "seal_batch"),
    ("post", "/api/v1/batches/{batch_id}/cancel"): (sealed_batch, {"reason": "gone"}, "create_operation"),
    ("post", "/api/v1/batches/{batch_id}/requeue"): (sealed_batch, {"reason": "back"}, "create_operation"),
    ("post", "/api/v1/jobs/{job_id}/cancel"): (queued, None, "cancel"),
    ("post", "/api/v1/jobs/{job_id}/restore"): (archived, None, "restore"),
    ("post", "/api/v1/flows/{correlation_id}/cancel"): (ordered, None, "cancel_flow"),
    ("post", "/api/v1/stages/{stage}/pause"): (lambda world: "email", {"by": "kim"}, "pause"),
    ("post", "/api/v1/stages/{stage}/resume"): (paused_stage, {"by": "kim"}, "resume"),
    ("post", "/api/v1/circuits/{name}/reset"): (failing, None, "reset_circuit"),
    ("put", "/api/v1/limits"): (nothing, LIMIT | {"runs": 2}, "set_limit"),
    ("post", "/api/v1/limits/remove"): (limited, LIMIT, "remove_limit"),
    ("post", "/api/v1/reconciliation/accept"): (stray, ACCEPTED, "accept_difference"),
    ("post", "/api/v1/giftcards/{correlation_id}/free-of-charge"): (ordered, {"reason": "gift"}, "free_of_charge"),
    ("patch", "/api/v1/giftcards/{correlation_id}/recipient"): (
        *(ordered, {"email": "anna@example.com"}),
        "correct_recipient",
    ),
    ("post", "/api/v1/giftcards/{correlation_id}/payment-events"): (issued, REFUND, "payment_event"),
    ("post", "/api/v1/giftcards/{correlation_id}/block-card"): (issued, None, "block_card"),
    ("post", "/api/v1/giftcards/{correlation_id}/resend"): (issued, {"reason": "lost"}, "resend"),
    ("post", "/api/v1/orders/search"): (ordered, {"text": "KATE@example.com"}, "reveal"),
    ("post", "/api/v1/schedules"): (nothing, SCHEDULE, "create_schedule"),
    ("patch", "/api/v1/schedules/{schedule_id}"): (scheduled, {"timezone": "Europe/Berlin"}, "update_schedule"),
    ("delete", "/api/v1/schedules/{schedule_id}"): (scheduled, None, "delete_schedule"),
    ("post", "/api/v1/schedules/{schedule_id}/pause"): (scheduled, {"by": "kim"}, "pause_schedule"),
    ("post", "/api/v1/schedules/{schedule_id}/resume"): (paused_schedule, None, "resume_schedule"),
    ("post", "/api/v1/schedules/{schedule_id}/run"): (scheduled, None, "run_schedule"),
    ("post", "/api/v1/reports"): (nothing, {"day": "2026-01-31"}, "make_report"),
    ("post", "/api/v1/webhook-endpoints"): (nothing, ENDPOINT, "create_endpoint"),
    ("patch", "/api/v1/webhook-endpoints/{endpoint_id}"): (endpoint, {"enabled": False}, "update_endpoint"),
    ("delete", "/api/v1/webhook-endpoints/{endpoint_id}"): (endpoint, None, "delete_endpoint"),
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/rotate-secret"): (endpoint, None, "rotate_secret"),
    ("post", "/api/v1/webhook-endpoints/{endpoint_id}/test"): (endpoint, None, "test_endpoint"),
    ("post", "/api/v1/tokens"): (nothing, TOKEN, "create_token"),
    ("delete", "/api/v1/tokens/{name}"): (token, None, "revoke_token"),
    ("get", "/api/v1/jobs?reveal=true"): (dead, None, "reveal"),
    ("get", "/api/v1/jobs/{job_id}?reveal=true"): (dead, None, "reveal"),
    ("get", "/api/v1/giftcards/{correlation_id}/story?reveal=true"): (ordered, None, "reveal"),
    ("get", "/api/v1/schedules/{schedule_id}?reveal=true"): (scheduled, None, "reveal"),
}
# No tenant's alone.
OF_ALL = (
    "/api/v1/stages/",
    "/api/v1/circuits/",
    "/api/v1/limits",
    "/api/v1/tokens",
    "/api/v1/jobs?",
    "/api/v1/operations",
)
# A customer's order, a vendor's event and a tick are no acts of an operator.
NO_ACTS = {"/api/v1/giftcards", "/api/webhooks/square", "/api/jobs/run", "/api/cron/giftcard-jobs"}


def test_every_route_that_changes_something_is_walked() -> None:
    routes = {(method, path) for path, method, _ in operations(openapi_document()) if method != "get"}
    walked = {(method, route) for method, route in WALK if method != "get"}
    assert {(method, path) for method, path in routes if path not in NO_ACTS} == walked


@pytest.mark.parametrize("route", WALK, ids=" ".join)
def test_each_act_over_http_has_the_name_of_its_caller(world: World, route: tuple[str, str]) -> None:
    method, path = route
    before, body, action = WALK[route]
    subject = before(world)
    known = ask(world, "GET", "/api/v1/audit")["acts"]
    path = path[: path.find("{")] + str(subject) + path[path.find("}") + 1 :] if "{" in path else path
    ask(world, method, path, body)
    page = ask(world, "GET", "/api/v1/audit")
    act, rest = page["acts"][0], page["acts"][1:]
    assert rest == known
    assert (act["by"], act["action"]) == ("admin token", action)
    assert act["tenant_id"] == (None if path.startswith(OF_ALL) else "default")
    assert [text for text in PERSONAL if text in str(act)] == []


def _takes_a_reason(route: tuple[str, str]) -> bool:
    """Whether the document of the API has the field in the route's body."""
    document = openapi_document()
    content = document["paths"][route[1].partition("?")[0]][route[0]].get("requestBody", {}).get("content", {})
    name = str(content.get("application/json", {}).get("schema", {}).get("$ref", "")).rpartition("/")[2]
    return "reason" in document["components"]["schemas"].get(name, {}).get("properties", {})


EXPLAINED = [route for route in WALK if _takes_a_reason(route)]


def test_acts_on_jobs_stages_and_circuits_take_a_reason() -> None:
    of_jobs = ("requeue", "payload", "create_operation", "cancel", "cancel_flow", "restore")
    wanted = {*of_jobs, "pause", "resume", "reset_circuit"}
    assert wanted <= {WALK[route][2] for route in EXPLAINED}


@pytest.mark.parametrize("route", EXPLAINED, ids=" ".join)
def test_the_reason_of_an_act_is_bounded_kept_and_masked(world: World, route: tuple[str, str]) -> None:
    method, path = route
    before, body, action = WALK[route]
    path = re.sub(r"\{.*?\}", str(before(world)), path)
    for wrong in ("", "x" * 201, 7):
        sent = (body or {}) | {"reason": wrong}
        refused = world.client.open(path, method=method, json=sent, headers=bearer(ADMIN))
        assert (refused.status_code, refused.json["field"]) == (422, "reason")
    ask(world, method, path, (body or {}) | {"reason": "anna@example.com wrote: ü"})
    act = ask(world, "GET", "/api/v1/audit")["acts"][0]
    assert (act["action"], act["details"]["reason"]) == (action, "[email] wrote: ü")


def test_orders_of_customers_ticks_and_plain_reads_are_no_acts(world: World) -> None:
    issued(world)
    paths = ("/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/audit", "/api/v1/schedules", "/api/status", "/api/overview")
    for path in paths:
        ask(world, "GET", path)
    assert ask(world, "GET", "/api/v1/audit") == {"acts": [], "older": None}


def test_the_audit_is_filtered_and_paged(world: World) -> None:
    ids = [dead(world) for _ in range(3)]
    for job_id in ids:
        ask(world, "POST", f"/api/v1/jobs/{job_id}/requeue")
    paused_stage(world)
    found = ask(world, "GET", "/api/v1/audit?action=requeue&by=admin%20token&tenant_id=default&limit=2")
    assert [act["subject"] for act in found["acts"]] == [f"job {ids[2]}", f"job {ids[1]}"]
    rest = ask(world, "GET", f"/api/v1/audit?action=requeue&older={found['older']}")
    assert ([act["subject"] for act in rest["acts"]], rest["older"]) == ([f"job {ids[0]}"], None)
    assert ask(world, "GET", "/api/v1/audit?since=2999-01-01T00:00:00Z")["acts"] == []
    assert len(ask(world, "GET", f"/api/v1/audit?subject=job%20{ids[0]}")["acts"]) == 1


@pytest.mark.parametrize("wrong", ["action=Re-Queue", "since=yesterday", "limit=0", "older=x", "by=", "colour=red"])
def test_a_wrong_filter_is_named(world: World, wrong: str) -> None:
    response = world.client.get(f"/api/v1/audit?{wrong}", headers=bearer(ADMIN))
    assert (response.status_code, response.json["field"]) == (422, wrong.partition("=")[0])
