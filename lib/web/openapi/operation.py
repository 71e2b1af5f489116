"""What an operation of the API has beyond its route, and the groups of operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

Model = type[BaseModel]


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation has beyond its route.

    `id`: its operationId, the name of the method in generated clients. `body`: one of these models. `media_types`: of
    responses other than JSON. `unhealthy`: the model of a 503 response besides a problem. `errors`: statuses that
    follow neither from authentication nor from the models. `all_errors`: instead of those that follow, where any body
    is accepted. `auth`: the security scheme, where no decorator names it.
    """

    id: str
    tag: str
    response: Model | None = None
    status: int = 200
    body: tuple[Model, ...] = ()
    body_optional: bool = False
    query: tuple[Model, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    media_types: tuple[str, ...] = ()
    unhealthy: Model | None = None
    errors: tuple[int, ...] = ()
    all_errors: tuple[int, ...] = ()
    auth: str | None = None


TAGS: Mapping[str, str] = {
    "orders": "Gift card orders and their state.",
    "reconciliation": "Where money and cards do not match.",
    "jobs": "Find, enqueue, requeue and cancel jobs.",
    "operations": "Requeue or cancel many jobs, in steps that ticks carry out.",
    "batches": "Jobs that end together, and what follows their end.",
    "flows": "All jobs of an order.",
    "circuits": "Circuit breakers of the services that jobs call.",
    "stages": "Kinds of jobs, and their effective settings.",
    "limits": "How many jobs run at once, and how many start a second.",
    "schedules": "Jobs that run at set times.",
    "reports": "Daily reports.",
    "webhook-endpoints": "URLs that receive events.",
    "tokens": "Tokens of this API: for whom, and what they allow.",
    "inbound-webhooks": "Events received from vendors.",
    "ticks": "Run due jobs.",
    "monitoring": "Health, status and metrics.",
    "audit": "What operators did.",
    "docs": "The description of this API.",
}

IDEMPOTENCY_KEY = r"^[\x21-\x7e]{1,255}$"
