"""Batches of jobs: create, list, show, add, seal, cancel, requeue."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.batch_schemas import BatchActRequest, BatchJobsRequest, BatchPage, BatchRequest
from lib.jobs.batches import Batches
from lib.web import auth
from lib.web.request_data import idempotency_key, path_id, read_body, read_query
from lib.web.services import batches

blueprint = Blueprint("batches", __name__, url_prefix="/api/v1/batches")


def _batches() -> Batches:
    return batches(current_app, caller=auth.caller())


@blueprint.get("")
@auth.scope("jobs:read")
def list_batches() -> dict[str, Any]:
    """Return a page of batches, newest first."""
    (page,) = read_query(BatchPage)
    return _batches().list(page)


@blueprint.post("")
@auth.scope("jobs:write")
def create() -> tuple[dict[str, Any], int]:
    """Create a batch with its jobs, all or none.

    When the last of them has ended, the follow-up is enqueued, once. Next jobs belong to the batch of their job. If the
    response is lost, repeat the request with the same `name`: it returns the same batch. The same name with other jobs
    is rejected with 422, a job that exists already with 409.
    """
    return _batches().create(read_body(BatchRequest)), 201


@blueprint.get("/<int:batch_id>")
@auth.scope("jobs:read")
def show(batch_id: int) -> dict[str, Any]:
    """Return a batch with its progress."""
    read_query()
    return _batches().find(_checked(batch_id))


@blueprint.post("/<int:batch_id>/jobs")
@auth.scope("jobs:write")
def add(batch_id: int) -> tuple[dict[str, Any], int]:
    """Enqueue more jobs into an open batch, all or none.

    A job that is in the batch already stays as it is. A sealed batch, or a job that exists outside of it, is rejected
    with 409.
    """
    return _batches().add(_checked(batch_id), read_body(BatchJobsRequest)), 202


@blueprint.post("/<int:batch_id>/seal")
@auth.scope("jobs:write")
def seal(batch_id: int) -> dict[str, Any]:
    """Seal a batch: no other job can join it.

    One whose jobs have all ended, or that has none, ends at once. A sealed batch stays as it is.
    """
    return _batches().seal(_checked(batch_id))


@blueprint.post("/<int:batch_id>/cancel")
@auth.scope("jobs:write")
def cancel(batch_id: int) -> dict[str, Any]:
    """Cancel the jobs of a batch that have not completed, and seal it.

    Returns the operation that does it. The follow-up is enqueued at the end, with the number of cancelled jobs.
    """
    reason = read_body(BatchActRequest).reason
    return _batches().cancel(_checked(batch_id), reason=reason, idempotency_key=idempotency_key())


@blueprint.post("/<int:batch_id>/requeue")
@auth.scope("jobs:write")
def requeue(batch_id: int) -> dict[str, Any]:
    """Requeue the dead letters of a batch.

    Returns the operation that does it. A batch that has ended stays so: its follow-up is not enqueued again.
    """
    reason = read_body(BatchActRequest).reason
    return _batches().requeue(_checked(batch_id), reason=reason, idempotency_key=idempotency_key())


def _checked(batch_id: int) -> int:
    return path_id(batch_id, name="batch_id", missing="batch {} does not exist")
