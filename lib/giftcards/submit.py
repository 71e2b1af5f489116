"""Submitting an order: the order and its first job, in one transaction."""

from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid
from lib.giftcards.money import too_little
from lib.giftcards.orders import Order
from lib.jobs.enqueue import prepare
from lib.jobs.registry import Registry
from lib.store.store import Store
from lib.validation import same_json


def submit_order(
    order: Order,
    *,
    store: Store,
    registry: Registry,
    settings: Settings,
    tenant_id: str,
    correlation_id: str,
    body_hash: str,
    trigger_type: str,
    idempotency_key: str | None = None,
    priority: int | None = None,
) -> dict[str, Any]:
    """Submit an order. Return its `correlation_id`, `created` (False: it was there already) and `job_id`.

    `priority`: that of its jobs.

    Raises:
        Invalid: the amount is too little. An order that was taken in before stays valid.
        Refused: the key or the correlation id belongs to another order.
    """
    problem = too_little(order.amount.amount, order.amount.currency, settings.giftcard_least_amounts)
    if problem and store.books(tenant_id, correlation_id) is None:
        raise Invalid(problem, field="amount.amount")
    row = _row(order, tenant_id, correlation_id, trigger_type)
    wanted = row | {"stage": "customer_ingest"} | ({} if priority is None else {"priority": priority})
    (job,) = prepare([wanted], registry, settings)
    changes = {name: value for name, value in job.items() if name != "stage" and not same_json(row.get(name), value)}
    return store.submit_order(**row, job=changes, body_hash=body_hash, idempotency_key=idempotency_key)


def preview_order(
    order: Order,
    *,
    store: Store,
    registry: Registry,
    settings: Settings,
    tenant_id: str,
    correlation_id: str,
    trigger_type: str,
) -> bool:
    """Check an order as `submit_order` does, without writing. Return whether it would be created.

    Raises:
        Invalid: the amount is too little, a hook refuses it, or the correlation id belongs to an order over another
            amount. That an order has another content otherwise is found only when it is submitted.
    """
    books = store.books(tenant_id, correlation_id)
    if books is None:
        problem = too_little(order.amount.amount, order.amount.currency, settings.giftcard_least_amounts)
        if problem:
            raise Invalid(problem, field="amount.amount")
    elif (books["order"]["amount"], books["order"]["currency"]) != (order.amount.amount, order.amount.currency):
        raise Invalid("correlation_id belongs to another order, with other content", field="correlation_id")
    prepare(
        [_row(order, tenant_id, correlation_id, trigger_type) | {"stage": "customer_ingest"}],
        registry,
        settings,
    )
    return books is None


def _row(order: Order, tenant_id: str, correlation_id: str, trigger_type: str) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "correlation_id": correlation_id,
        "trigger_type": trigger_type,
        # Without nulls: code of the previous version refuses a field that this one has added, even if it is not used.
        "payload": order.model_dump(mode="json", exclude_none=True),
    }
