"""The API of webhook endpoints. What it works with is imported when it is asked: the clock's calls never need it."""

from typing import TYPE_CHECKING, Any

from flask import Blueprint, current_app

from lib.web import doors
from lib.web.bodies import read
from lib.web.parts import giftcards
from lib.web.problems import Problem
from lib.web.queries import query

if TYPE_CHECKING:
    from lib.webhooks.endpoints import Endpoints

blueprint = Blueprint("webhooks", __name__, url_prefix="/api/v1/webhook-endpoints")


def _endpoints() -> "Endpoints":
    from lib.webhooks.endpoints import Endpoints

    parts = giftcards(current_app)
    return Endpoints(parts.store, parts.settings)


@blueprint.get("")
@doors.admin
def list_endpoints() -> dict[str, Any]:
    """A page of them, the newest first."""
    from lib.webhooks.requests import EndpointPage

    (page,) = query(EndpointPage)
    return _endpoints().find(page)


@blueprint.post("")
@doors.admin
def create() -> tuple[dict[str, Any], int]:
    """A new one. Its secret is in this answer and in no other."""
    from lib.webhooks.requests import EndpointRequest

    return _endpoints().create(read(EndpointRequest)), 201


@blueprint.get("/<int:endpoint_id>")
@doors.admin
def show(endpoint_id: int) -> dict[str, Any]:
    """One."""
    query()
    return _endpoints().show(_in_range(endpoint_id))


@blueprint.patch("/<int:endpoint_id>")
@doors.admin
def change(endpoint_id: int) -> dict[str, Any]:
    """Another address, other events, on or off."""
    from lib.webhooks.requests import EndpointPatch

    return _endpoints().change(_in_range(endpoint_id), read(EndpointPatch))


@blueprint.delete("/<int:endpoint_id>")
@doors.admin
def delete(endpoint_id: int) -> dict[str, Any]:
    """For good."""
    return _endpoints().delete(_in_range(endpoint_id))


@blueprint.post("/<int:endpoint_id>/rotate-secret")
@doors.admin
def rotate_secret(endpoint_id: int) -> dict[str, Any]:
    """Another secret, in this answer and in no other."""
    from lib.webhooks.requests import RotateRequest

    return _endpoints().rotate(_in_range(endpoint_id), read(RotateRequest, optional=True))


@blueprint.post("/<int:endpoint_id>/test")
@doors.admin
def test(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """A test event."""
    return _endpoints().test(_in_range(endpoint_id)), 202


def _in_range(endpoint_id: int) -> int:
    if not 1 <= endpoint_id < 2**63:
        raise Problem(404, f"webhook endpoint {str(endpoint_id)[:30]} does not exist", field="endpoint_id")
    return endpoint_id
