"""Is it up, and how does it stand?"""

from typing import Any

from flask import Blueprint, current_app

from lib.errors import StoreError
from lib.web import doors
from lib.web.app import giftcards, operations

blueprint = Blueprint("health", __name__)


@blueprint.get("/api/health")
def health() -> tuple[dict[str, str], int]:
    """Up or not, and nothing else: anybody may ask."""
    try:
        giftcards(current_app).store.is_up()
    except StoreError:
        return {"status": "down"}, 503
    return {"status": "up"}, 200


@blueprint.get("/api/status")
@doors.admin
def status() -> dict[str, Any]:
    """Counts, queues, circuits, dead letters, paid without card, the last ticks."""
    return operations(current_app).status()
