"""Two tenants with rows of every kind, and the requests that name what is one's: a list for each operation."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.world import ADMIN, World, an_order, bearer

DAY = "2026-01-31"
ENDPOINT = {"url": "https://shop.example/hooks", "events": ["giftcard.issued"]}
EVENT = {"kind": "captured", "amount": {"amount": 2500, "currency": "USD"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: the values of its path, its query and its body."""

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """What a tenant has. Every name of it has the name of the tenant in it."""

    name: str
    order: str
    unpaid: str
    job: int
    dead: int
    archived: int
    schedule: int
    endpoint: int
    operation: int
    batch: int


def settle(world: World, *names: str) -> list[Tenant]:
    """Make tenants with an order that is done, one that is new, jobs, a schedule, a report and an endpoint."""
    for number in (1, 2):
        for name in names:
            customer = {"email": f"{name}@example.com", "external_id": f"{name}-1"}
            body = an_order(customer=customer, tenant_id=name, correlation_id=f"{name}-{number}")
            assert world.submit(body).status_code == 202
        if number == 1:
            world.drain()
    return [_settled(world, name) for name in names]


def _settled(world: World, name: str) -> Tenant:
    dead, archived = (
        world.add("report", {"tenant_id": name}, tenant_id=name, correlation_id=f"{name}-{number}", status="error",
                  last_error=f"E: {name}", finished_at="2026-01-01T00:00:00Z")
        for number in (3, 4)
    )  # fmt: skip
    world.sql("select giftcard_archive_jobs(array[%s::bigint], now())", archived)
    schedule = {"tenant_id": name, "name": name, "schedule": "0 8 * * *", "stage": "report", "payload": {}}
    endpoint = ENDPOINT | {"tenant_id": name, "url": f"https://{name}.example/hooks"}
    report = {"tenant_id": name, "day": DAY}
    operation = {"action": "cancel", "filter": {"tenant_id": name, "stage": "none"}, "reason": "r"}
    made = {
        path: world.client.post(f"/api/v1/{path}", json=sent, headers=bearer(ADMIN)).json
        for path, sent in (
            ("schedules", schedule),
            ("webhook-endpoints", endpoint),
            ("reports", report),
            ("operations", operation),
            ("batches", {"tenant_id": name, "name": name, "open": True}),
        )
    }
    job = world.value("select min(id) from giftcard_jobs where tenant_id = %s and status = 'completed'", name)
    rows = {"schedule": made["schedules"]["id"], "endpoint": made["webhook-endpoints"]["id"]}
    rows |= {"operation": made["operations"]["id"], "batch": made["batches"]["id"]}
    return Tenant(name=name, order=f"{name}-1", unpaid=f"{name}-2", job=job, dead=dead, archived=archived, **rows)


def create_token(world: World, name: str, *scopes: str, tenant: str | None = None) -> str:
    """Create a token and return it."""
    body = {"name": name, "scopes": list(scopes), "tenant_id": tenant}
    response = world.client.post("/api/v1/tokens", json=body, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    token: str = response.json["token"]
    return token


def requests_of(of: Tenant) -> dict[str, list[Request]]:
    """Return the requests by operation: each names rows of the tenant, its name, or both. None names nothing."""
    named = {"tenant_id": of.name}
    return {
        **_of_orders(of, named),
        **_of_jobs(of, named),
        **_of_batches(of, named),
        **_of_schedules(of, named),
        **_of_endpoints(of, named),
        "list_audit": [Request(), Request(query=named), Request(query={"subject": of.name})],
        "list_reports": [Request(), Request(query=named)],
        "get_report": [Request(path=named | {"day": DAY})],
        "create_report": [Request(body=named | {"day": DAY})],
        "list_differences": [Request(), Request(query=named), Request(query={"verify": "true"})],
        "accept_difference": [
            Request(body={"kind": "paid_twice", "reference": of.order, "reason": "r"} | more) for more in ({}, named)
        ],
    }


def _of_orders(of: Tenant, named: dict[str, Any]) -> dict[str, list[Request]]:
    def about(body: Any = None) -> list[Request]:
        return [
            Request(path={"correlation_id": order}, query=query, body=body)
            for order in (of.order, of.unpaid)
            for query in ({}, named)
        ]

    return {
        "submit_order": [
            Request(body=an_order(tenant_id=of.name, **more)) for more in ({"correlation_id": of.order}, {})
        ],
        "get_order": about(),
        "correct_recipient": about({"given_name": "Eve"}),
        "make_order_free": about({"reason": "r"}),
        "record_payment_event": about(EVENT | {"event_id": "e1"}),
        "block_card": about(),
        "resend_mail": about({"reason": "r"}),
        "get_order_story": [*about(), Request(path={"correlation_id": of.order}, query={"reveal": "true"})],
        "search_orders": [
            Request(body={"text": text} | more)
            for text in (of.order, of.name[:3], f"{of.name}@example.com")
            for more in ({}, named, {"reveal": True})
        ],
        "cancel_flow": about(),
    }


def _of_jobs(of: Tenant, named: dict[str, Any]) -> dict[str, list[Request]]:
    job = {"stage": "report", "correlation_id": "new", "payload": {}}
    other = job | {"payload": named}
    operation = Request(path={"operation_id": of.operation})
    ids = [Request(path={"job_id": job_id}) for job_id in (of.job, of.dead, of.archived)]
    return {
        "list_jobs": [Request(), Request(query=named), Request(query={"correlation_id": of.order})],
        "get_job": [*ids, Request(path={"job_id": of.job}, query={"reveal": "true"})],
        "get_job_history": ids,
        "list_errors": [Request(), Request(query=named), Request(query={"since": "2020-01-01T00:00:00Z"})],
        "enqueue_jobs": [
            *(Request(body=body) for body in (job | named, other)),
            *(Request(body={"jobs": [job, body]}) for body in (job | named, other)),
        ],
        "requeue_jobs": [
            Request(body={"all": True, "dry_run": True}),
            Request(body={"filter": named}),
            Request(body={"all": True}),
        ],
        "list_operations": [Request(), Request(query={"state": "running"})],
        "create_operation": [
            Request(body={"action": "requeue", "all": True, "dry_run": True}),
            *(
                Request(body={"action": "requeue", "reason": "r"} | more)
                for more in ({"filter": named}, {"job_ids": [of.job, of.dead]})
            ),
        ],
        "get_operation": [operation],
        "stop_operation": [operation],
        "requeue_job": [*ids, Request(path={"job_id": of.dead}, body={"payload": named})],
        "restore_job": [ids[2]],
        "cancel_job": ids,
    }


def _of_batches(of: Tenant, named: dict[str, Any]) -> dict[str, list[Request]]:
    job = {"stage": "report", "correlation_id": "new", "payload": {}}
    batch = {"batch_id": of.batch}
    return {
        "list_batches": [Request(), Request(query={"state": "open"})],
        "create_batch": [Request(body=body) for body in ({"jobs": [job | named]}, {"jobs": [job]} | named)],
        "get_batch": [Request(path=batch)],
        "add_to_batch": [Request(path=batch, body={"jobs": [job]})],
        "seal_batch": [Request(path=batch)],
        "cancel_batch": [Request(path=batch, body={"reason": "r"})],
        "requeue_batch": [Request(path=batch, body={"reason": "r"})],
    }


def _of_schedules(of: Tenant, named: dict[str, Any]) -> dict[str, list[Request]]:
    new = {"schedule": "0 9 * * *", "stage": "report", "payload": {}}
    by_id = Request(path={"schedule_id": of.schedule})
    return {
        "list_schedules": [Request(), Request(query=named)],
        "create_schedule": [Request(body=new | named), Request(body=new | {"payload": named})],
        "get_schedule": [by_id, Request(path=by_id.path, query={"reveal": "true"})],
        "update_schedule": [
            Request(path=by_id.path, body={"schedule": "0 7 * * *"}),
            Request(path=by_id.path, body={"payload": named}),
        ],
        "list_occurrences": [by_id],
        "get_schedule_history": [by_id],
        "trigger_schedule": [by_id],
        "pause_schedule": [Request(path=by_id.path, body={"by": "eve"})],
        "resume_schedule": [by_id],
        "delete_schedule": [by_id],
    }


def _of_endpoints(of: Tenant, named: dict[str, Any]) -> dict[str, list[Request]]:
    by_id = Request(path={"endpoint_id": of.endpoint})
    return {
        "list_webhook_endpoints": [Request(), Request(query=named)],
        "create_webhook_endpoint": [Request(body=ENDPOINT | named)],
        "get_webhook_endpoint": [by_id],
        "update_webhook_endpoint": [Request(path=by_id.path, body={"enabled": True})],
        "rotate_webhook_secret": [by_id],
        "test_webhook_endpoint": [by_id],
        "delete_webhook_endpoint": [by_id],
    }
