"""Webhook endpoints: which are disabled and why, their last deliveries, and test, rotate, disable, delete."""

import hashlib
from typing import Any

from flask import Blueprint, current_app, request, url_for
from flask.typing import ResponseReturnValue

from lib.jobs.schemas import Filter, Page
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.request_data import path_id
from lib.web.services import operations, services
from lib.webhooks.schemas import EndpointPage, EndpointPatch, RotateRequest
from lib.webhooks.service import Endpoints

blueprint = Blueprint("webhooks", __name__, url_prefix="/webhooks")

_DELIVERIES = 20


def _endpoints() -> Endpoints:
    own = services(current_app)
    return Endpoints(own.store, own.settings, caller=auth.caller())


@blueprint.get("")
@session.view("admin", all_tenants=False)
def index() -> ResponseReturnValue:
    """Return a page of endpoints, newest first."""
    (page,) = filters.strictly(EndpointPage)
    return render.page("webhooks.html", wanted=page, **_endpoints().find(page))


@blueprint.get("/<int:endpoint_id>")
@session.view("admin", all_tenants=False)
def show(endpoint_id: int) -> ResponseReturnValue:
    """Return an endpoint with its last deliveries: the jobs of its circuit."""
    endpoint = _endpoints().show(_checked(endpoint_id))
    circuit = f"webhook:{endpoint_id}"
    jobs = operations(current_app, caller=auth.caller()).list_jobs(Filter(circuit=circuit), Page(limit=_DELIVERIES))
    return render.page(
        "webhook.html",
        endpoint=endpoint,
        deliveries=jobs["jobs"],
        has_more=jobs["older"] is not None,
        circuit=circuit,
        key=_key_of(endpoint),
    )


@blueprint.post("/<int:endpoint_id>/test")
@session.view("admin", all_tenants=False)
def test(endpoint_id: int) -> ResponseReturnValue:
    """Send a test event."""
    return actions.act(
        lambda: _endpoints().test(_checked(endpoint_id)),
        done=lambda sent: f"Job {sent['job_id']} is queued: the next tick sends the test event.",
        to=_back(endpoint_id),
    )


@blueprint.post("/<int:endpoint_id>/enable")
@session.view("admin", all_tenants=False)
def enable(endpoint_id: int) -> ResponseReturnValue:
    """Enable an endpoint."""
    return _update(endpoint_id, enabled=True, done="Enabled: events from now on are sent.")


@blueprint.post("/<int:endpoint_id>/disable")
@session.view("admin", all_tenants=False)
def disable(endpoint_id: int) -> ResponseReturnValue:
    """Disable an endpoint."""
    return _update(endpoint_id, enabled=False, done="Disabled: it receives no events until you enable it.")


@blueprint.post("/<int:endpoint_id>/rotate-secret")
@session.view("admin", all_tenants=False)
def rotate_secret(endpoint_id: int) -> ResponseReturnValue:
    """Replace the signing secret. The answer alone has the new one; sending the form again returns the same."""

    def verb() -> Any:
        wanted = actions.form(RotateRequest, former_hours=actions.number("former_hours"))
        return _endpoints().rotate(_checked(endpoint_id), wanted, idempotency_key=request.form.get("key") or None)

    return actions.attempt(
        verb,
        lambda rotated: render.page("webhook_secret.html", endpoint=rotated),
        otherwise=url_for("webhooks.show", endpoint_id=endpoint_id),
    )


@blueprint.post("/<int:endpoint_id>/delete")
@session.view("admin", all_tenants=False)
def delete(endpoint_id: int) -> ResponseReturnValue:
    """Delete an endpoint. Webhooks that wait for it are cancelled."""
    return actions.act(
        lambda: _endpoints().delete(_checked(endpoint_id)),
        done=f"Webhook endpoint {endpoint_id} is deleted.",
        to=url_for("webhooks.index"),
    )


def _update(endpoint_id: int, *, enabled: bool, done: str) -> ResponseReturnValue:
    return actions.act(
        lambda: _endpoints().update(_checked(endpoint_id), EndpointPatch(enabled=enabled)),
        done=done,
        to=_back(endpoint_id),
    )


def _key_of(endpoint: dict[str, Any]) -> str:
    """Return the key of the next rotation that this session asks for: the same until the endpoint changes."""
    return hashlib.sha256(f"{session.csrf()} {endpoint['updated_at']}".encode()).hexdigest()


def _back(endpoint_id: int) -> str:
    return actions.back(url_for("webhooks.show", endpoint_id=endpoint_id))


def _checked(endpoint_id: int) -> int:
    return path_id(endpoint_id, name="endpoint_id", missing="webhook endpoint {} does not exist")
