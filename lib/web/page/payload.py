"""The editor of a payload, with the validation of its stage."""

from typing import Any

from flask import Blueprint, Response, current_app, flash, redirect, request
from flask.typing import ResponseReturnValue

from lib.errors import Conflict, Forbidden, Invalid, Refused
from lib.validation import JsonError, strict_json
from lib.web import auth
from lib.web.page import actions, render, session
from lib.web.page.job import checked, stories
from lib.web.page.shown import json_text
from lib.web.problems import Problem
from lib.web.services import operations

blueprint = Blueprint("payload", __name__)

_PATH = "/jobs/<int:job_id>/payload"
_REASON = "to correct the payload"
# Characters that a form can send back, however they are encoded.
_MOST = 60_000


@blueprint.get(_PATH)
@session.view("admin", all_tenants=False)
def edit(job_id: int) -> ResponseReturnValue:
    """Return the editor with the payload in clear, which the audit records."""
    job = stories().reveal(checked(job_id), reason=_REASON)["job"]
    return _editor(job_id, json_text(job["payload"]), job=job)


@blueprint.post(_PATH)
@session.view("admin", all_tenants=False)
def save(job_id: int) -> ResponseReturnValue:
    """Requeue the job with the payload of the form; the editor again with what is wrong with it."""
    text = request.form.get("payload", "")
    force = request.form.get("force") == "true"
    try:
        payload = strict_json(text)
        if not isinstance(payload, dict):
            raise JsonError("it must be an object: { … }")
        own = operations(current_app, caller=auth.caller())
        own.requeue(checked(job_id), payload=payload, force=force, reason=actions.why())
    except JsonError as error:
        where = f" ({error.field})" if error.field else ""
        return _editor(job_id, text, errors=[("", f"This is not valid JSON{where}: {error}")], force=force)
    except Problem as error:
        if not error.errors:
            raise
        return _editor(job_id, text, errors=error.errors, force=force)
    except (Invalid, Forbidden, Conflict) as error:
        found = getattr(error, "errors", ()) or [(getattr(error, "field", "") or "", str(error))]
        return _editor(job_id, text, errors=found, force=force)
    except Refused as error:
        if error.sqlstate == "GC404":
            raise
        return _editor(job_id, text, errors=[(error.field or "", str(error))], force=force)
    flash("Requeued with the corrected payload: it is due now, with a full set of attempts.", "done")
    return redirect(f"/jobs/{job_id}", 303)


def _editor(job_id: int, text: str, *, job: dict[str, Any] | None = None, errors: Any = (), **given: Any) -> Response:
    """Return the editor. `job` None: the form was sent, and is shown again as it was sent."""
    return render.page(
        "payload.html",
        status=422 if errors else 200,
        job_id=job_id,
        stage=job["stage"] if job else request.form.get("stage", ""),
        is_completed=job["status"] == "completed" if job else "force" in request.form or request.form.get("completed"),
        refused=_why_not(job, text) if job else None,
        text=text,
        reason="" if job else request.form.get("reason", ""),
        errors=[(_field(field), message) for field, message in errors],
        **{"force": False} | given,
    )


def _why_not(job: dict[str, Any], text: str) -> str | None:
    """Return why no payload can be sent for a job; None: one can."""
    if job["archived_at"]:
        return "This job is in the archive: restore it first."
    if job["status"] in ("queued", "running"):
        return f"This job is {job['status']}: cancel it first, then correct its payload."
    if len(text) > _MOST:
        return f"This payload has {len(text):,} characters, too many for a form: use flask jobs requeue --payload."
    return None


def _field(field: str) -> str:
    return field.removeprefix("payload.") if field != "payload" else ""
