"""Circuits: list and reset."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.schemas import ActRequest, CircuitPage
from lib.web import auth
from lib.web.request_data import read_body, read_query, refuse_nul
from lib.web.services import operations

blueprint = Blueprint("circuits", __name__, url_prefix="/api/v1/circuits")


@blueprint.get("")
@auth.scope("admin", all_tenants=True)
def list_circuits() -> dict[str, Any]:
    """Return a page of the circuits that are not closed or have recent failures, by name."""
    (page,) = read_query(CircuitPage)
    return operations(current_app, caller=auth.caller()).circuits(page)


@blueprint.post("/<path:name>/reset")
@auth.scope("admin", all_tenants=True)
def reset(name: str) -> dict[str, Any]:
    """Close a circuit."""
    refuse_nul(name, title="a circuit's name cannot hold a NUL character")
    body = read_body(ActRequest, optional=True)
    return operations(current_app, caller=auth.caller()).reset_circuit(name, reason=body.reason)
