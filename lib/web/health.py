"""Health, alert conditions and the state of the system."""

from typing import Any

from flask import Blueprint, Response, current_app

from lib.errors import StoreError
from lib.validation import LateModel
from lib.web import auth, clock, problems
from lib.web.request_data import read_query
from lib.web.services import operations, services

blueprint = Blueprint("health", __name__)


class StatusQuery(LateModel):
    """What the status is to check besides what it reads."""

    probe: bool = False


@blueprint.get(clock.HEALTH_PATH)
def health() -> tuple[dict[str, Any], int]:
    """Return whether the database is reachable and accepts writes, and the names of broken stages."""
    return clock.state(services(current_app))


@blueprint.get("/api/health/deep")
@auth.scope("metrics", all_tenants=True)
def deep() -> tuple[dict[str, Any], int]:
    """Return the alert conditions that hold and the broken stages, with 503 if there are any.

    Also sends notifications that are due, so that alerts work when no ticks run.
    """
    from lib.monitoring.alerts import notify

    own = services(current_app)
    registry = own.registry()
    notified = notify(own.store, registry, own.settings)
    alerts = own.store.active_alerts()
    is_well = not alerts and not registry.broken
    found = {"alerts": alerts, "broken_stages": list(registry.broken), "notified": notified}
    return {"status": "healthy" if is_well else "unhealthy"} | found, 200 if is_well else 503


@blueprint.get("/api/overview")
@auth.scope("jobs:read", all_tenants=True)
def overview() -> dict[str, Any]:
    """Return the data of the first screen, from one database call.

    The verdict (what is wrong, what happens next by itself, what to do), ticks, stages, circuits, dead letters, and
    what happened today. Personal data is masked.
    """
    return operations(current_app, caller=auth.caller()).overview()


@blueprint.get("/api/status")
@auth.scope("admin", all_tenants=True)
def status() -> dict[str, Any] | Response:
    """Return the state of the whole system.

    Includes job counts, queues, circuits, dead letters, the last ticks and the doctor's checks. While the database is
    unreachable, the 503 problem has the checks in `doctor`. With `probe=true` the doctor also connects to the mail
    server, which takes up to 5 seconds.
    """
    (wanted,) = read_query(StatusQuery)
    try:
        return operations(current_app, caller=auth.caller()).status(probe=wanted.probe)
    except StoreError as error:
        from lib.monitoring.doctor.examine import examine

        own = services(current_app)
        checks = examine(own.store, own.registry(), own.settings, failure=error, probe=wanted.probe)
        return problems.of_store(error, doctor=checks)
