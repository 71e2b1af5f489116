"""A caller of one tenant acts for that tenant only: by every service, and whatever a request names."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from lib.caller import Caller
from lib.errors import Forbidden, Refused
from lib.giftcards.decisions import Decisions
from lib.giftcards.schemas import (
    AcceptRequest,
    DifferenceQuery,
    FreeRequest,
    OrderSearch,
    PaymentEventRequest,
    RecipientPatch,
    ResendRequest,
)
from lib.giftcards.stories import Stories
from lib.jobs.schemas import BulkRequeueRequest, EnqueueRequest, Filter, FlowPage, Page
from lib.operations import Operations
from lib.reports.service import Reports
from lib.schedules.schemas import ScheduleFilter, ScheduleRequest
from lib.schedules.service import Scheduling
from lib.webhooks.schemas import EndpointPage, EndpointRequest
from lib.webhooks.service import Endpoints
from tests.support.world import World, an_order

SHOP, ALL = Caller("shop's token", "shop"), Caller("admin token")
DAY = date(2026, 1, 31)
JOB = {"stage": "customer_ingest", "correlation_id": "f", "payload": an_order()}
SCHEDULE = {"schedule": "0 9 * * *", "api": "https://example.com/"}
ENDPOINT = {"url": "https://example.com/", "events": ["job.completed"]}
EVENT = {"event_id": "e", "kind": "refunded", "amount": {"amount": 1}}
ACCEPT = {"kind": "paid_twice", "reference": "r", "reason": "why"}


class Services:
    """The services of one caller."""

    def __init__(self, world: World, caller: Caller) -> None:
        self.jobs = Operations(world.store, lambda: world.registry, world.settings, caller=caller)
        self.orders = Decisions(world.store, lambda: world.registry, world.settings, caller=caller)
        self.stories = Stories(world.store, lambda: world.registry, world.settings, caller=caller)
        self.schedules = Scheduling(world.store, lambda: world.registry, world.settings, caller=caller)
        self.endpoints = Endpoints(world.store, world.settings, caller=caller)
        self.reports = Reports(world.store, caller=caller)


# What names a tenant, by what it does.
NAMED: dict[str, Callable[[Services, Any], Any]] = {
    "list jobs": lambda all_, of: all_.jobs.list_jobs(Filter(tenant_id=of), Page()),
    "enqueue": lambda all_, of: all_.jobs.enqueue(
        EnqueueRequest.model_validate({"jobs": [JOB | {"tenant_id": of}]}), trigger_type="api"
    ),
    "requeue many": lambda all_, of: all_.jobs.requeue_jobs(
        BulkRequeueRequest(filter=Filter(tenant_id=of, stage="email"), all=True), budget=9
    ),
    "cancel a flow": lambda all_, of: all_.jobs.cancel_flow(of, "f"),
    "show an order": lambda all_, of: all_.orders.show(of, "f", FlowPage()),
    "reconcile": lambda all_, of: all_.orders.reconcile(DifferenceQuery(tenant_id=of)),
    "accept": lambda all_, of: all_.orders.accept(AcceptRequest.model_validate(ACCEPT | {"tenant_id": of})),
    "make free": lambda all_, of: all_.orders.make_free(of, "f", FreeRequest(reason="why")),
    "correct": lambda all_, of: all_.orders.correct_recipient(of, "f", RecipientPatch(email="a@example.com")),
    "record": lambda all_, of: all_.orders.record_event(of, "f", PaymentEventRequest.model_validate(EVENT)),
    "block": lambda all_, of: all_.orders.block_card(of, "f"),
    "resend": lambda all_, of: all_.orders.resend(of, "f", ResendRequest(reason="why")),
    "find orders": lambda all_, of: all_.stories.find(OrderSearch(text="f", tenant_id=of)),
    "tell a story": lambda all_, of: all_.stories.story(of, "f"),
    "show a mail": lambda all_, of: all_.stories.mail(of, "f"),
    "list schedules": lambda all_, of: all_.schedules.find(ScheduleFilter(tenant_id=of)),
    "create a schedule": lambda all_, of: all_.schedules.create(
        ScheduleRequest.model_validate(SCHEDULE | {"tenant_id": of})
    ),
    "list endpoints": lambda all_, of: all_.endpoints.find(EndpointPage(tenant_id=of)),
    "create an endpoint": lambda all_, of: all_.endpoints.create(
        EndpointRequest.model_validate(ENDPOINT | {"tenant_id": of})
    ),
    "make a report": lambda all_, of: all_.reports.make_report(of, day=DAY),
    "show a report": lambda all_, of: all_.reports.report(of, day=DAY),
    "list reports": lambda all_, of: all_.reports.list_reports(tenant_id=of, older=None, limit=9),
}
# Their answers name the tenant.
CREATED = ("create a schedule", "create an endpoint", "make a report")
LISTS = {"list jobs": "jobs", "list schedules": "schedules", "list endpoints": "endpoints", "list reports": "reports"}


@pytest.mark.parametrize("name", NAMED)
def test_another_tenant_is_forbidden(world: World, name: str) -> None:
    before = world.row_counts()
    with pytest.raises(Forbidden, match="this token is for the tenant shop only") as caught:
        NAMED[name](Services(world, SHOP), "other")
    assert caught.value.field == ("jobs.0.tenant_id" if name == "enqueue" else "tenant_id")
    assert world.row_counts() == before


@pytest.mark.parametrize("name", CREATED)
def test_without_a_tenant_it_is_the_callers_own(world: World, name: str) -> None:
    assert NAMED[name](Services(world, SHOP), None)["tenant_id"] == "shop"
    assert NAMED[name](Services(world, ALL), None)["tenant_id"] == "default"
    assert NAMED[name](Services(world, ALL), "third")["tenant_id"] == "third"
    acts = world.sql("select by, tenant_id from giftcard_audit order by id")
    assert [(act["by"], act["tenant_id"]) for act in acts] == [
        (SHOP.name, "shop"),
        (ALL.name, "default"),
        (ALL.name, "third"),
    ]


def test_a_job_without_a_tenant_is_of_the_callers_own(world: World) -> None:
    NAMED["enqueue"](Services(world, SHOP), None)
    assert world.job()["tenant_id"] == "shop"


@pytest.mark.parametrize("name", LISTS)
def test_a_list_shows_the_callers_own_tenant(world: World, name: str) -> None:
    admin = Services(world, ALL)
    for tenant in ("shop", "other"):
        NAMED["enqueue"](admin, tenant)
        for create in CREATED:
            NAMED[create](admin, tenant)
    rows = LISTS[name]
    assert {row["tenant_id"] for row in NAMED[name](Services(world, SHOP), None)[rows]} == {"shop"}
    assert {row["tenant_id"] for row in NAMED[name](admin, None)[rows]} == {"shop", "other"}
    assert {row["tenant_id"] for row in NAMED[name](admin, "other")[rows]} == {"other"}


def test_a_bulk_requeue_stays_within_the_callers_tenant(world: World) -> None:
    for tenant in ("shop", "other"):
        world.add("email", status="error", tenant_id=tenant)
    done = Services(world, SHOP).jobs.requeue_jobs(BulkRequeueRequest(all=True), budget=9)
    assert done["requeued"] == 1
    assert world.sql("select tenant_id from giftcard_jobs where status = 'queued'") == [{"tenant_id": "shop"}]


def test_a_row_of_another_tenant_does_not_exist(world: World) -> None:
    admin, shop = Services(world, ALL), Services(world, SHOP)
    job_id = world.add("email", status="error", tenant_id="other")
    schedule_id = NAMED["create a schedule"](admin, "other")["id"]
    endpoint_id = NAMED["create an endpoint"](admin, "other")["id"]
    for act in (
        lambda: shop.jobs.job(job_id, reveal=True),
        lambda: shop.jobs.history(job_id),
        lambda: shop.jobs.requeue(job_id, payload={}),
        lambda: shop.jobs.cancel(job_id),
        lambda: shop.schedules.show(schedule_id, reveal=True),
        lambda: shop.schedules.run(schedule_id),
        lambda: shop.schedules.delete(schedule_id),
        lambda: shop.schedules.occurrences(schedule_id),
        lambda: shop.schedules.history(schedule_id),
        lambda: shop.endpoints.show(endpoint_id),
        lambda: shop.endpoints.test(endpoint_id),
        lambda: shop.endpoints.delete(endpoint_id),
    ):
        with pytest.raises(Refused, match="does not exist") as caught:
            act()
        assert caught.value.sqlstate == "GC404"
    assert world.value("select count(*) from giftcard_audit where by = %s", SHOP.name) == 0


def test_forbidden_is_a_403_that_names_the_field(world: World) -> None:
    with world.app.test_request_context():
        response = world.app.make_response(world.app.handle_user_exception(Forbidden("no", field="tenant_id")))
    assert (response.status_code, response.json["field"]) == (403, "tenant_id")
    assert response.content_type == "application/problem+json"
