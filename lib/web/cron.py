"""Ticks: called by a scheduler, or by an operator."""

import hashlib
from contextlib import nullcontext
from typing import Annotated, Any

from flask import Blueprint, current_app, request
from pydantic import Field

from lib.config.settings import MARGIN_SECONDS
from lib.telemetry import sentry
from lib.tick.tick import run_tick
from lib.validation import Id, StageName, StrictModel
from lib.web import auth
from lib.web.request_data import read_body
from lib.web.services import Services, services

blueprint = Blueprint("cron", __name__)

# Characters: an index of Postgres holds no long ones.
_LONGEST_EXECUTION_ID = 200


class Trigger(StrictModel):
    """The limits of one tick. Without them the configured limits apply, and the tick does not linger."""

    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    stage: StageName | None = None
    job_id: Id | None = None
    budget_seconds: Annotated[float, Field(gt=0, le=780)] | None = None
    linger: bool = False


def _tick(own: Services, **options: Any) -> dict[str, Any]:
    settings = own.settings
    longest = settings.giftcard_tick_budget_seconds + own.registry().longest(settings) + MARGIN_SECONDS
    is_watched = options["source"] == "cron" and settings.runs_ticks
    watched = sentry.checked_in(settings, longest=longest) if is_watched else nullcontext()
    with watched, own.shutdown.tick() as stop:
        report = run_tick(own.store, own.registry(), settings, stop=stop, **options)
        return report.with_advice(limited=options.get("limit") is not None)


@blueprint.route("/api/cron/giftcard-jobs", methods=["GET", "POST"])
@auth.scope("ticks")
def tick() -> dict[str, Any]:
    """Run a tick, on behalf of a scheduler.

    Vercel's cron sends GET; any other scheduler may send GET or POST. The tick goes on if the client disconnects. A
    wake (`X-Giftcard-Wake`) comes between two calls of the clock, and does not count as one.
    """
    own = services(current_app)
    execution_id = request.headers.get(own.settings.giftcard_execution_id_header, "")
    if len(execution_id) > _LONGEST_EXECUTION_ID:
        execution_id = hashlib.sha256(execution_id.encode()).hexdigest()
    source = "wake" if request.headers.get("X-Giftcard-Wake") else "cron"
    return _tick(own, source=source, execution_id=execution_id or None)


@blueprint.post("/api/jobs/run")
@auth.scope("admin", all_tenants=True)
def run() -> dict[str, Any]:
    """Run a tick now.

    Without a body it uses the configured limits and does not wait for jobs that become due later. With `job_id` it
    runs that job even before it is due, unless the job is held by an open circuit or a pause.
    """
    body = read_body(Trigger, optional=True)
    own = services(current_app)
    budget = body.budget_seconds and min(body.budget_seconds, own.settings.giftcard_tick_budget_seconds)
    return _tick(
        own,
        source="manual",
        limit=1 if body.job_id else body.limit,
        budget=budget,
        linger=body.linger,
        only_stage=body.stage,
        only_job_id=body.job_id,
    )
