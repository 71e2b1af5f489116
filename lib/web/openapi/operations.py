"""The operations of the API, by Flask endpoint: the models of their requests and responses.

Paths, methods, summaries and authentication are read from the routes themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from lib.giftcards import square
from lib.jobs import schemas
from lib.reports import schemas as report_requests
from lib.schedules import schemas as schedule_requests
from lib.web import cron, request_data
from lib.web import orders as order_routes
from lib.web import reports as report_routes
from lib.web.openapi.responses import (
    base,
    circuits,
    docs,
    jobs,
    monitoring,
    orders,
    reports,
    schedules,
    stages,
    ticks,
    webhooks,
)
from lib.webhooks import schemas as webhook_requests

Model = type[BaseModel]


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation has beyond its route.

    `id`: its operationId, the name of the method in generated clients. `body`: one of these models. `media_types`: of
    responses other than JSON. `unhealthy`: the model of a 503 response besides a problem. `errors`: statuses that
    follow neither from authentication nor from the models. `auth`: the security scheme, where no decorator names it.
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
    auth: str | None = None


TAGS: Mapping[str, str] = {
    "orders": "Gift card orders and their state.",
    "jobs": "Find, enqueue, requeue and cancel jobs.",
    "flows": "All jobs of an order.",
    "circuits": "Circuit breakers of the services that jobs call.",
    "stages": "Kinds of jobs, and their effective settings.",
    "schedules": "Jobs that run at set times.",
    "reports": "Daily reports.",
    "webhook-endpoints": "URLs that receive events.",
    "inbound-webhooks": "Events received from vendors.",
    "ticks": "Run due jobs.",
    "monitoring": "Health, status and metrics.",
    "docs": "The description of this API.",
}

_IDEMPOTENCY_KEY = r"^[\x21-\x7e]{1,255}$"

_SYSTEM: Mapping[str, Operation] = {
    "health.health": Operation("get_health", "monitoring", monitoring.Health, unhealthy=monitoring.Health),
    "health.status": Operation("get_status", "monitoring", monitoring.Status),
    "metrics.metrics": Operation("get_metrics", "monitoring", media_types=("text/plain",)),
    "health.deep": Operation("get_deep_health", "monitoring", monitoring.DeepHealth, unhealthy=monitoring.DeepHealth),
    "schedules.precision": Operation(
        "get_precision", "monitoring", monitoring.Precision, query=(schedule_requests.Window,)
    ),
    "cron.tick": Operation(
        "trigger_cron_tick", "ticks", ticks.TickReport, headers={"x-vercel-execution-id": ""}, errors=(403,)
    ),
    "cron.run": Operation(
        "trigger_tick", "ticks", ticks.TickReport, body=(cron.Trigger,), body_optional=True, errors=(403,)
    ),
    "docs.document": Operation("get_openapi_document", "docs", docs.OpenApiDocument),
    "docs.page": Operation("get_docs_page", "docs", media_types=("text/html",)),
}

_ORDERS: Mapping[str, Operation] = {
    "orders.submit": Operation(
        "submit_order",
        "orders",
        orders.Order,
        202,
        body=(order_routes.OrderRequest,),
        headers={"Idempotency-Key": _IDEMPOTENCY_KEY},
        errors=(409,),
    ),
    "orders.show": Operation("get_order", "orders", orders.Flow, query=(request_data.TenantQuery,)),
    "jobs.cancel_flow": Operation("cancel_flow", "flows", orders.FlowCancelResult, query=(request_data.TenantQuery,)),
}

_JOBS: Mapping[str, Operation] = {
    "jobs.list_jobs": Operation(
        "list_jobs", "jobs", jobs.JobPage, query=(schemas.Filter, schemas.Page, request_data.RevealQuery)
    ),
    "jobs.enqueue": Operation(
        "enqueue_jobs", "jobs", jobs.EnqueueResult, 202, body=(schemas.JobRequest, schemas.EnqueueRequest)
    ),
    "jobs.show": Operation("get_job", "jobs", jobs.Job, query=(request_data.RevealQuery,)),
    "jobs.history": Operation("get_job_history", "jobs", jobs.JobHistory, query=(request_data.LimitQuery,)),
    "jobs.requeue": Operation(
        "requeue_job", "jobs", jobs.RequeueResult, body=(schemas.RequeueRequest,), body_optional=True, errors=(409,)
    ),
    "jobs.requeue_jobs": Operation("requeue_jobs", "jobs", jobs.BulkRequeueResult, body=(schemas.BulkRequeueRequest,)),
    "jobs.cancel": Operation("cancel_job", "jobs", jobs.CancelResult, errors=(409,)),
    "archive.restore": Operation("restore_job", "jobs", jobs.RestoreResult, errors=(409,)),
}

_CIRCUITS_AND_STAGES: Mapping[str, Operation] = {
    "circuits.list_circuits": Operation("list_circuits", "circuits", circuits.CircuitList),
    "circuits.reset": Operation("reset_circuit", "circuits", circuits.CircuitResetResult),
    "stages.list_stages": Operation("list_stages", "stages", stages.StageList),
    "stages.pause": Operation("pause_stage", "stages", stages.StagePause, body=(schemas.PauseRequest,)),
    "stages.resume": Operation("resume_stage", "stages", stages.StagePause, body=(schemas.PauseRequest,)),
}

_REPORTS: Mapping[str, Operation] = {
    "reports.list_reports": Operation(
        "list_reports", "reports", reports.ReportPage, query=(report_requests.ReportPage,)
    ),
    "reports.create": Operation(
        "create_report", "reports", reports.DayReport, body=(report_requests.ReportRequest,), body_optional=True
    ),
    "reports.show": Operation(
        "get_report", "reports", reports.DayReport, query=(report_routes.FormatQuery,), media_types=("text/csv",)
    ),
}

_SCHEDULES: Mapping[str, Operation] = {
    "schedules.list_schedules": Operation(
        "list_schedules", "schedules", schedules.SchedulePage, query=(schedule_requests.ScheduleFilter,)
    ),
    "schedules.create": Operation(
        "create_schedule",
        "schedules",
        schedules.Schedule,
        201,
        body=(schedule_requests.ScheduleRequest,),
        errors=(409,),
    ),
    "schedules.show": Operation("get_schedule", "schedules", schedules.Schedule, query=(request_data.RevealQuery,)),
    "schedules.update": Operation(
        "update_schedule", "schedules", schedules.Schedule, body=(schedule_requests.SchedulePatch,), errors=(409,)
    ),
    "schedules.delete": Operation("delete_schedule", "schedules", base.DeleteResult),
    "schedules.pause": Operation(
        "pause_schedule", "schedules", schedules.Schedule, body=(schedule_requests.PauseSchedule,), errors=(409,)
    ),
    "schedules.resume": Operation("resume_schedule", "schedules", schedules.Schedule, errors=(409,)),
    "schedules.run": Operation("trigger_schedule", "schedules", schedules.ScheduleRunResult, 202, errors=(409,)),
    "schedules.occurrences": Operation(
        "list_occurrences", "schedules", schedules.OccurrenceList, query=(request_data.LimitQuery,)
    ),
}

_WEBHOOKS: Mapping[str, Operation] = {
    "webhooks.list_endpoints": Operation(
        "list_webhook_endpoints",
        "webhook-endpoints",
        webhooks.WebhookEndpointPage,
        query=(webhook_requests.EndpointPage,),
    ),
    "webhooks.create": Operation(
        "create_webhook_endpoint",
        "webhook-endpoints",
        webhooks.WebhookEndpointWithSecret,
        201,
        body=(webhook_requests.EndpointRequest,),
        errors=(409,),
    ),
    "webhooks.show": Operation("get_webhook_endpoint", "webhook-endpoints", webhooks.WebhookEndpoint),
    "webhooks.update": Operation(
        "update_webhook_endpoint",
        "webhook-endpoints",
        webhooks.WebhookEndpoint,
        body=(webhook_requests.EndpointPatch,),
        errors=(409,),
    ),
    "webhooks.delete": Operation("delete_webhook_endpoint", "webhook-endpoints", base.DeleteResult),
    "webhooks.rotate_secret": Operation(
        "rotate_webhook_secret",
        "webhook-endpoints",
        webhooks.WebhookEndpointWithSecret,
        body=(webhook_requests.RotateRequest,),
        body_optional=True,
        errors=(409,),
    ),
    "webhooks.test": Operation("test_webhook_endpoint", "webhook-endpoints", webhooks.WebhookTest, 202, errors=(409,)),
    "inbound_webhooks.from_square": Operation(
        "receive_square_event",
        "inbound-webhooks",
        webhooks.EventReceipt,
        202,
        body=(square.Event,),
        errors=(403,),
        auth="square",
    ),
}

OPERATIONS: Mapping[str, Operation] = {
    **_SYSTEM,
    **_ORDERS,
    **_JOBS,
    **_CIRCUITS_AND_STAGES,
    **_REPORTS,
    **_SCHEDULES,
    **_WEBHOOKS,
}

# Request models whose class names are ambiguous outside of their modules.
PUBLIC_NAMES: Mapping[Model, str] = {
    cron.Trigger: "TickRequest",
    schemas.Filter: "JobFilter",
    schemas.PauseRequest: "StagePauseRequest",
    schedule_requests.PauseSchedule: "SchedulePauseRequest",
    webhook_requests.EndpointRequest: "WebhookEndpointRequest",
    webhook_requests.EndpointPatch: "WebhookEndpointPatch",
    webhook_requests.RotateRequest: "WebhookSecretRotateRequest",
    square.Event: "SquareEvent",
    square.Data: "SquareEventData",
}
