"""Is it up, and how does it stand?"""

from typing import Any

from flask import Blueprint, Response, current_app

from lib.errors import StoreError
from lib.web import auth, problems
from lib.web.services import giftcards, operations

blueprint = Blueprint("health", __name__)


@blueprint.get("/api/health")
def health() -> tuple[dict[str, str], int]:
    """Return whether the database is reachable."""
    try:
        giftcards(current_app).store.is_up()
    except StoreError:
        return {"status": "down"}, 503
    return {"status": "up"}, 200


@blueprint.get("/api/status")
@auth.admin
def status() -> dict[str, Any] | Response:
    """Return the state of the whole system.

    Includes job counts, queues, circuits, dead letters, the last ticks and the doctor's checks. While the database is
    unreachable, the 503 problem has the checks in `doctor`.
    """
    try:
        return operations(current_app).status()
    except StoreError as error:
        from lib.monitoring.doctor.examine import examine

        parts = giftcards(current_app)
        found = examine(parts.store, parts.registry(), parts.settings, failure=error)
        return problems.of_store(error, doctor=found)
