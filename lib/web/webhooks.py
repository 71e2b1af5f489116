"""Webhook endpoints. Their code is imported with the first request: ticks never need it."""

from typing import TYPE_CHECKING, Any

from flask import Blueprint, current_app

from lib.web import auth
from lib.web.request_data import idempotency_key, path_id, read_body, read_query
from lib.web.services import services

if TYPE_CHECKING:
    from lib.webhooks.service import Endpoints

blueprint = Blueprint("webhooks", __name__, url_prefix="/api/v1/webhook-endpoints")


def _endpoints() -> "Endpoints":
    from lib.webhooks.service import Endpoints

    own = services(current_app)
    return Endpoints(own.store, own.settings, caller=auth.caller())


@blueprint.get("")
@auth.scope("admin")
def list_endpoints() -> dict[str, Any]:
    """Return a page of webhook endpoints, newest first."""
    from lib.webhooks.schemas import EndpointPage

    (page,) = read_query(EndpointPage)
    return _endpoints().find(page)


@blueprint.post("")
@auth.scope("admin")
def create() -> tuple[dict[str, Any], int]:
    """Create a webhook endpoint.

    Only this response has its signing secret. If it is lost, repeat the request with the same `Idempotency-Key` and
    body: it returns the same endpoint and its secret. The same key with another body is rejected with 422.
    """
    from lib.webhooks.schemas import EndpointRequest

    return _endpoints().create(read_body(EndpointRequest), idempotency_key=idempotency_key()), 201


@blueprint.get("/<int:endpoint_id>")
@auth.scope("admin")
def show(endpoint_id: int) -> dict[str, Any]:
    """Return a webhook endpoint."""
    read_query()
    return _endpoints().show(_checked(endpoint_id))


@blueprint.patch("/<int:endpoint_id>")
@auth.scope("admin")
def update(endpoint_id: int) -> dict[str, Any]:
    """Update the given fields of a webhook endpoint."""
    from lib.webhooks.schemas import EndpointPatch

    return _endpoints().update(_checked(endpoint_id), read_body(EndpointPatch))


@blueprint.delete("/<int:endpoint_id>")
@auth.scope("admin")
def delete(endpoint_id: int) -> dict[str, Any]:
    """Delete a webhook endpoint."""
    return _endpoints().delete(_checked(endpoint_id))


@blueprint.post("/<int:endpoint_id>/rotate-secret")
@auth.scope("admin")
def rotate_secret(endpoint_id: int) -> dict[str, Any]:
    """Replace the signing secret of a webhook endpoint.

    Only this response has the new secret. The previous one also signs for `former_hours`. If the response is lost,
    repeat the request with the same `Idempotency-Key` and body: it returns the same secret.
    """
    from lib.webhooks.schemas import RotateRequest

    wanted = read_body(RotateRequest, optional=True)
    return _endpoints().rotate(_checked(endpoint_id), wanted, idempotency_key=idempotency_key())


@blueprint.post("/<int:endpoint_id>/test")
@auth.scope("admin")
def test(endpoint_id: int) -> tuple[dict[str, Any], int]:
    """Send a test event to a webhook endpoint."""
    return _endpoints().test(_checked(endpoint_id)), 202


def _checked(endpoint_id: int) -> int:
    return path_id(endpoint_id, name="endpoint_id", missing="webhook endpoint {} does not exist")
