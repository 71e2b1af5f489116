"""Restore archived jobs."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.schemas import ActRequest
from lib.web import auth
from lib.web.request_data import path_id, read_body
from lib.web.services import operations

blueprint = Blueprint("archive", __name__, url_prefix="/api/v1")


@blueprint.post("/jobs/<int:job_id>/restore")
@auth.scope("jobs:write")
def restore(job_id: int) -> dict[str, Any]:
    """Restore a job from the archive.

    The job keeps its id, its status and its history.
    """
    number = path_id(job_id, name="job_id", missing="job {} is not in the archive")
    body = read_body(ActRequest, optional=True)
    return operations(current_app, caller=auth.caller()).restore(number, reason=body.reason)
