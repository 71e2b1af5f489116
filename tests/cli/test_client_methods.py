"""The clients of the API have the methods of the services, with the same arguments."""

import inspect
from typing import Any

import pytest

from lib.api_client.audit import AuditClient
from lib.api_client.batches import BatchesClient
from lib.api_client.bulk import BulkClient
from lib.api_client.jobs import JobsClient
from lib.api_client.limits import LimitsClient
from lib.api_client.orders import OrdersClient
from lib.api_client.reports import ReportsClient
from lib.api_client.schedules import SchedulesClient
from lib.api_client.webhooks import WebhooksClient
from lib.giftcards.decisions import Decisions
from lib.giftcards.stories import Stories
from lib.jobs.batches import Batches
from lib.jobs.bulk import BulkOperations
from lib.jobs.limits import Limits
from lib.operations import Operations
from lib.reports.service import Reports
from lib.schedules.service import Scheduling
from lib.store.store import Store
from lib.webhooks.service import Endpoints


@pytest.mark.parametrize(
    ("service", "client", "only_local", "only_remote"),
    [
        (Operations, JobsClient, {"erase_customer"}, {"tick"}),
        (Decisions, OrdersClient, set(), {"find", "story"}),
        (Stories, OrdersClient, {"mail"}, None),
        (BulkOperations, BulkClient, set(), set()),
        (Limits, LimitsClient, set(), set()),
        (Batches, BatchesClient, set(), set()),
        (Scheduling, SchedulesClient, set(), set()),
        (Endpoints, WebhooksClient, set(), set()),
        (Reports, ReportsClient, set(), set()),
        (Store, AuditClient, None, set()),
    ],
)
def test_client_has_the_methods_of_the_service(
    service: type, client: type, only_local: set[str] | None, only_remote: set[str] | None
) -> None:
    def methods(kind: type) -> dict[str, Any]:
        return {
            name: [(p.name, p.kind, p.annotation) for p in inspect.signature(method).parameters.values()]
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    own, far = methods(service), methods(client)
    assert only_remote is None or set(far) - set(own) == only_remote
    assert only_local is None or set(own) - set(far) == only_local
    shared = set(own) & set(far)
    assert {name: far[name] for name in shared} == {name: own[name] for name in shared}
