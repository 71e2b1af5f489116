"""Each route by its endpoint: the models that read its request, and what it answers. Its path, methods, words and door
are taken from the route itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from lib.giftcards.square import Event
from lib.jobs import schemas
from lib.reports.schemas import ReportPage, ReportRequest
from lib.schedules import schemas as schedules
from lib.web import cron, giftcards, queries, reports
from lib.web.openapi import answers, mending, planning
from lib.webhooks import schemas as webhooks

Model = type[BaseModel]


@dataclass(frozen=True, slots=True)
class Described:
    """`body`: one of these models; `texts`: media types of answers that are no JSON; `troubled`: what 503 may carry
    instead of a problem; `refuses`: statuses that neither the door nor the models tell of; `door`: where a route checks
    it by itself."""

    answer: Model | None = None
    status: int = 200
    body: tuple[Model, ...] = ()
    body_optional: bool = False
    query: tuple[Model, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    troubled: Model | None = None
    refuses: tuple[int, ...] = ()
    door: str | None = None


_KEY = r"^[\x21-\x7e]{1,255}$"

_CLOCK: Mapping[str, Described] = {
    "health.health": Described(answers.Health, troubled=answers.Health),
    "health.status": Described(answers.Picture),
    "watch.metrics": Described(texts=("text/plain",)),
    "watch.deep": Described(answers.DeepHealth, troubled=answers.DeepHealth),
    "cron.tick": Described(answers.Report, headers={"x-vercel-execution-id": ""}, refuses=(403,)),
    "cron.run": Described(answers.Report, body=(cron.Trigger,), body_optional=True, refuses=(403,)),
    "documentation.document": Described(planning.Document),
    "documentation.page": Described(texts=("text/html",)),
}

_ORDERS: Mapping[str, Described] = {
    "giftcards.submit": Described(
        answers.Accepted, 202, body=(giftcards.OrderRequest,), headers={"Idempotency-Key": _KEY}, refuses=(409,)
    ),
    "giftcards.show": Described(answers.Flow, query=(queries.OfTenant,)),
    "incoming.from_square": Described(planning.Taken, 202, body=(Event,), refuses=(403,), door="square"),
}

_JOBS: Mapping[str, Described] = {
    "jobs.list_jobs": Described(answers.Jobs, query=(schemas.Filter, schemas.Page, queries.Reveal)),
    "jobs.enqueue": Described(answers.Enqueued, 202, body=(schemas.JobRequest, schemas.EnqueueRequest)),
    "jobs.show": Described(answers.FoundJob, query=(queries.Reveal,)),
    "jobs.history": Described(answers.Runs, query=(queries.Latest,)),
    "jobs.requeue": Described(mending.Requeued, body=(schemas.RequeueRequest,), body_optional=True, refuses=(409,)),
    "jobs.requeue_jobs": Described(mending.RequeuedJobs, body=(schemas.BulkRequeueRequest,)),
    "jobs.cancel": Described(mending.Cancelled, refuses=(409,)),
    "pruning.restore": Described(mending.Restored, refuses=(409,)),
    "jobs.cancel_flow": Described(mending.CancelledFlow, query=(queries.OfTenant,)),
    "jobs.circuits": Described(mending.Circuits),
    "jobs.reset_circuit": Described(mending.ResetCircuit),
    "jobs.stages": Described(mending.Stages),
    "jobs.pause": Described(mending.Pause, body=(schemas.PauseRequest,)),
    "jobs.resume": Described(mending.Pause, body=(schemas.PauseRequest,)),
}

_REPORTS: Mapping[str, Described] = {
    "reports.list_reports": Described(planning.ReportRows, query=(ReportPage,)),
    "reports.make": Described(planning.DayReport, body=(ReportRequest,), body_optional=True),
    "reports.show": Described(planning.DayReport, query=(reports.Form,), texts=("text/csv",)),
}

_SCHEDULES: Mapping[str, Described] = {
    "schedules.list_schedules": Described(planning.Schedules, query=(schedules.ScheduleFilter,)),
    "schedules.create": Described(planning.FoundSchedule, 201, body=(schedules.ScheduleRequest,), refuses=(409,)),
    "schedules.show": Described(planning.FoundSchedule, query=(queries.Reveal,)),
    "schedules.change": Described(planning.FoundSchedule, body=(schedules.SchedulePatch,), refuses=(409,)),
    "schedules.delete": Described(planning.Deleted),
    "schedules.pause": Described(planning.FoundSchedule, body=(schedules.PauseSchedule,), refuses=(409,)),
    "schedules.resume": Described(planning.FoundSchedule, refuses=(409,)),
    "schedules.run": Described(planning.Started, 202, refuses=(409,)),
    "schedules.occurrences": Described(planning.Occurrences, query=(queries.Latest,)),
    "schedules.precision": Described(mending.PrecisionByStage, query=(schedules.Window,)),
}

_WEBHOOKS: Mapping[str, Described] = {
    "webhooks.list_endpoints": Described(planning.Endpoints, query=(webhooks.EndpointPage,)),
    "webhooks.create": Described(planning.EndpointWithSecret, 201, body=(webhooks.EndpointRequest,), refuses=(409,)),
    "webhooks.show": Described(planning.Endpoint),
    "webhooks.change": Described(planning.Endpoint, body=(webhooks.EndpointPatch,), refuses=(409,)),
    "webhooks.delete": Described(planning.Deleted),
    "webhooks.rotate_secret": Described(
        planning.EndpointWithSecret, body=(webhooks.RotateRequest,), body_optional=True, refuses=(409,)
    ),
    "webhooks.test": Described(planning.TestSent, 202, refuses=(409,)),
}

TABLE: Mapping[str, Described] = {**_CLOCK, **_ORDERS, **_JOBS, **_REPORTS, **_SCHEDULES, **_WEBHOOKS}
