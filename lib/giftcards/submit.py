"""Submitting an order: the order and its first job, in one transaction."""

from typing import Any

from lib.config.settings import Settings
from lib.giftcards.orders import Order
from lib.jobs.enqueue import prepare
from lib.jobs.stage import Registry
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
) -> dict[str, Any]:
    """Submit an order. Return its `correlation_id`, `created` (False: it was there already) and `job_id`.

    Raises:
        Refused: the key or the correlation id belongs to another order.
    """
    row = {
        "tenant_id": tenant_id,
        "correlation_id": correlation_id,
        "trigger_type": trigger_type,
        "payload": order.model_dump(mode="json"),
    }
    (job,) = prepare([row | {"stage": "customer_ingest"}], registry, settings)
    changes = {name: value for name, value in job.items() if name != "stage" and not same_json(row.get(name), value)}
    return store.submit_order(**row, job=changes, body_hash=body_hash, idempotency_key=idempotency_key)
