"""One job: its whole story, what is in it, and what may be done with it."""

from typing import Any

from flask import Blueprint, current_app, request
from flask.typing import ResponseReturnValue

from lib.jobs.schemas import HistoryPage
from lib.jobs.story import JobStories
from lib.operations import Operations
from lib.web import auth
from lib.web.page import actions, filters, render, session, timeline
from lib.web.problems import of_fields
from lib.web.request_data import path_id
from lib.web.services import operations, services

blueprint = Blueprint("job", __name__)

_RUNS = 20


@blueprint.get("/jobs/<int:job_id>")
@session.view("jobs:read", all_tenants=False)
def show(job_id: int) -> ResponseReturnValue:
    """Return the story of a job, masked."""
    page, wrong = filters.read(HistoryPage, request.args)
    if wrong:
        raise of_fields(list(wrong.items()), what="address")
    return _page(stories().find(checked(job_id), limit=_RUNS, older=page.older), older=page.older)


@blueprint.post("/jobs/<int:job_id>/reveal")
@session.view("admin", all_tenants=False)
def reveal(job_id: int) -> ResponseReturnValue:
    """Return the story of a job with its personal data in clear. The audit records who asked, and why."""
    return _page(stories().reveal(checked(job_id), reason=actions.why()), in_clear=True)


@blueprint.post("/jobs/<int:job_id>/requeue")
@session.view("jobs:write", all_tenants=False)
def requeue(job_id: int) -> ResponseReturnValue:
    """Requeue a job; with `force` also a completed one."""
    force = request.form.get("force") == "true"
    return actions.act(
        lambda: _operations().requeue(checked(job_id), force=force, reason=actions.why()),
        done="Requeued: it is due now, with a full set of attempts. The next tick takes it.",
        to=actions.back(f"/jobs/{job_id}"),
    )


@blueprint.post("/jobs/<int:job_id>/cancel")
@session.view("jobs:write", all_tenants=False)
def cancel(job_id: int) -> ResponseReturnValue:
    """Cancel a job: now, or when its run ends."""
    return actions.act(
        lambda: _operations().cancel(checked(job_id), reason=actions.why()),
        done=lambda answer: "Its run goes on; then it is cancelled." if answer["cancel_requested"] else "Cancelled.",
        to=actions.back(f"/jobs/{job_id}"),
    )


@blueprint.post("/jobs/<int:job_id>/restore")
@session.view("jobs:write", all_tenants=False)
def restore(job_id: int) -> ResponseReturnValue:
    """Restore a job from the archive."""
    return actions.act(
        lambda: _operations().restore(checked(job_id), reason=actions.why()),
        done="Restored from the archive, as it was.",
        to=actions.back(f"/jobs/{job_id}"),
    )


def stories() -> JobStories:
    """Return the stories of jobs that the session may see."""
    own = services(current_app)
    return JobStories(own.store, own.registry, own.settings, caller=auth.caller())


def checked(job_id: int) -> int:
    """Return a job's number. Raise Problem (404) for one that no job can have."""
    return path_id(job_id, name="job_id", missing="job {} does not exist")


def _operations() -> Operations:
    return operations(current_app, caller=auth.caller())


def _page(story: dict[str, Any], *, older: int | None = None, in_clear: bool = False) -> ResponseReturnValue:
    job = story["job"]
    return render.page(
        "job.html",
        job=job,
        story=story,
        strip=timeline.strip(job, story["runs"]),
        bars=timeline.bars(story["runs"]),
        older=older,
        in_clear=in_clear,
        can_requeue=job["status"] in ("error", "cancelled") and not job["archived_at"],
        can_force=job["status"] == "completed" and not job["archived_at"],
        can_cancel=job["status"] in ("queued", "running", "error") and not job["archived_at"],
    )
