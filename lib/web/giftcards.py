"""Orders in, and where they stand."""

import re
import uuid
from typing import Annotated, Any

from flask import Blueprint, current_app, request
from pydantic import Field

from lib.giftcards.orders import Order, body_hash
from lib.giftcards.submit import submit_order
from lib.web import auth
from lib.web.problems import Problem
from lib.web.queries import OfTenant, query
from lib.web.request_data import read
from lib.web.services import giftcards

blueprint = Blueprint("giftcards", __name__)

_ID = r"^[A-Za-z0-9][A-Za-z0-9._:@-]*$"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class OrderRequest(Order):
    """An order as tenants send it."""

    tenant_id: Annotated[str, Field(min_length=1, max_length=100, pattern=_ID)] = "default"
    correlation_id: Annotated[str, Field(min_length=1, max_length=200, pattern=_ID)] | None = None


def _idempotency_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise Problem(
            400, "the Idempotency-Key is not valid", detail="1 to 255 visible ASCII characters", field="Idempotency-Key"
        )
    return key


@blueprint.post("/api/v1/giftcards")
@auth.api
def submit() -> tuple[dict[str, Any], int]:
    """Submit an order.

    Repeating a request with the same `Idempotency-Key` and body returns the same order. The same key with another body
    is rejected with 422.
    """
    wish = read(OrderRequest)
    order = Order.model_validate(wish.model_dump(exclude={"tenant_id", "correlation_id"}))
    services = giftcards(current_app)
    answer = submit_order(
        order,
        store=services.store,
        registry=services.registry(),
        settings=services.settings,
        tenant_id=wish.tenant_id,
        correlation_id=wish.correlation_id or str(uuid.uuid4()),
        body_hash=body_hash(wish),
        trigger_type="api",
        idempotency_key=_idempotency_key(),
    )
    where = f"/api/v1/giftcards/{answer['correlation_id']}"
    return {"correlation_id": answer["correlation_id"], "tenant_id": wish.tenant_id, "status_url": where}, 202


@blueprint.get("/api/v1/giftcards/<correlation_id>")
@auth.api
def show(correlation_id: str) -> dict[str, Any]:
    """Return the state of an order: its jobs, its payment and its card."""
    (of,) = query(OfTenant)
    if "\x00" in of.tenant_id + correlation_id:
        raise Problem(400, "an id cannot hold a NUL character")
    return giftcards(current_app).store.flow(of.tenant_id, correlation_id)
