"""Stages: list, pause and resume."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.schemas import PauseRequest
from lib.web import auth
from lib.web.request_data import read_body
from lib.web.services import operations

blueprint = Blueprint("stages", __name__, url_prefix="/api/v1/stages")


@blueprint.get("")
@auth.scope("admin", all_tenants=True)
def list_stages() -> dict[str, Any]:
    """Return each stage with its effective settings."""
    return operations(current_app, caller=auth.caller()).stages()


@blueprint.post("/<stage>/pause")
@auth.scope("admin", all_tenants=True)
def pause(stage: str) -> dict[str, Any]:
    """Pause a stage.

    Its jobs wait and use up no attempts. The stage `*` is all of them.
    """
    body = read_body(PauseRequest)
    return operations(current_app, caller=auth.caller()).pause(stage, by=body.by, reason=body.reason)


@blueprint.post("/<stage>/resume")
@auth.scope("admin", all_tenants=True)
def resume(stage: str) -> dict[str, Any]:
    """Resume a paused stage."""
    body = read_body(PauseRequest)
    return operations(current_app, caller=auth.caller()).resume(stage, by=body.by, reason=body.reason)
