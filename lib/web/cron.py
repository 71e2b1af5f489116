"""Ticks: called by a scheduler, or by an operator."""

from typing import Annotated, Any

from flask import Blueprint, current_app, request
from pydantic import Field

from lib.validation import Id, StageName, StrictModel
from lib.web import auth, clock
from lib.web.request_data import read_body
from lib.web.services import services

blueprint = Blueprint("cron", __name__)


class Trigger(StrictModel):
    """The limits of one tick. Without them the configured limits apply, and the tick does not linger."""

    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    stage: StageName | None = None
    job_id: Id | None = None
    budget_seconds: Annotated[float, Field(gt=0, le=780)] | None = None
    linger: bool = False


@blueprint.route(clock.CRON_PATH, methods=["GET", "POST"])
@auth.scope("ticks")
def tick() -> dict[str, Any]:
    """Run a tick, on behalf of a scheduler.

    Vercel's cron sends GET; any other scheduler may send GET or POST. The tick goes on if the client disconnects. A
    wake (`X-Giftcard-Wake`) comes between two calls of the clock, and does not count as one.
    """
    return clock.tick_of_clock(services(current_app), request.environ)


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
    return clock.tick(
        own,
        source="manual",
        limit=1 if body.job_id else body.limit,
        budget=budget,
        linger=body.linger,
        only_stage=body.stage,
        only_job_id=body.job_id,
    )
