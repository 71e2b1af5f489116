"""What has left for the archive comes back."""

from typing import Any

from flask import Blueprint, current_app

from lib.web import auth
from lib.web.problems import Problem
from lib.web.services import operations

blueprint = Blueprint("pruning", __name__, url_prefix="/api/v1")


@blueprint.post("/jobs/<int:job_id>/restore")
@auth.admin
def restore(job_id: int) -> dict[str, Any]:
    """Restore a job from the archive.

    The job keeps its id, its status and its history.
    """
    if not 1 <= job_id < 2**63:
        raise Problem(404, f"job {str(job_id)[:30]} is not in the archive", field="job_id")
    return operations(current_app).restore(job_id)
