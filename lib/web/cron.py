"""Ticks: the clock's call, and the manual trigger."""

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
from lib.web.problems import Problem
from lib.web.request_data import read
from lib.web.services import Giftcards, giftcards

blueprint = Blueprint("cron", __name__)

# Characters: an index of Postgres holds no long ones.
_LONGEST_EXECUTION_ID = 200


class Trigger(StrictModel):
    """What a manual trigger may ask for; nothing asked: as the settings say, without lingering."""

    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    stage: StageName | None = None
    job_id: Id | None = None
    budget_seconds: Annotated[float, Field(gt=0, le=780)] | None = None
    linger: bool = False


def _tick(parts: Giftcards, **wanted: Any) -> dict[str, Any]:
    if parts.settings.vercel_env == "preview" and not parts.settings.giftcard_allow_preview:
        raise Problem(403, "a preview deployment runs no tick", detail="set GIFTCARD_ALLOW_PREVIEW=1 if it shall")
    longest = parts.settings.giftcard_tick_budget_seconds + parts.registry().longest(parts.settings) + MARGIN_SECONDS
    watched = sentry.checked_in(parts.settings, longest=longest) if wanted["source"] == "cron" else nullcontext()
    with watched, parts.shutdown.tick() as stop:
        report = run_tick(parts.store, parts.registry(), parts.settings, stop=stop, **wanted)
        return report.told(limited=wanted.get("limit") is not None)


@blueprint.route("/api/cron/giftcard-jobs", methods=["GET", "POST"])
@auth.cron
def tick() -> dict[str, Any]:
    """Run a tick, on behalf of a scheduler.

    Vercel's cron sends GET; any other scheduler may send GET or POST. The tick goes on if the client disconnects.
    """
    parts = giftcards(current_app)
    execution_id = request.headers.get(parts.settings.giftcard_execution_id_header, "")
    if len(execution_id) > _LONGEST_EXECUTION_ID:
        execution_id = hashlib.sha256(execution_id.encode()).hexdigest()
    return _tick(parts, source="cron", execution_id=execution_id or None)


@blueprint.post("/api/jobs/run")
@auth.admin
def run() -> dict[str, Any]:
    """Run a tick now.

    Without a body it uses the configured limits and does not wait for jobs that become due later. With `job_id` it
    runs that job even before it is due, unless the job is held by an open circuit or a pause.
    """
    wish = read(Trigger, optional=True)
    parts = giftcards(current_app)
    budget = wish.budget_seconds and min(wish.budget_seconds, parts.settings.giftcard_tick_budget_seconds)
    return _tick(
        parts,
        source="manual",
        limit=1 if wish.job_id else wish.limit,
        budget=budget,
        linger=wish.linger,
        only_stage=wish.stage,
        only_job_id=wish.job_id,
    )
