"""Orders: submit one, find some, and return the state and the story of one."""

import uuid
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from flask import Blueprint, current_app
from pydantic import Field

from lib.caller import DEFAULT_TENANT
from lib.giftcards.card_links import page_url
from lib.giftcards.orders import Order, body_hash
from lib.giftcards.schemas import OrderSearch
from lib.giftcards.submit import submit_order
from lib.jobs.schemas import FlowPage, Priority
from lib.validation import Matching
from lib.web import auth
from lib.web.request_data import RevealQuery, TenantQuery, idempotency_key, read_body, read_query, refuse_nul
from lib.web.services import services, stories

blueprint = Blueprint("orders", __name__)

_ID = Matching(
    r"^[A-Za-z0-9][A-Za-z0-9._:@-]*$",
    "must have only letters, digits and . _ : @ - in ASCII, beginning with a letter or a digit",
)


class OrderRequest(Order):
    """A gift card for a customer. Without `correlation_id` one is generated.

    `tenant_id`: by default that of the token, or `default`. `priority`: of its jobs: 10 starts first, -10 last; 0 is
    normal. It is no part of the order: repeated with another one, a request returns the same order, unchanged.
    """

    tenant_id: Annotated[str, Field(min_length=1, max_length=100), _ID] | None = None
    correlation_id: Annotated[str, Field(min_length=1, max_length=200), _ID] | None = None
    priority: Priority | None = None


@blueprint.post("/api/v1/giftcards")
@auth.scope("orders:write")
def submit() -> tuple[dict[str, Any], int]:
    """Submit an order.

    Repeating a request with the same `Idempotency-Key` and body returns the same order. The same key with another body
    is rejected with 422.
    """
    body = read_body(OrderRequest)
    order = Order.model_validate(body.model_dump(exclude={"tenant_id", "correlation_id", "priority"}))
    own = services(current_app)
    tenant_id = auth.caller().tenant(body.tenant_id)
    submitted = submit_order(
        order,
        store=own.store,
        registry=own.registry(),
        settings=own.settings,
        tenant_id=tenant_id,
        correlation_id=body.correlation_id or str(uuid.uuid4()),
        body_hash=body_hash(body.model_copy(update={"tenant_id": tenant_id, "priority": None})),
        trigger_type="api",
        idempotency_key=idempotency_key(),
        priority=body.priority,
    )
    found = {"correlation_id": submitted["correlation_id"], "tenant_id": tenant_id}
    return found | {"status_url": _status_url(**found), "page_url": page_url(submitted["page_id"], own.settings)}, 202


def _status_url(tenant_id: str, correlation_id: str) -> str:
    """Return the path of an order, with the tenant that its id belongs to."""
    query = "" if tenant_id == DEFAULT_TENANT else "?" + urlencode({"tenant_id": tenant_id})
    return f"/api/v1/giftcards/{quote(correlation_id, safe='')}{query}"


@blueprint.get("/api/v1/giftcards/<correlation_id>")
@auth.scope("orders:read")
def show(correlation_id: str) -> dict[str, Any]:
    """Return the state of an order: its jobs, its payment and its card."""
    query, page = read_query(TenantQuery, FlowPage)
    tenant_id = auth.caller().tenant(query.tenant_id)
    refuse_nul(tenant_id, correlation_id)
    return services(current_app).store.flow(tenant_id, correlation_id, **page.model_dump())


@blueprint.post("/api/v1/orders/search")
@auth.scope("jobs:read")
def search() -> dict[str, Any]:
    """Find orders, the newest first.

    By correlation id or its beginning, mail address, personal code, last four digits of the card, or reference of the
    payment. A POST, so that no address is part of a URL. Recipients are masked; `reveal` requires the scope `admin`.
    A search that finds orders by an address is recorded in the audit log, like a reveal.
    """
    wanted = read_body(OrderSearch)
    if wanted.reveal:
        auth.require("admin")
    return stories(current_app, caller=auth.caller()).find(wanted)


@blueprint.get("/api/v1/giftcards/<path:correlation_id>/story")
@auth.scope("jobs:read")
def story(correlation_id: str) -> dict[str, Any]:
    """Return everything that happened to an order, by time.

    Its intake, the runs of its jobs and why they wait, its payment, card, mails and webhooks, what operators did about
    it, and where its books do not match. Of long lists, the newest.
    """
    query, shown = read_query(TenantQuery, RevealQuery)
    refuse_nul(query.tenant_id or "", correlation_id)
    return stories(current_app, caller=auth.caller()).story(query.tenant_id, correlation_id, reveal=shown.reveal)
