"""Limits: list, set and remove. Names are in the body: those of concurrency keys may be of customers."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.limits import Limits
from lib.jobs.schemas import LimitPage, LimitRemoval, LimitRequest
from lib.web import auth
from lib.web.request_data import read_body, read_query
from lib.web.services import services

blueprint = Blueprint("limits", __name__, url_prefix="/api/v1/limits")


def _limits() -> Limits:
    own = services(current_app)
    return Limits(own.store, own.registry, caller=auth.caller())


@blueprint.get("")
@auth.scope("admin", all_tenants=True)
def list_limits() -> dict[str, Any]:
    """Return a page of limits, each with what is in force.

    The settings' limits of stages that have none of their own are among them, with the state `default`.
    """
    (page,) = read_query(LimitPage)
    return _limits().find(page)


@blueprint.put("")
@auth.scope("admin", all_tenants=True)
def set_limit() -> dict[str, Any]:
    """Set a limit, in place of the one with the same kind, name and tenant.

    The next claims obey it. Runs that have begun end normally.
    """
    return _limits().set(read_body(LimitRequest))


@blueprint.post("/remove")
@auth.scope("admin", all_tenants=True)
def remove() -> dict[str, Any]:
    """Remove a limit: the default is in force again."""
    return _limits().remove(read_body(LimitRemoval))
