"""The operations of the API, by Flask endpoint: the models of their requests and responses.

Paths, methods, summaries and authentication are read from the routes themselves.
"""

from collections.abc import Mapping

from lib.giftcards import schemas as order_requests
from lib.giftcards import square_events
from lib.jobs import audit as audit_requests
from lib.jobs import schemas
from lib.reports import schemas as report_requests
from lib.schedules import schemas as schedule_requests
from lib.web import cron, health, request_data
from lib.web import orders as order_routes
from lib.web import reports as report_routes
from lib.web.openapi.batch_operations import BATCHES
from lib.web.openapi.client_operations import CLIENTS
from lib.web.openapi.operation import IDEMPOTENCY_KEY, Model, Operation
from lib.web.openapi.responses import (
    audit,
    base,
    bulk,
    circuits,
    decisions,
    docs,
    jobs,
    monitoring,
    orders,
    overview,
    reports,
    schedules,
    stages,
    ticks,
    trouble,
)
from lib.webhooks import schemas as webhook_requests

_SYSTEM: Mapping[str, Operation] = {
    "health.health": Operation("get_health", "monitoring", monitoring.Health, unhealthy=monitoring.Health),
    "health.overview": Operation("get_overview", "monitoring", overview.Overview),
    "health.status": Operation("get_status", "monitoring", monitoring.Status, query=(health.StatusQuery,)),
    "metrics.metrics": Operation("get_metrics", "monitoring", media_types=("text/plain",)),
    "health.deep": Operation("get_deep_health", "monitoring", monitoring.DeepHealth, unhealthy=monitoring.DeepHealth),
    "schedules.precision": Operation(
        "get_precision", "monitoring", monitoring.Precision, query=(schedule_requests.Window,)
    ),
    "cron.tick": Operation("trigger_cron_tick", "ticks", ticks.TickReport, headers={"x-vercel-execution-id": ""}),
    "cron.run": Operation("trigger_tick", "ticks", ticks.TickReport, body=(cron.Trigger,), body_optional=True),
    "audit.list_audit": Operation("list_audit", "audit", audit.AuditPage, query=(audit_requests.AuditPage,)),
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
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
        errors=(409,),
    ),
    "orders.show": Operation("get_order", "orders", orders.Flow, query=(request_data.TenantQuery, schemas.FlowPage)),
    "orders.search": Operation("search_orders", "orders", orders.OrderSearchResult, body=(order_requests.OrderSearch,)),
    "orders.story": Operation(
        "get_order_story", "orders", orders.OrderStory, query=(request_data.TenantQuery, request_data.RevealQuery)
    ),
    "jobs.cancel_flow": Operation(
        "cancel_flow",
        "flows",
        orders.FlowCancelResult,
        body=(schemas.ActRequest,),
        body_optional=True,
        query=(request_data.TenantQuery,),
    ),
}

_DECISIONS: Mapping[str, Operation] = {
    "decisions.reconcile": Operation(
        "list_differences", "reconciliation", decisions.Reconciliation, query=(order_requests.DifferenceQuery,)
    ),
    "decisions.accept": Operation(
        "accept_difference",
        "reconciliation",
        decisions.AcceptedDifference,
        body=(order_requests.AcceptRequest,),
        errors=(404,),
    ),
    "decisions.make_free": Operation(
        "make_order_free",
        "orders",
        decisions.FreeOrder,
        body=(order_requests.FreeRequest,),
        query=(request_data.TenantQuery,),
        errors=(409,),
    ),
    "decisions.correct_recipient": Operation(
        "correct_recipient",
        "orders",
        decisions.RecipientCorrection,
        body=(order_requests.RecipientPatch,),
        query=(request_data.TenantQuery,),
        errors=(409,),
    ),
    "decisions.record_event": Operation(
        "record_payment_event",
        "orders",
        decisions.PaymentEvent,
        body=(order_requests.PaymentEventRequest,),
        query=(request_data.TenantQuery,),
        errors=(409,),
    ),
    "decisions.resend": Operation(
        "resend_mail",
        "orders",
        decisions.MailResend,
        202,
        body=(order_requests.ResendRequest,),
        query=(request_data.TenantQuery,),
        errors=(409,),
    ),
    "decisions.block_card": Operation(
        "block_card", "orders", decisions.CardBlock, 202, query=(request_data.TenantQuery,)
    ),
}

_JOBS: Mapping[str, Operation] = {
    "jobs.list_jobs": Operation(
        "list_jobs", "jobs", jobs.JobPage, query=(schemas.Filter, schemas.Page, request_data.RevealQuery)
    ),
    "jobs.stuck": Operation("list_stuck", "jobs", trouble.StuckList, query=(schemas.StuckQuery,)),
    "jobs.errors": Operation("list_errors", "jobs", trouble.ErrorList, query=(schemas.ErrorsQuery,)),
    "jobs.enqueue": Operation(
        "enqueue_jobs", "jobs", jobs.EnqueueResult, 202, body=(schemas.JobRequest, schemas.EnqueueRequest)
    ),
    "jobs.show": Operation("get_job", "jobs", jobs.Job, query=(request_data.RevealQuery,)),
    "jobs.history": Operation("get_job_history", "jobs", jobs.JobHistory, query=(schemas.HistoryPage,)),
    "jobs.requeue": Operation(
        "requeue_job", "jobs", jobs.RequeueResult, body=(schemas.RequeueRequest,), body_optional=True, errors=(409,)
    ),
    "jobs.requeue_jobs": Operation("requeue_jobs", "jobs", jobs.BulkRequeueResult, body=(schemas.BulkRequeueRequest,)),
    "jobs.cancel": Operation(
        "cancel_job", "jobs", jobs.CancelResult, body=(schemas.ActRequest,), body_optional=True, errors=(409,)
    ),
    "archive.restore": Operation(
        "restore_job", "jobs", jobs.RestoreResult, body=(schemas.ActRequest,), body_optional=True, errors=(409,)
    ),
}

_OPERATIONS: Mapping[str, Operation] = {
    "bulk.list_operations": Operation(
        "list_operations", "operations", bulk.OperationPage, query=(schemas.OperationPage,)
    ),
    "bulk.create": Operation(
        "create_operation",
        "operations",
        bulk.OperationResult,
        body=(schemas.OperationRequest,),
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
    ),
    "bulk.show": Operation("get_operation", "operations", bulk.Operation),
    "bulk.stop": Operation("stop_operation", "operations", bulk.Operation, errors=(409,)),
}

_CIRCUITS_AND_STAGES: Mapping[str, Operation] = {
    "circuits.list_circuits": Operation(
        "list_circuits", "circuits", circuits.CircuitList, query=(schemas.CircuitPage,)
    ),
    "circuits.reset": Operation(
        "reset_circuit", "circuits", circuits.CircuitResetResult, body=(schemas.ActRequest,), body_optional=True
    ),
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
        "list_occurrences", "schedules", schedules.OccurrenceList, query=(schedule_requests.RunPage,)
    ),
    "schedules.history": Operation(
        "get_schedule_history", "schedules", schedules.ScheduleHistory, query=(schedule_requests.RunPage,)
    ),
}

OPERATIONS: Mapping[str, Operation] = {
    **_SYSTEM,
    **_ORDERS,
    **_DECISIONS,
    **_JOBS,
    **_OPERATIONS,
    **BATCHES,
    **_CIRCUITS_AND_STAGES,
    **_REPORTS,
    **_SCHEDULES,
    **CLIENTS,
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
    order_requests.FreeRequest: "FreeOrderRequest",
    order_requests.EventMoney: "PaymentEventMoney",
    order_requests.ResendRequest: "MailResendRequest",
    order_requests.OrderSearch: "OrderSearchRequest",
    square_events.Event: "SquareEvent",
    square_events.Data: "SquareEventData",
}
