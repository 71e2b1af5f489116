"""The first screen: what is wrong, whether it works, what is stuck, what happened today."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from flask import Blueprint, current_app, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup
from pydantic import Field

from lib.errors import StoreError
from lib.jobs.bulk import BulkOperations
from lib.jobs.schemas import Filter, OperationRequest
from lib.monitoring import verdict
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.validation import Id
from lib.web import auth
from lib.web.page import pictures, pipeline, render, session
from lib.web.page.actions import Why, act, back, form
from lib.web.services import operations, services

blueprint = Blueprint("overview", __name__)

Json = dict[str, Any]

# Seconds that a job may be due: as long as the verdict waits.
_OVERDUE = 300
_MARKS = {"ok": "✓", "warning": "!", "error": "!"}
# Where the short form of a sentence ends.
_END = re.compile(r",? (?:since|at|until) \{|[:;.](?=\s|$)|\{")
_LONGEST_TITLE = 60


class _Requeue(Why):
    """The dead letters of one kind: those that failed as `job_id` did, or with `alone` that job."""

    job_id: Annotated[Id, Field(strict=False)]
    alone: Annotated[bool, Field(strict=False)] = False


@blueprint.get("/")
@session.view("jobs:read")
def show() -> ResponseReturnValue:
    """Return the first screen, with one call of the database. While that is away: what is known without it."""
    try:
        found = operations(current_app, caller=auth.caller()).overview()
    except StoreError as error:
        return _away(error)
    flow, others = pipeline.cards(found)
    by_hour = request.args.get("runs") == "week"
    return render.page(
        "overview.html",
        title=title(found["verdict"]),
        overview=found,
        flow=flow,
        others=others,
        fix=_fix(found),
        upcoming=_upcoming(found),
        overdue=_is_overdue(found),
        troubles=list(_troubles(found)),
        ticks=pictures.strip(found["ticks"]["minutes"]),
        by_hour=by_hour,
        runs=pictures.bars(found["runs"]["hours" if by_hour else "minutes"], hours=by_hour),
        starts=pictures.spread(found["starts"]),
    )


@blueprint.post("/requeue")
@session.view("jobs:write")
def requeue() -> ResponseReturnValue:
    """Requeue the dead letters of one kind, in an operation that ticks carry out; or a single one, at once."""
    wanted = form(_Requeue)
    own = operations(current_app, caller=auth.caller())
    if wanted.alone:
        return act(
            lambda: own.requeue(wanted.job_id, reason=wanted.reason),
            done=f"Job {wanted.job_id} is queued again.",
            to=back("/"),
        )

    def create() -> Json:
        # The kind as the database has it: what a page shows of it is masked.
        job = services(current_app).store.job(wanted.job_id, tenant_id=None, stages={}, missing={})
        filter_ = Filter(status="error", stage=job["stage"], error_kind=job["error_kind"])
        asked = OperationRequest(action="requeue", filter=filter_, reason=wanted.reason)
        return BulkOperations(services(current_app).store, caller=auth.caller()).create(asked)

    return act(create, done=lambda made: f"Operation {made['id']} requeues them: the next tick begins.", to=back("/"))


blueprint.add_app_template_filter(pictures.moment, "hour")
blueprint.add_app_template_global(pictures.swatch, "swatch_path")


@blueprint.app_template_filter("sentence")
def sentence(text: str) -> Markup:
    """Return a sentence of the verdict as HTML, its times as pages show them."""
    parts = [render.with_times(part) if isinstance(part, str) else render.time(part) for part in verdict.parts(text)]
    return Markup("").join(parts)


def title(judged: Json) -> str:
    """Return the verdict for the title of a tab: a mark, and its sentence up to its first detail."""
    short = _END.split(judged["sentence"], maxsplit=1)[0].strip()
    if len(short) > _LONGEST_TITLE:
        short = f"{short[:_LONGEST_TITLE].rstrip()}…"
    return f"{_MARKS[judged['level']]} {short} – Gift cards"


def _away(error: StoreError) -> ResponseReturnValue:
    text = clean(str(error), secrets=services(current_app).settings.secrets())
    events.emit("request_failed", error=text, sqlstate=error.sqlstate)
    judged = verdict.away(text).as_json()
    response = render.page("away.html", status=503, title=title(judged), overview={"verdict": judged})
    response.headers["Retry-After"] = "60"
    return response


def _fix(found: Json) -> Json | None:
    """Return the verdict's action; of one that requeues, with the dead letters that it is about."""
    action: Json | None = found["verdict"]["action"]
    if not action or action["kind"] != "requeue":
        return action
    groups = [
        group for group in found["dead"] if (group["stage"], group["kind"]) == (action["stage"], action["target"])
    ]
    return action | {"group": groups[0]} if groups else None


def _upcoming(found: Json) -> str | None:
    """Return the first time in the future of what happens next."""
    now = verdict.moment(found["now"])
    times = [part for part in verdict.parts(found["verdict"]["next"]) if not isinstance(part, str)]
    return next((time.isoformat() for time in times if now and time > now), None)


def _troubles(found: Json) -> Iterator[str]:
    """Yield how much of each kind is stuck."""
    if _is_overdue(found):
        yield "a job is overdue"
    if circuits := found["circuits"]:
        yield render.counted(len(circuits), "open circuit")
    if dead := found["dead"]:
        yield render.counted(len(dead), "kind of dead letters", "kinds of dead letters")
    if red := [check for check in found["checks"] if check["level"] == "red"]:
        yield render.counted(len(red), "red line of the doctor", "red lines of the doctor")
    if differences := found["differences"]["count"]:
        yield render.counted(differences, "difference in the books", "differences in the books")


def _is_overdue(found: Json) -> bool:
    since = verdict.moment((found["oldest_due"] or {}).get("since"))
    now = verdict.moment(found["now"])
    return bool(since and now and (now - since).total_seconds() > _OVERDUE)
