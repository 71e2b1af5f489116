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
    """A page of them, the newest first."""
    from lib.webhooks.schemas import EndpointPage

    (page,) = query(EndpointPage)
    return _endpoints().find(page)


@blueprint.post("")
@auth.admin
def create() -> tuple[dict[str, Any], int]:
    """A new one. Its secret is in this answer and in no other."""
    from lib.webhooks.schemas import EndpointRequest

    return _endpoints().create(read(EndpointRequest)), 201


@blueprint.get("/<int:endpoint_id>")
@auth.admin
def show(endpoint_id: int) -> dict[str, Any]:
    """One."""
    query()
    return _endpoints().show(_in_range(endpoint_id))


@blueprint.patch("/<int:endpoint_id>")
@auth.admin
def change(endpoint_id: int) -> dict[str, Any]:
    """Another address, other events, on or off."""
    from lib.webhooks.schemas import EndpointPatch

    return _endpoints().change(_in_range(endpoint_id), read(EndpointPatch))


@blueprint.delete("/<int:endpoint_id>")
@auth.admin
def delete(endpoint_id: int) -> dict[str, Any]:
    """For good."""
    return _endpoints().delete(_in_range(endpoint_id))


@blueprint.post("/<int:endpoint_id>/rotate-secret")
@auth.admin
def rotate_secret(endpoint_id: int) -> dict[str, Any]:
    """Another secret, in this answer and in no other."""
    from lib.webhooks.schemas import RotateRequest

    return _endpoints().rotate(_in_range(endpoint_id), read(RotateRequest, optional=True))


@blueprint.post("/<int:endpoint_id>/test")
@auth.admin
def test(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """A test event."""
    return _endpoints().test(_in_range(endpoint_id)), 202


def _in_range(endpoint_id: int) -> int:
    if not 1 <= endpoint_id < 2**63:
        raise Problem(404, f"webhook endpoint {str(endpoint_id)[:30]} does not exist", field="endpoint_id")
    return endpoint_id
