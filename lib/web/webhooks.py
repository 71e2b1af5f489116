"""The API of webhook endpoints. What it works with is imported when it is asked: the clock's calls never need it."""

from typing import TYPE_CHECKING, Any

from flask import Blueprint, current_app

from lib.web import auth
from lib.web.problems import Problem
from lib.web.queries import query
from lib.web.request_data import read
from lib.web.services import giftcards

if TYPE_CHECKING:
    from lib.webhooks.service import Endpoints

blueprint = Blueprint("webhooks", __name__, url_prefix="/api/v1/webhook-endpoints")


def _endpoints() -> "Endpoints":
    from lib.webhooks.service import Endpoints

    parts = giftcards(current_app)
    return Endpoints(parts.store, parts.settings)


@blueprint.get("")
@auth.admin
def list_endpoints() -> dict[str, Any]:
    """Return a page of webhook endpoints, newest first."""
    from lib.webhooks.schemas import EndpointPage

    (page,) = query(EndpointPage)
    return _endpoints().find(page)


@blueprint.post("")
@auth.admin
def create() -> tuple[dict[str, Any], int]:
    """Create a webhook endpoint.

    Only this response has its signing secret.
    """
    from lib.webhooks.schemas import EndpointRequest

    return _endpoints().create(read(EndpointRequest)), 201


@blueprint.get("/<int:endpoint_id>")
@auth.admin
def show(endpoint_id: int) -> dict[str, Any]:
    """Return a webhook endpoint."""
    query()
    return _endpoints().show(_in_range(endpoint_id))


@blueprint.patch("/<int:endpoint_id>")
@auth.admin
def change(endpoint_id: int) -> dict[str, Any]:
    """Update the given fields of a webhook endpoint."""
    from lib.webhooks.schemas import EndpointPatch

    return _endpoints().change(_in_range(endpoint_id), read(EndpointPatch))


@blueprint.delete("/<int:endpoint_id>")
@auth.admin
def delete(endpoint_id: int) -> dict[str, Any]:
    """Delete a webhook endpoint."""
    return _endpoints().delete(_in_range(endpoint_id))


@blueprint.post("/<int:endpoint_id>/rotate-secret")
@auth.admin
def rotate_secret(endpoint_id: int) -> dict[str, Any]:
    """Replace the signing secret of a webhook endpoint.

    Only this response has the new secret. The previous one also signs for `former_hours`.
    """
    from lib.webhooks.schemas import RotateRequest

    return _endpoints().rotate(_in_range(endpoint_id), read(RotateRequest, optional=True))


@blueprint.post("/<int:endpoint_id>/test")
@auth.admin
def test(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """Send a test event to a webhook endpoint."""
    return _endpoints().test(_in_range(endpoint_id)), 202


def _in_range(endpoint_id: int) -> int:
    if not 1 <= endpoint_id < 2**63:
        raise Problem(404, f"webhook endpoint {str(endpoint_id)[:30]} does not exist", field="endpoint_id")
    return endpoint_id
