"""Operations on many jobs: preview, create, list, show, stop."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.bulk import BulkOperations
from lib.jobs.schemas import OperationPage, OperationRequest
from lib.web import auth
from lib.web.request_data import idempotency_key, path_id, read_body, read_query
from lib.web.services import services

blueprint = Blueprint("bulk", __name__, url_prefix="/api/v1/operations")


def _bulk() -> BulkOperations:
    return BulkOperations(services(current_app).store, caller=auth.caller())


@blueprint.get("")
@auth.scope("jobs:read")
def list_operations() -> dict[str, Any]:
    """Return a page of operations, newest first."""
    (page,) = read_query(OperationPage)
    return _bulk().list(page)


@blueprint.post("")
@auth.scope("jobs:write")
def create() -> dict[str, Any]:
    """Create an operation on many jobs, or count the jobs with `dry_run`.

    Ticks carry it out in steps. It changes only jobs that exist when it is created. If the response is lost, repeat the
    request with the same `Idempotency-Key`: it returns the same operation. The same key with another body is rejected
    with 422.
    """
    wanted = read_body(OperationRequest)
    if wanted.dry_run:
        return _bulk().preview(wanted)
    return _bulk().create(wanted, idempotency_key=idempotency_key())


@blueprint.get("/<int:operation_id>")
@auth.scope("jobs:read")
def show(operation_id: int) -> dict[str, Any]:
    """Return an operation with its progress."""
    read_query()
    return _bulk().find(_checked(operation_id))


@blueprint.post("/<int:operation_id>/stop")
@auth.scope("jobs:write")
def stop(operation_id: int) -> dict[str, Any]:
    """Stop an operation. What it has changed stays.

    One that is stopped already stays as it is; one that has completed or failed is rejected with 409.
    """
    return _bulk().stop(_checked(operation_id))


def _checked(operation_id: int) -> int:
    return path_id(operation_id, name="operation_id", missing="operation {} does not exist")
